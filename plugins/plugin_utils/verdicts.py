# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From measurements to verdicts: of each link, then of the node or path to blame, then of the whole test. Pure.

A link is `passed` only when it was measured whole, over the right path, in the right memory, and its best average reaches the
threshold. `slow` is measured and below; `failed` could not be measured and carries a reason code.
"""

from __future__ import annotations

from ansible_collections.k8si.fabric.plugins.plugin_utils import diagnosis, units

PASSED, SLOW, FAILED, SKIPPED = "passed", "slow", "failed", "skipped"


def threshold(server: dict, client: dict, settings: dict) -> dict:
    """The bandwidth that a link must reach.

    Returns:
        {`gbps`: number or null, `words`: how it came about}. `threshold_gbps` > 0 is taken as it is; otherwise
        `threshold_percent` of the slower end's line rate, twice that with `bidirectional` (perftest prints the sum); null
        when neither end's line rate could be read.
    """
    if settings["threshold_gbps"]:
        return {
            "gbps": float(settings["threshold_gbps"]),
            "words": "the absolute threshold",
        }
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
        finding (null when passed), outputs {server, client} (what both ends printed, command lines, exit codes), duration_s.
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
    limit = threshold(server, client, settings)
    best = run["best"] or {}
    judged = {
        **link,
        "server_node": server["node"],
        "client_node": client["node"],
        "verdict": FAILED,
        "code": None,
        "bandwidth_average_gbps": best.get("bandwidth_average_gbps") if run["measured"] else None,
        "bytes": best.get("bytes") if run["measured"] else None,
        "line_rate_gbps": min(
            (e["line_rate_gbps"] for e in (server, client) if e["line_rate_gbps"]), default=None
        ),
        "threshold_gbps": limit["gbps"],
        "threshold_words": limit["words"],
        "rows": run["rows"],
        "finding": None,
        "outputs": {"server": _evidence(server_run), "client": _evidence(client_run)},
        "duration_s": client_run.get("duration_s"),
    }
    where = {
        "link": link["id"],
        "rail": link["rail"],
        "server": server["node"],
        "client": client["node"],
    }
    finding = run["finding"]
    if run["measured"]:
        finding = _path_finding(run["parsed"], server, client)
        if finding is None and limit["gbps"] is None:
            finding = diagnosis.finding("no_line_rate", seen=_rates(server, client))
        if finding is None and best["bandwidth_average_gbps"] < limit["gbps"]:
            judged["verdict"] = SLOW
            finding = diagnosis.finding(
                "gpu_slow_link" if settings["memory"] == "cuda" else "slow_link",
                seen=f"{best['bandwidth_average_gbps']:g} Gb/s on average at best (messages of {best['bytes']} bytes);"
                f" required {limit['gbps']:g} Gb/s ({limit['words']})",
            )
        if finding is None:
            return {**judged, "verdict": PASSED}
    if finding is None:
        finding = diagnosis.finding("unknown", seen="the run was not measured and gave no reason")
    judged["finding"] = {**finding, "where": {**where, **(finding.get("where") or {})}}
    judged["code"] = finding["code"]
    return judged


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


def localise(links: list[dict]) -> list[dict]:
    """Says which node or path the links that did not pass point to.

    Returns findings: each has `where`, `links` (ids it explains), `seen` with the worst figure, and the words of the worst
    link's own finding for cause and remedy. A node is blamed when its links to two or more partners did not pass and
    none to any partner passed both ways; a path when both of its ends are fine with somebody else; one direction of a
    path likewise. Otherwise the pair is named, with `not_enough_evidence`.
    """
    findings = []
    for rail in sorted({k["rail"] for k in links}):
        findings += _localise_rail([k for k in links if k["rail"] == rail], rail)
    return findings


def _localise_rail(links: list[dict], rail: int) -> list[dict]:
    partners: dict[str, dict[str, bool]] = {}
    for link in links:
        passed = link["verdict"] == PASSED
        for own, other in (
            (link["server_node"], link["client_node"]),
            (link["client_node"], link["server_node"]),
        ):
            row = partners.setdefault(own, {})
            row[other] = row.get(other, True) and passed
    bad_links = [k for k in links if k["verdict"] != PASSED]
    if not bad_links:
        return []
    proven = {n for n, row in partners.items() if any(row.values())}
    blamed = [n for n, row in partners.items() if n not in proven and len(row) > 1]
    if not proven and len(partners) > 2:
        return [_blame("fabric_wide", bad_links, {"rail": rail}, "every link of the rail")]
    findings, explained = [], set()
    for node in blamed:
        mine = [k for k in bad_links if node in (k["server_node"], k["client_node"])]
        explained |= {k["id"] for k in mine}
        count = len(partners[node])
        findings.append(
            _blame(
                "bad_node",
                mine,
                {"node": node, "rail": rail},
                f"{node}: no link to any of {count} partners passed",
            )
        )
    rest = [k for k in bad_links if k["id"] not in explained]
    for pair in dict.fromkeys(tuple(sorted((k["server_node"], k["client_node"]))) for k in rest):
        mine = [k for k in rest if tuple(sorted((k["server_node"], k["client_node"]))) == pair]
        both = [k for k in links if tuple(sorted((k["server_node"], k["client_node"]))) == pair]
        where = {"nodes": list(pair), "rail": rail}
        if len(mine) < len(both):
            words = f"only {mine[0]['client_node']} to {mine[0]['server_node']}; the other direction passed"
            findings.append(_blame("one_way", mine, where, words))
        elif set(pair) <= proven:
            words = f"between {pair[0]} and {pair[1]}; both are fine with other nodes"
            findings.append(_blame("bad_path", mine, where, words))
        else:
            words = f"between {pair[0]} and {pair[1]}; which of the two is to blame takes a third node to tell"
            findings.append(_blame("not_enough_evidence", mine, where, words))
    return findings


def _blame(code: str, links: list[dict], where: dict, words: str) -> dict:
    """One finding for several links: who, the worst figure, and the cause and remedy of the worst link's own finding."""
    worst = min(links, key=lambda k: (k["verdict"] != FAILED, k["bandwidth_average_gbps"] or 0.0))
    inner = worst["finding"]
    return {
        **inner,
        "code": inner["code"],
        "localisation": code,
        "where": where,
        "links": [k["id"] for k in links],
        "verdict": worst["verdict"],
        "seen": f"{words}. {worst['id']}: {inner['seen']}",
    }


def conclude(state: dict, settings: dict) -> dict:
    """The result of a test, the fact that its role leaves.

    Args:
        state: {`nodes`: chosen, `skipped`, `endpoints`, `links` (judged, in the order of measurement), `rounds` (number),
        `findings` (of nodes, pods and endpoints), `left_behind` [pod names], `check_mode`, `started`, `ended` (ISO 8601)}.

    Returns:
        {test, memory, run, passed (bool), verdict, reason (null or a code), nodes, skipped, endpoints, links, findings,
        best_gbps, worst_gbps, parameters, started, ended}. `passed` needs at least one link, all passed, and no finding.
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
        "parameters": settings,
        "started": state["started"],
        "ended": state["ended"],
    }


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
    }
