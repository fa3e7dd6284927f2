# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results in words for a person at a terminal: why a test did not pass, how a round went, and the table at the end. Pure.

What comes from the cluster is shown with its control characters made visible: a terminal must show them, not obey them.
"""

from __future__ import annotations

from statistics import median

from ansible_collections.k8si.fabric.plugins.plugin_utils.report_text import (
    count,
    one_line,
    visible,
)

TITLES = {
    "readiness": "Readiness",
    "rdma": "RDMA, host memory",
    "gpudirect": "GPUDirect RDMA, GPU memory",
}
HEADINGS = {
    "fit": "Fit for training",
    "not_fit": "Not fit for training",
    "not_measured": "Not measured",
}
PREFIXES = {"not_fit": "NOT FIT", "not_measured": "NOT MEASURED"}
WIDTH = 100
# A table of at most so many links is printed whole; of a longer one, what did not pass and the slowest of the rest.
WHOLE_TABLE = 24
MOST_BAD_LINKS = 40
SLOWEST_SHOWN = 5
MOST_FINDINGS = 20
MOST_SKIPPED = 10


def gbps(value: float | None) -> str:
    """A bandwidth for a table: `392.4`, small ones with three digits, or `-` where there is none."""
    if value is None:
        return "-"
    return f"{value:.1f}" if value >= 1 or value == 0 else f"{value:.3g}"


def place(where: dict) -> str:
    """Where a finding is, in words: `node gpu-node-2, rail 0`, `nodes a and b`, `NicClusterPolicy nic-cluster-policy`."""
    where = {k: v for k, v in where.items() if v not in (None, "", []) and k != "link"}
    parts = []
    kind = where.pop("kind", None)
    name = where.pop("name", None)
    namespace = where.pop("namespace", None)
    if kind or name:
        full = f"{namespace}/{name}" if namespace and name else name or namespace or ""
        parts.append(f"{kind or ''} {full}".strip())
        if where.get("nodes") == [name]:
            del where["nodes"]
    elif namespace:
        parts.append(f"namespace {namespace}")
    for key, value in where.items():
        if isinstance(value, list):
            more = len(value) - 8
            names = [str(v) for v in value[: 8 if more > 1 else 9]]
            value = " and ".join(names) if len(names) == 2 else ", ".join(names)
            value += f" and {more} more" if more > 1 else ""
        parts.append(f"{key} {value}")
    return one_line(", ".join(parts))


def explain_finding(finding: dict) -> str:
    """What, where, likely cause, remedy: one block of text."""
    spot = place(finding.get("where") or {})
    code = finding["code"]
    if finding.get("localisation"):
        code = f"{finding['localisation']}: {code}"
    lines = [f"[{code}] {finding['title']}" + (f" ({spot})" if spot else "")]
    lines.append(f"  seen:   {finding['seen']}")
    for role, raw in (finding.get("lines") or {}).items():
        lines += [f"  {role + ':':<8}{line}" for line in raw]
    if finding.get("line") and not finding.get("lines"):
        lines.append(f"  line:   {finding['line']}")
    lines.append(f"  cause:  {finding['cause']}")
    lines.append(f"  remedy: {finding['remedy']}")
    if finding.get("reference"):
        lines.append(f"  more:   {finding['reference']}")
    return visible("\n".join(lines))


def explain_result(result: dict) -> str:
    """Why a test did not pass; or that it passed."""
    title = TITLES[result["test"]]
    if result["passed"]:
        links = len(result["links"])
        return f"{title}: passed. {links} links measured, the slowest {gbps(result['worst_gbps'])} Gb/s."
    head = f"{title}: {result['verdict']} ({result['reason']})"
    return "\n".join([head, *_explain(result["findings"])])


def _explain(findings: list[dict]) -> list[str]:
    lines = [explain_finding(f) for f in findings[:MOST_FINDINGS]]
    more = len(findings) - MOST_FINDINGS
    return [*lines, f"… and {count(more, 'more finding')}."] if more > 0 else lines


def round_numbers(links: list[dict], last: int) -> str:
    """Which rounds of the plan the links are of: `3/7`, or `3-4/7` for a round and its way back."""
    numbers = sorted({k["round"] for k in links})
    ours = f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
    return f"{ours}/{last}"


def round_title(links: list[dict], last: int) -> str:
    """What is measured next: `round 3-4/7, 16 links`."""
    return f"round {round_numbers(links, last)}, {count(len(links), 'link')}"


def round_summary(links: list[dict], links_in_round: int, number: str) -> str:
    """One line for a round: `round 1: 4 links, 3 passed, 1 slow; slowest gpu-node-2/0 -> gpu-node-1/0 211.0 Gb/s`.

    `links` are all links judged so far; the last `links_in_round` are the round's.
    """
    mine = links[len(links) - links_in_round :]
    by_verdict = {v: sum(k["verdict"] == v for k in mine) for v in ("passed", "slow", "failed")}
    text = f"round {number}: {count(links_in_round, 'link')}, " + ", ".join(
        f"{n} {v}" for v, n in by_verdict.items() if n
    )
    measured = [k for k in mine if k["bandwidth_average_gbps"] is not None]
    if measured:
        slowest = min(measured, key=lambda k: k["bandwidth_average_gbps"])
        text += f"; slowest {slowest['id']} {gbps(slowest['bandwidth_average_gbps'])} Gb/s"
        if slowest["threshold_gbps"] is not None:
            text += f" (required {gbps(slowest['threshold_gbps'])})"
    failed = next((k for k in mine if k["verdict"] == "failed"), None)
    return text + (f"; {failed['id']} {failed['code']}" if failed else "")


def summary(readiness: dict | None, tests: list[dict], comparison: dict | None = None) -> list[str]:
    """The table at the end of a validation, a list of lines.

    Args:
        readiness: the fact `readiness_result`, or None where readiness was not checked.
        tests: results of tests, as `verdicts.conclude` makes them.
        comparison: with an earlier run, as `report_compare.compare` makes it, or None.
    """
    lines = []
    if readiness:
        lines += _heading("readiness", "passed" if readiness["passed"] else "failed")
        lines += [line for check in readiness["checks"] for line in _check(check)]
    for result in tests:
        lines += _heading(result["test"], result["verdict"])
        lines += _links(result["links"])
        for skipped in result["skipped"][:MOST_SKIPPED]:
            lines.append(f"  node {skipped['node']} was not tested: {skipped['reason']}")
        more = len(result["skipped"]) - MOST_SKIPPED
        if more > 0:
            lines.append(f"  and {count(more, 'more node')} not tested")
        if result["verdict"] == "skipped":
            lines += [f"  {f['seen']}" for f in result["findings"]]
        elif result["findings"]:
            lines.append("")
            for text in _explain(result["findings"]):
                lines += [f"  {line}" for line in text.splitlines()]
    if comparison:
        lines += ["", comparison["sentence"]]
        lines += [f"  {c['words']}" for c in comparison["changes"][:MOST_FINDINGS]]
    verdict, sentence = answer(readiness, tests)
    lines += ["=" * WIDTH, sentence if verdict == "fit" else f"{PREFIXES[verdict]}: {sentence}"]
    return [visible(line) for line in lines]


def _check(check: dict) -> list[str]:
    lines = [f"  {check['status']:<8} {check['title']}"]
    if check["status"] not in ("passed", "skipped"):
        lines.append(f"           {check['seen']}")
        if check.get("remedy"):
            lines.append(f"           remedy: {check['remedy']}")
    return lines


def _links(links: list[dict]) -> list[str]:
    if not links:
        return []
    shown, left_out = links, ""
    if len(links) > WHOLE_TABLE:
        bad = [k for k in links if k["verdict"] != "passed"]
        good = sorted(
            (k for k in links if k["verdict"] == "passed"),
            key=lambda k: k["bandwidth_average_gbps"],
        )
        shown = bad[:MOST_BAD_LINKS] + good[:SLOWEST_SHOWN]
        rest = good[SLOWEST_SHOWN:]
        if len(bad) > MOST_BAD_LINKS:
            left_out = f"  and {len(bad) - MOST_BAD_LINKS} more that did not pass"
        if rest:
            middle = gbps(median(k["bandwidth_average_gbps"] for k in rest))
            left_out += f"{' and' if left_out else '  and'} {len(rest)} more that passed, the median {middle} Gb/s"
    width = max(40, *(len(k["id"]) for k in shown))
    lines = [
        f"  {'client -> server':<{width}} {'Gb/s':>8} {'required':>9} {'line rate':>9} {'at bytes':>9}  verdict"
    ]
    for link in shown:
        code = f" ({link['code']})" if link["code"] else ""
        lines.append(
            f"  {link['id']:<{width}} {gbps(link['bandwidth_average_gbps']):>8} {gbps(link['threshold_gbps']):>9}"
            f" {gbps(link.get('line_rate_gbps')):>9} {link['bytes'] or '-':>9}  {link['verdict']}{code}"
        )
    return [*lines, left_out] if left_out else lines


def answer(readiness: dict | None, tests: list[dict]) -> tuple[str, str]:
    """(`fit`, `not_fit` or `not_measured`, one sentence). Nothing that was not measured counts as fit.

    `not_measured` where no test was run and nothing is known to be wrong, as with `--tags readiness`.
    """
    reasons = []
    if readiness and not readiness["passed"]:
        failed = [c for c in readiness["checks"] if c["status"] == "failed"]
        if failed:
            first = failed[0]["seen"] or failed[0]["title"]
            named = "" if len(failed) == 1 else ", the first"
            reasons.append(f"{count(len(failed), 'readiness check')} failed{named}: {first}")
        else:
            unread = sum(c["status"] == "skipped" for c in readiness["checks"])
            reasons.append(f"readiness is not proven, {count(unread, 'check')} could not be judged")
    for result in tests:
        if result["verdict"] in ("slow", "failed"):
            reasons.append(f"{TITLES[result['test']]}: {_headline(result)}")
    if reasons:
        return "not_fit", one_line("; ".join(reasons), 600)
    measured = [r for r in tests if r["passed"]]
    skipped = [TITLES[r["test"]] for r in tests if r["verdict"] == "skipped"]
    if skipped:
        return "not_fit", f"not tested: {', '.join(skipped)}"
    if not measured:
        if not readiness:
            return "not_measured", "neither readiness nor a test was run"
        return "not_measured", "readiness passed, no test was run"
    links = sum(len(r["links"]) for r in measured)
    # tests of latency have no bandwidth
    figures = [r["worst_gbps"] for r in measured if r["worst_gbps"] is not None]
    slowest = f", the slowest with {gbps(min(figures))} Gb/s" if figures else ""
    return "fit", f"FIT: all of {links} links passed{slowest}"


def _headline(result: dict) -> str:
    """The worst of a test in half a sentence: who, what, figure, threshold, and how many findings more."""
    findings = result["findings"]
    if not findings:
        return f"{result['verdict']}, without a finding"
    first = min(findings, key=lambda f: f.get("verdict") == "slow")
    mine = set(first.get("links") or [])
    slow = [k for k in result["links"] if k["id"] in mine and k["verdict"] == "slow"]
    if first.get("verdict") == "slow" and slow:
        link = min(slow, key=lambda k: k["bandwidth_average_gbps"])
        what = f"{gbps(link['bandwidth_average_gbps'])} of {gbps(link['threshold_gbps'])} Gb/s required"
    else:
        what = str(first["title"]).rstrip(".")
        what = what[:1].lower() + what[1:2] + what[2:] if what[1:2].islower() else what
    spot = place({k: v for k, v in (first.get("where") or {}).items() if k not in ("side", "task")})
    kind = {
        "bad_path": "the path between ",
        "one_way": "one direction between ",
        "not_enough_evidence": "the pair of ",
        "fabric_wide": "every link of ",
    }.get(first.get("localisation") or "", "")
    more = len(findings) - 1
    tail = f" (and {count(more, 'more finding')})" if more else ""
    return f"{kind}{spot}{': ' if spot else ''}{what}{tail}"


def _heading(test: str, verdict: str) -> list[str]:
    title = f"{TITLES[test]} "
    return ["", f"{title}{'.' * (WIDTH - len(title) - len(verdict) - 1)} {verdict.upper()}"]
