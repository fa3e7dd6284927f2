# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results in words for a person at a terminal: why a test did not pass, how a round went, and the table at the end. Pure."""

from __future__ import annotations

TITLES = {
    "readiness": "Readiness",
    "rdma": "RDMA, host memory",
    "gpudirect": "GPUDirect RDMA, GPU memory",
}
WIDTH = 100


def gbps(value: float | None) -> str:
    """A bandwidth for a table: `392.4`, or `-` where there is none."""
    return "-" if value is None else f"{value:.1f}"


def explain_finding(finding: dict) -> str:
    """What, where, likely cause, remedy: one block of text."""
    where = finding.get("where") or {}
    place = ", ".join(
        f"{key} {' and '.join(map(str, value)) if isinstance(value, list) else value}"
        for key, value in where.items()
        if value not in (None, "", []) and key != "link"
    )
    code = finding["code"]
    if finding.get("localisation"):
        code = f"{finding['localisation']}: {code}"
    lines = [f"[{code}] {finding['title']}" + (f" ({place})" if place else "")]
    lines.append(f"  seen:   {finding['seen']}")
    for role, raw in (finding.get("lines") or {}).items():
        lines += [f"  {role + ':':<8}{line}" for line in raw]
    if finding.get("line") and not finding.get("lines"):
        lines.append(f"  line:   {finding['line']}")
    lines.append(f"  cause:  {finding['cause']}")
    lines.append(f"  remedy: {finding['remedy']}")
    if finding.get("reference"):
        lines.append(f"  more:   {finding['reference']}")
    return "\n".join(lines)


def explain_result(result: dict) -> str:
    """Why a test did not pass; or that it passed."""
    title = TITLES[result["test"]]
    if result["passed"]:
        links = len(result["links"])
        return f"{title}: passed. {links} links measured, the slowest {gbps(result['worst_gbps'])} Gb/s."
    head = f"{title}: {result['verdict']} ({result['reason']})"
    return "\n".join([head, *map(explain_finding, result["findings"])])


def round_summary(links: list[dict], count: int, number: int) -> str:
    """One line for a round: `round 1: 4 links, 3 passed, 1 slow; slowest gpu-node-2/0 -> gpu-node-1/0 211.0 Gb/s`.

    `links` are all links judged so far; the last `count` are the round's.
    """
    mine = links[len(links) - count :]
    by_verdict = {v: sum(k["verdict"] == v for k in mine) for v in ("passed", "slow", "failed")}
    text = f"round {number}: {count} link{'s' if count != 1 else ''}, " + ", ".join(
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


def summary(readiness: dict | None, tests: list[dict]) -> list[str]:
    """The table at the end of a validation, a list of lines.

    Args:
        readiness: the fact `readiness_result`, or None where readiness was not checked.
        tests: results of tests, as `verdicts.conclude` makes them.
    """
    lines = []
    if readiness:
        lines += _heading("readiness", "passed" if readiness["passed"] else "failed")
        for check in readiness["checks"]:
            lines.append(f"  {check['status']:<8} {check['title']}")
            if check["status"] not in ("passed", "skipped"):
                lines.append(f"           {check['seen']}")
    for result in tests:
        lines += _heading(result["test"], result["verdict"])
        if result["links"]:
            lines.append(
                f"  {'client -> server':<40} {'Gb/s':>8} {'required':>9} {'line rate':>9} {'at bytes':>9}  verdict"
            )
        for link in result["links"]:
            code = f" ({link['code']})" if link["code"] else ""
            lines.append(
                f"  {link['id']:<40} {gbps(link['bandwidth_average_gbps']):>8} {gbps(link['threshold_gbps']):>9}"
                f" {gbps(link['line_rate_gbps']):>9} {link['bytes'] or '-':>9}  {link['verdict']}{code}"
            )
        for skipped in result["skipped"]:
            lines.append(f"  node {skipped['node']} was not tested: {skipped['reason']}")
        if result["verdict"] == "skipped":
            lines += [f"  {f['seen']}" for f in result["findings"]]
        elif result["findings"]:
            lines.append("")
            for finding in result["findings"]:
                lines += [f"  {line}" for line in explain_finding(finding).splitlines()]
    fit, words = answer(readiness, tests)
    return [*lines, "=" * WIDTH, words if fit else f"NOT FIT: {words}"]


def answer(readiness: dict | None, tests: list[dict]) -> tuple[bool, str]:
    """(fit for training?, one sentence). Nothing that was not measured counts as fit."""
    if readiness and not readiness["passed"]:
        failed = [c for c in readiness["checks"] if c["status"] == "failed"]
        return (
            False,
            f"{len(failed)} readiness checks failed, the first: {failed[0]['seen'] if failed else 'unknown'}",
        )
    for result in tests:
        if result["verdict"] in ("slow", "failed"):
            return False, f"{TITLES[result['test']]}: {result['findings'][0]['seen']}"
    measured = [r for r in tests if r["passed"]]
    skipped = [TITLES[r["test"]] for r in tests if r["verdict"] == "skipped"]
    if skipped:
        return False, f"not tested: {', '.join(skipped)}"
    if not measured:
        return False, "nothing was measured"
    slowest = min(r["worst_gbps"] for r in measured)
    links = sum(len(r["links"]) for r in measured)
    return True, f"FIT: all of {links} links passed, the slowest with {gbps(slowest)} Gb/s"


def _heading(test: str, verdict: str) -> list[str]:
    title = f"{TITLES[test]} "
    return ["", f"{title}{'.' * (WIDTH - len(title) - len(verdict) - 1)} {verdict.upper()}"]
