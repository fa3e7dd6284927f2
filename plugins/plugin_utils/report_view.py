# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What report.html shows, decided before any template sees it. Pure.

The page stays readable and small whatever the fabric's size: tables show what did not pass and the slowest of the rest,
maps put neighbours together, and raw outputs share a budget. results.json always has everything.
"""

from __future__ import annotations

from collections import Counter
from statistics import median

from ansible_collections.k8si.fabric.plugins.plugin_utils import report_charts as charts
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_map import STEPS, heat_maps
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_nodes import ORDER
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_text import (
    count,
    duration,
    moment,
    shortened,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.words import HEADINGS, TITLES, gbps, place

MOST_LINKS = 1000  # rows of a test's table
OPEN_TABLE = 32  # a longer table of links that passed is folded
MOST_PLACES = 25  # places named in one finding
MOST_OUTPUTS = 60  # links whose raw outputs are shown
OUTPUT_BUDGET = 1_000_000  # characters of all raw outputs together
LONGEST_OUTPUT = 20_000
MOST_ENDPOINTS = 512
MOST_CHANGES = 200
MOST_ROUNDS = 200

SIGNS = {
    "passed": "✓",
    "slow": "▾",
    "failed": "✕",
    "skipped": "\u2013",
    "advice": "i",
    "suspect": "?",
}
PARAMETERS = (
    ("tool", "tool"),
    ("memory", "memory"),
    ("image", "image"),
    ("sizes", "message sizes"),
    ("duration_s", "seconds a size (0: by iterations)"),
    ("iterations", "iterations (0: the tool's default)"),
    ("qps", "queue pairs"),
    ("bidirectional", "both ways at once"),
    ("both_directions", "each pair in both directions"),
    ("rdma_cm", "connected by rdma_cm (-R)"),
    ("extra_options", "further options"),
    ("threshold_percent", "threshold, % of line rate"),
    ("threshold_gbps", "threshold, Gb/s (0: by percentage)"),
    ("cuda_method", "way to GPU memory"),
    ("namespace", "namespace"),
    ("timeout_s", "seconds a measurement may take"),
)


def make_view(document: dict) -> dict:
    """The page's content: texts, tables and charts; every text still unescaped."""
    tests = [_test(t, document) for t in document["tests"]]
    outputs = _outputs(document["tests"])
    return {
        "title": f"Fabric report {document['run']['id']}",
        "answer": document["answer"]["verdict"],
        "heading": f"The network is {HEADINGS[document['answer']['verdict']].lower()}",
        "sentence": document["answer"]["sentence"].removeprefix("FIT: "),
        "facts": _facts(document),
        "cards": _cards(document),
        "findings": _findings(document),
        "readiness": document["readiness"],
        "checks": _checks(document["readiness"]),
        "tests": tests,
        "gpu": _gpu(document["tests"]),
        "comparison": _comparison(document["comparison"]),
        "outputs": outputs,
        "legend": STEPS,
        "signs": SIGNS,
        "generator": document["generator"],
        "run": document["run"],
        "curves": {t["name"]: t["curves"]["select"] for t in tests if t["curves"]},
    }


def _facts(document: dict) -> list[tuple[str, str]]:
    run = document["run"]
    facts = [("Run", run["id"])]
    if run["started"]:
        facts.append(("Started", run["started"].replace("T", " ").replace("Z", " UTC")))
        facts.append(("Took", duration(run["duration_s"])))
    if document["cluster"].get("version"):
        facts.append(("Kubernetes", document["cluster"]["version"]))
    if run["check_mode"]:
        facts.append(("Check mode", "nothing was run"))
    return facts


def _cards(document: dict) -> list[dict]:
    counts = document["counts"]
    cards = []
    if document["readiness"]:
        checks = counts["checks"]
        total = sum(checks.values())
        cards.append(
            {
                "label": "Readiness",
                "value": "ready" if document["readiness"]["passed"] else "not ready",
                "note": f"{checks['passed']} of {count(total, 'check')} passed, {checks['failed']} failed",
                "verdict": "passed" if document["readiness"]["passed"] else "failed",
            }
        )
    for test in document["tests"]:
        links = test["links"]
        passed = sum(k["verdict"] == "passed" for k in links)
        note = (
            f"{passed} of {count(len(links), 'link')} passed" if links else "no link was measured"
        )
        if test["worst_gbps"] is not None:
            note += f"; slowest {gbps(test['worst_gbps'])} Gb/s"
        cards.append(
            {
                "label": _title(test),
                "value": test["verdict"],
                "note": note,
                "verdict": test["verdict"],
            }
        )
    if counts["nodes"]:
        states = Counter(n["verdict"] for n in document["nodes"])
        cards.append(
            {
                "label": "Nodes measured",
                "value": str(counts["nodes"]),
                "note": ", ".join(f"{states[v]} {v}" for v in reversed(ORDER) if states[v]),
                "verdict": "",
            }
        )
    return cards


def _title(test: dict) -> str:
    return TITLES.get(test["test"], test["test"])


def _findings(document: dict) -> list[dict]:
    """Findings with the same cause and remedy together: a broken switch must not be a hundred cards."""
    groups: dict[tuple, dict] = {}
    anchors = _output_anchors(document["tests"])
    for finding in document["findings"]:
        code = finding["code"]
        if finding.get("localisation"):
            code = f"{finding['localisation']}: {code}"
        key = (finding["source"], finding["verdict"], code, finding["title"], finding["remedy"])
        group = groups.setdefault(
            key,
            {
                "source": TITLES.get(finding["source"], finding["source"]),
                "verdict": finding["verdict"],
                "code": code,
                "title": finding["title"],
                "cause": finding["cause"],
                "remedy": finding["remedy"],
                "required": finding.get("required") or "",
                "reference": finding["reference"],
                "places": [],
                "more": 0,
            },
        )
        if len(group["places"]) >= MOST_PLACES:
            group["more"] += 1
            continue
        lines = finding.get("lines") or {}
        raw = [f"{side}: {text}" for side, texts in lines.items() for text in texts]
        group["places"].append(
            {
                "where": place(finding["where"]),
                "seen": finding["seen"],
                "lines": raw or ([finding["line"]] if finding["line"] else []),
                "outputs": [
                    {
                        "label": link.replace(" -> ", " → "),
                        "anchor": anchors[finding["source"], link],
                    }
                    for link in (finding.get("links") or [])
                    if (finding["source"], link) in anchors
                ][:4],
            }
        )
    return list(groups.values())


def _checks(readiness: dict | None) -> list[dict]:
    if not readiness:
        return []
    order = {"failed": 0, "advice": 1, "passed": 2, "skipped": 3}
    checks = [{**c, "place": place(c["where"])} for c in readiness["checks"]]
    return sorted(checks, key=lambda c: order.get(c["status"], 1))


def _test(test: dict, document: dict) -> dict:
    name, links = test["test"], test["links"]
    order = sorted(
        links, key=lambda k: (k["verdict"] == "passed", k["bandwidth_average_gbps"] or 0.0, k["id"])
    )
    listed = order[:MOST_LINKS]
    rows = [_row(k, f"{name}-link-{n}") for n, k in enumerate(listed)]
    anchors = {k["id"]: row["anchor"] for k, row in zip(listed, rows, strict=True)}
    maps = heat_maps(test, anchors)
    bad = [r for r in rows if r["verdict"] != "passed"]
    good = [r for r in rows if r["verdict"] == "passed"]
    chart = charts.curves(listed)
    return {
        "name": name,
        "title": _title(test),
        "verdict": test["verdict"],
        "reason": test["reason"],
        "figures": _figures(test),
        "maps": maps,
        "walls": _walls(document["nodes"], name) if any(m["grouped"] for m in maps) else [],
        "distribution": charts.distribution(links),
        "curves": chart,
        "over_time": charts.over_time(test),
        "bad": bad,
        "good": good,
        "good_open": len(good) <= OPEN_TABLE,
        "unlisted": len(links) - len(listed),
        "rounds": [_round(r) for r in test["rounds"][:MOST_ROUNDS]],
        "more_rounds": max(0, len(test["rounds"]) - MOST_ROUNDS),
        "skipped": test["skipped"][:MOST_ENDPOINTS],
        "more_skipped": max(0, len(test["skipped"]) - MOST_ENDPOINTS),
        "parameters": [
            (label, _value(test["parameters"][key]))
            for key, label in PARAMETERS
            if key in test["parameters"] and test["parameters"][key] not in ("", None)
        ],
        "equipment": _equipment(test["endpoints"]),
        "endpoints": [_endpoint(e) for e in test["endpoints"][:MOST_ENDPOINTS]],
        "more_endpoints": max(0, len(test["endpoints"]) - MOST_ENDPOINTS),
    }


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return str(value)


def _figures(test: dict) -> str:
    """The test in one sentence of figures."""
    figures = [
        k["bandwidth_average_gbps"]
        for k in test["links"]
        if k["bandwidth_average_gbps"] is not None
    ]
    if not figures:
        return ""
    limits = sorted({k["threshold_gbps"] for k in test["links"] if k["threshold_gbps"] is not None})
    words = f"{count(len(test['links']), 'link')} in {count(len(test['rounds']), 'round')}"
    words += f": slowest {gbps(min(figures))}, median {gbps(median(figures))}, fastest {gbps(max(figures))} Gb/s"
    if limits:
        span = f"{limits[0]:g}" if len(limits) == 1 else f"{limits[0]:g} to {limits[-1]:g}"
        words += f"; required {span} Gb/s"
    return words


def _row(link: dict, anchor: str) -> dict:
    figure, limit = link["bandwidth_average_gbps"], link["threshold_gbps"]
    share = figure / limit * 100 if figure is not None and limit else None
    return {
        "anchor": anchor,
        "id": link["id"],
        "rail": link["rail"],
        "figure": gbps(figure),
        "limit": gbps(limit),
        "limit_words": link["threshold_words"],
        "share": "-" if share is None else f"{share:.0f} %",
        "bytes": charts.size_label(link["bytes"]) if link["bytes"] else "-",
        "verdict": link["verdict"],
        "code": link["code"] or "",
        "took": duration(link["duration_s"]),
    }


def _walls(nodes: list[dict], name: str) -> list[dict]:
    """All nodes as tiles, one wall a rail: which of many is it?"""
    rails: dict[int, list[dict]] = {}
    for node in nodes:
        for row in node["rails"]:
            if row["test"] == name:
                words = f"{node['name']}, rail {row['rail']}: {row['verdict']}"
                if row["links"]:
                    words += f", {row['passed']} of {count(row['links'], 'link')} passed"
                if row["best_gbps"] is not None:
                    words += f", best {gbps(row['best_gbps'])} Gb/s"
                tile = {"verdict": row["verdict"], "words": words}
                rails.setdefault(row["rail"], []).append(tile)
    return [{"rail": rail, "tiles": rails[rail]} for rail in sorted(rails)]


def _round(entry: dict) -> dict:
    start, end = moment(entry["started"]), moment(entry["ended"])
    return {
        **entry,
        "links": len(entry["links"]),
        "took": duration(end - start if start is not None and end is not None else None),
        "slowest": gbps(entry["slowest_gbps"]),
        "median": gbps(entry["median_gbps"]),
        "at": (entry["started"] or "-").partition("T")[2].rstrip("Z") or "-",
    }


def _equipment(endpoints: list[dict]) -> list[tuple[str, str]]:
    """Which line rates, firmware and tools there are, and how many of each: the odd one out is often the culprit."""
    kinds = {
        "line rate": lambda e: (
            None if e.get("line_rate_gbps") is None else f"{e['line_rate_gbps']:g} Gb/s"
        ),
        "firmware": lambda e: e.get("fw_ver"),
        "link layer": lambda e: e.get("link_layer"),
        "interface MTU": lambda e: e.get("mtu"),
        "perftest": lambda e: (e.get("tool") or {}).get("version"),
    }
    lines = []
    for label, read in kinds.items():
        found = Counter(str(read(e) or "unknown") for e in endpoints)
        if found:
            common = found.most_common(6)
            text = ", ".join(f"{value} ({number})" for value, number in common)
            if len(found) > 6:
                text += f" and {len(found) - 6} more kinds"
            lines.append((label, text))
    return lines


def _endpoint(end: dict) -> dict:
    rate = end.get("line_rate_gbps")
    gpus = end.get("gpus") or []
    return {
        "node": end.get("node") or "",
        "rail": end.get("rail"),
        "device": f"{end.get('device') or '-'} port {end.get('port') or '-'}",
        "interface": end.get("interface") or "-",
        "address": end.get("address") or end.get("pod_ip") or "-",
        "rate": "-" if rate is None else f"{rate:g}",
        "mtu": end.get("mtu") or "-",
        "firmware": end.get("fw_ver") or "-",
        "gpu": str(gpus[0]).partition("(")[0].strip() if gpus else "",
    }


def _gpu(tests: list[dict]) -> dict | None:
    by_memory = {t["memory"]: t["links"] for t in tests}
    if "host" in by_memory and "cuda" in by_memory:
        return charts.host_and_gpu(by_memory["host"], by_memory["cuda"])
    return None


def _comparison(comparison: dict | None) -> dict | None:
    if not comparison:
        return None
    changes = comparison["changes"]
    return {
        **comparison,
        "changes": [
            {**c, "what": c["id"] if c["kind"] == "link" else f"{c['kind']} {c['id']}"}
            for c in changes[:MOST_CHANGES]
        ],
        "more": max(0, len(changes) - MOST_CHANGES),
    }


def _chosen_outputs(tests: list[dict]) -> list[tuple[dict, dict]]:
    """Links whose outputs are shown: of each reason code one first, then the others, up to a limit."""
    bad = [(t, k) for t in tests for k in t["links"] if k["verdict"] != "passed" and k["outputs"]]
    seen: set[tuple] = set()
    first, rest = [], []
    for test, link in bad:
        key = (test["test"], link["code"])
        (rest if key in seen else first).append((test, link))
        seen.add(key)
    return (first + rest)[:MOST_OUTPUTS]


def _output_anchors(tests: list[dict]) -> dict[tuple[str, str], str]:
    return {
        (test["test"], link["id"]): f"output-{number}"
        for number, (test, link) in enumerate(_chosen_outputs(tests))
    }


def _outputs(tests: list[dict]) -> dict:
    chosen = _chosen_outputs(tests)
    total = sum(k["verdict"] != "passed" for t in tests for k in t["links"])
    longest = min(LONGEST_OUTPUT, OUTPUT_BUDGET // max(1, 4 * len(chosen)))
    entries = []
    for number, (test, link) in enumerate(chosen):
        ends = []
        for side in ("server", "client"):
            end = link["outputs"].get(side) or {}
            status = [str(end.get("outcome") or "not run")]
            if end.get("rc") is not None:
                status.append(f"exit code {end['rc']}")
            if end.get("duration_s") is not None:
                status.append(duration(end["duration_s"]))
            ends.append(
                {
                    "side": side,
                    "node": link[f"{side}_node"],
                    "command": " ".join(map(str, end.get("command") or [])),
                    "status": ", ".join(status),
                    "message": end.get("message") or "",
                    "stdout": shortened(str(end.get("stdout") or ""), longest),
                    "stderr": shortened(str(end.get("stderr") or ""), longest),
                }
            )
        entries.append(
            {
                "anchor": f"output-{number}",
                "test": _title(test),
                "link": link["id"],
                "verdict": link["verdict"],
                "code": link["code"] or "",
                "ends": ends,
            }
        )
    return {"entries": entries, "more": total - len(entries)}
