# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From measurements to verdicts: of each link, then of the node or path to blame, then of the whole test. Pure.

A link is `passed` only when it was measured whole, over the right path, in the right memory, and its best average reaches the
threshold. `slow` is measured and below; `failed` could not be measured and carries a reason code.
"""

from __future__ import annotations

from ansible_collections.k8si.fabric.plugins.plugin_utils import baseline, diagnosis, units
from ansible_collections.k8si.fabric.plugins.plugin_utils.commands import LATENCY_TOOLS
from ansible_collections.k8si.fabric.plugins.plugin_utils.fleet import outliers, pair_sums
from ansible_collections.k8si.fabric.plugins.plugin_utils.localise import localise

PASSED, SLOW, FAILED, SKIPPED = "passed", "slow", "failed", "skipped"


def threshold(server: dict, client: dict, settings: dict, link_id: str = "") -> dict:
    """The bandwidth that a link must reach.

    Returns:
        {`gbps`: number or null, `words`: how it came about}. `threshold_gbps` > 0 is taken as it is; otherwise
        `threshold_percent` of the slower end's line rate, twice that with `bidirectional` (perftest prints the sum); null
        when neither end's line rate could be read. In GPU memory `threshold_host_percent` > 0 of what the same link
        reached in host memory, where that was measured, counts if it is more.
    """
    limit = _plain_threshold(server, client, settings)
    share, host = settings["threshold_host_percent"], settings["host_gbps"].get(link_id)
    if share and host is not None and host * share / 100 > (limit["gbps"] or 0):
        words = f"{share:g} % of {host:g} Gb/s, the same link in host memory"
        return {"gbps": round(host * share / 100, 2), "words": words}
    return limit


def _plain_threshold(server: dict, client: dict, settings: dict) -> dict:
    if settings["threshold_gbps"]:
        return {
            "gbps": float(settings["threshold_gbps"]),
            "words": "the absolute threshold",
        }
    if not settings["threshold_percent"]:
        return {"gbps": None, "words": "there is no figure of the same link in host memory"}
    rates = [e["line_rate_gbps"] for e in (server, client)]
    if not all(rates):
        return {"gbps": None, "words": "the line rate could not be read"}
    ways = 2 if settings["bidirectional"] else 1
    twice = "twice " if ways == 2 else ""
    return {
        "gbps": round(min(rates) * ways * settings["threshold_percent"] / 100, 2),
        "words": f"{settings['threshold_percent']:g} % of {twice}the line rate {min(rates):g} Gb/s",
    }


def judge_round(
    links: list[dict], results: list[dict], endpoints: list[dict], settings: dict
) -> list[dict]:
    """Judges every link of a round.

    Args:
        links: the round's links. results: what `k8s_exec_batch` returned for `round_items`. endpoints: all endpoints.
        settings: the test's settings.

    Returns:
        For each link: the link's own keys, server_node, client_node, verdict, code (null when passed),
        bandwidth_average_gbps and bytes (of the best row; null), line_rate_gbps, threshold_gbps, threshold_words, rows,
        finding (null when passed), outputs {server, client} (what both ends printed, command lines, exit codes), duration_s,
        server_device, client_device, gpu_paths ({server, client}: class of the way between NIC and GPU; null in host
        memory). Latency tools: latency_us (average of the quickest size), latency_p99_us and threshold_us instead of
        bandwidth.
    """
    by_item = {r["id"]: r for r in results}
    by_id = {e["id"]: e for e in endpoints}
    return [
        _judge_link(
            link,
            by_item[f"{link['id']} server"],
            by_item[f"{link['id']} client"],
            by_id[link["server"]],
            by_id[link["client"]],
            settings,
        )
        for link in links
    ]


def _judge_link(link, server_run, client_run, server, client, settings) -> dict:
    run = diagnosis.judge_run(
        server_run,
        client_run,
        memory=settings["memory"],
        host_passed=settings.get("host_passed"),
    )
    latency = settings["tool"] in LATENCY_TOOLS
    limits = _limits(server, client, settings, link["id"])
    limit = (min if latency else max)(limits, key=lambda k: k["figure"] or 0.0)
    best = run["best"] or {}
    quickest = _quickest(run["rows"]) if latency and run["measured"] else {}
    judged = {
        **link,
        "server_node": server["node"],
        "client_node": client["node"],
        "verdict": FAILED,
        "code": None,
        "bandwidth_average_gbps": best.get("bandwidth_average_gbps") if run["measured"] else None,
        "bytes": (quickest or best).get("bytes") if run["measured"] else None,
        "line_rate_gbps": min(
            (e["line_rate_gbps"] for e in (server, client) if e["line_rate_gbps"]), default=None
        ),
        "threshold_gbps": None if latency else limit["figure"],
        "threshold_words": limit["words"],
        "rows": run["rows"],
        "finding": None,
        "outputs": {"server": _evidence(server_run), "client": _evidence(client_run)},
        "duration_s": client_run.get("duration_s"),
        "server_device": server["device"],
        "client_device": client["device"],
        "gpu_paths": None,
    }
    if latency:
        judged["latency_us"] = quickest.get("latency_average_us")
        judged["latency_p99_us"] = quickest.get("latency_p99_us")
        judged["threshold_us"] = limit["figure"]
    if settings["memory"] == "cuda":
        judged["gpu_paths"] = {"server": server["gpu_path"], "client": client["gpu_path"]}
    where = {
        "link": link["id"],
        "rail": link["rail"],
        "server": server["node"],
        "client": client["node"],
    }
    finding = run["finding"]
    if run["measured"]:
        finding = _path_finding(run["parsed"], server, client)
        if finding is None and latency:
            judged["verdict"], finding = _judge_latency(quickest, limits)
        elif finding is None and limits[0]["figure"] is None:
            finding = diagnosis.finding(
                "no_line_rate", seen=f"{limits[0]['words']}: {_rates(server, client)}"
            )
        elif finding is None:
            ends = _path_words(server, client, settings)
            judged["verdict"], finding = _judge_bandwidth(best, limits, ends)
        if finding is None:
            return {**judged, "verdict": PASSED}
    if finding is None:
        finding = diagnosis.finding("unknown", seen="the run was not measured and gave no reason")
    judged["finding"] = {**finding, "where": {**where, **(finding.get("where") or {})}}
    judged["code"] = finding["code"]
    return judged


def _path_words(server: dict, client: dict, settings: dict) -> str:
    """How far GPU and NIC are from each other at both ends; empty in host memory."""
    if settings["memory"] != "cuda":
        return ""
    ends = (f"{e['node']} {e['gpu_path'] or 'unknown'}" for e in (client, server))
    return f"; between NIC and GPU: {', '.join(ends)}"


def _quickest(rows: list[dict]) -> dict:
    """The row with the least average latency; rows without one (`inf` is printed for some) do not count."""
    known = [row for row in rows if row.get("latency_average_us") is not None]
    return min(known, key=lambda row: row["latency_average_us"], default={})


def _limits(server: dict, client: dict, settings: dict, link_id: str) -> list[dict]:
    """[{figure, words, code}] that a link must reach, or for latency stay below: the threshold, then its own earlier figure."""
    if settings["tool"] in LATENCY_TOOLS:
        limits = [{"figure": settings["threshold_us"], "words": "", "code": "high_latency"}]
    else:
        code = "gpu_slow_link" if settings["memory"] == "cuda" else "slow_link"
        plain = threshold(server, client, settings, link_id)
        limits = [{"figure": plain["gbps"], "words": plain["words"], "code": code}]
    earlier = baseline.limit(link_id, settings)
    return [*limits, {**earlier, "code": "regression"}] if earlier else limits


def _judge_bandwidth(best: dict, limits: list[dict], ends: str) -> tuple[str, dict | None]:
    """The first limit that is missed tells; ends: words about both ends."""
    for limit in limits:
        if best["bandwidth_average_gbps"] < limit["figure"]:
            return SLOW, diagnosis.finding(
                limit["code"],
                seen=f"{best['bandwidth_average_gbps']:g} Gb/s on average at best (messages of {best['bytes']} bytes);"
                f" required {limit['figure']:g} Gb/s ({limit['words']}){ends}",
            )
    return PASSED, None


def _judge_latency(quickest: dict, limits: list[dict]) -> tuple[str, dict | None]:
    if not quickest:
        return FAILED, diagnosis.finding(
            "no_result", seen="the table has no latency that is a number"
        )
    for limit in limits:
        if quickest["latency_average_us"] > limit["figure"]:
            words = f" ({limit['words']})" if limit["words"] else ""
            return SLOW, diagnosis.finding(
                limit["code"],
                seen=f"{quickest['latency_average_us']:g} µs on average at best (messages of {quickest['bytes']} bytes);"
                f" required {limit['figure']:g} µs at most{words}",
            )
    return PASSED, None


def _path_finding(parsed: dict, server: dict, client: dict) -> dict | None:
    """`wrong_path` unless the addresses that both ends printed are those of the two endpoints.

    With -R the kernel picks the device by route, whatever -d says; a run over another rail or over loopback must not pass.
    """
    for role, own, peer in (("client", client, server), ("server", server, client)):
        addresses = (parsed.get(role) or {}).get("addresses") or {}
        for side, endpoint in (("local", own), ("remote", peer)):
            seen = addresses.get(side) or []
            if role == "server" and not seen:
                continue  # a server that was ended may have printed none; the client's pair is enough
            if not seen:
                return diagnosis.finding(
                    "wrong_path",
                    seen=f"the {role} printed no {side} address, so the path is not proven",
                )
            for address in seen:
                problem = _differs(address, endpoint)
                if problem:
                    return diagnosis.finding(
                        "wrong_path",
                        seen=f"{side} address of the {role} should be {endpoint['device']} of {endpoint['node']}: {problem}",
                    )
    return None


def _differs(address: dict, endpoint: dict) -> str:
    if endpoint["link_layer"] == "InfiniBand":
        if address.get("lid") != endpoint["lid"]:
            return f"LID {address.get('lid')}, expected {endpoint['lid']}"
        return ""
    wanted = {endpoint["gid"]} if endpoint["gid"] else set()
    if endpoint["address"]:
        wanted.add(units.canonical_gid(endpoint["address"]))
    if address.get("gid") not in wanted:
        return f"GID {address.get('gid')}, expected {' or '.join(sorted(wanted))}"
    return ""


def _rates(server: dict, client: dict) -> str:
    return "; ".join(f"{e['node']} {e['device']}: {e['line_rate_gbps']}" for e in (server, client))


def _evidence(run: dict) -> dict:
    keys = (
        *("command", "stdout", "stderr", "rc", "outcome", "reason", "message"),
        *("start", "duration_s", "attempts"),
    )
    return {k: run.get(k) for k in keys}


def conclude(state: dict, settings: dict) -> dict:
    """The result of a test, the fact that its role leaves.

    Args:
        state: {`nodes`: chosen, `skipped`, `endpoints`, `links` (judged, in the order of measurement), `rounds` (number),
        `findings` (of nodes, pods and endpoints), `notes` (sentences), `left_behind` [pod names], `check_mode`, `started`, `ended` (ISO 8601)}.

    Returns:
        {test, memory, run, passed (bool), verdict, reason (null or a code), nodes, skipped, endpoints, links, findings,
        best_gbps, worst_gbps, parameters, started, ended, round_count, outliers, pairs (sums of rails that ran at
        once), notes (what a person should know of choices made)}. `passed` needs at least one link, all passed, and no finding.
    """
    links = state["links"]
    findings = state["findings"] + localise(links)
    if state["left_behind"]:
        findings.append(
            diagnosis.finding(
                "pods_left_behind",
                where={"namespace": settings["namespace"]},
                seen=f"still there after clean-up: {', '.join(state['left_behind'])}",
            )
        )
    if not links and not findings:
        words = "check mode: nothing was run" if state["check_mode"] else "no link was measured"
        findings.append(diagnosis.finding("nothing_measured", seen=words))
    verdict = PASSED
    if state["check_mode"]:
        verdict = SKIPPED
    elif findings:
        failed = any(k["verdict"] == FAILED for k in links) or not links
        failed = failed or any("localisation" not in f for f in findings)
        verdict = FAILED if failed else SLOW
    figures = [
        k["bandwidth_average_gbps"] for k in links if k["bandwidth_average_gbps"] is not None
    ]
    return {
        "test": settings["test"],
        "memory": settings["memory"],
        "run": settings["run"],
        "passed": verdict == PASSED,
        "verdict": verdict,
        "reason": findings[0]["code"] if findings else None,
        "nodes": state["nodes"],
        "skipped": state["skipped"],
        "endpoints": state["endpoints"],
        "links": links,
        "findings": findings,
        "best_gbps": max(figures, default=None),
        "worst_gbps": min(figures, default=None),
        "parameters": _parameters(state, settings),
        "started": state["started"],
        "ended": state["ended"],
        "round_count": state["rounds"],
        "outliers": outliers(links, settings["outlier_percent"]),
        "pairs": pair_sums(links) if settings["rail_mode"] == "parallel" else [],
        "notes": state["notes"] + baseline.notes(links, settings),
    }


def _parameters(state: dict, settings: dict) -> dict:
    """The settings, with what `auto` came to; without the figures that thresholds were made from."""
    method = next((e["cuda_method"] for e in state["endpoints"] if "cuda_method" in e), None)
    chosen = {"cuda_method": method} if method else {}
    return {k: v for k, v in {**settings, **chosen}.items() if k not in ("host_gbps", "baseline")}


def failed_task_finding(result: dict, task: str) -> dict:
    """The finding of a task that failed, such as a pod that admission refused or an API that was lost.

    Args:
        result: what Ansible keeps as `ansible_failed_result`. task: the task's name.
    """
    text = str(result.get("msg") or result.get("module_stderr") or "no message").strip()
    found = diagnosis.diagnose_text(text, "pod")
    where = {"task": task}
    if found:
        return {**found, "where": {**where, **(found.get("where") or {})}}
    return diagnosis.finding(
        "task_failed", where=where, seen=f"{task}: {text[:2000]}", line=text[:2000]
    )


def skipped_result(test: str, memory: str, code: str, seen: str) -> dict:
    """The result of a test that did not run, in the same shape as `conclude`."""
    return {
        "test": test,
        "memory": memory,
        "run": None,
        "passed": False,
        "verdict": SKIPPED,
        "reason": code,
        "nodes": [],
        "skipped": [],
        "endpoints": [],
        "links": [],
        "findings": [diagnosis.finding(code, seen=seen)],
        "best_gbps": None,
        "worst_gbps": None,
        "parameters": {},
        "started": None,
        "ended": None,
        "round_count": 0,
        "outliers": [],
        "pairs": [],
        "notes": [],
    }
