# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document as Markdown, for a merge request, a ticket or a chat: the answer, findings, figures. Pure."""

from __future__ import annotations

import re
from statistics import median

from ansible_collections.k8si.fabric.plugins.plugin_utils.report_text import (
    count,
    duration,
    one_line,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.words import (
    HEADINGS,
    MOST_BAD_LINKS,
    MOST_FINDINGS,
    TITLES,
    gbps,
    place,
)

# Not all of Markdown's punctuation: what cannot start markup inside a line stays readable in the raw text too.
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&$])|(?<=[a-z])(://)|(@)(?=\w)")
_HEAD_MARKS = {"fit": "✅", "not_fit": "❌", "not_measured": "❓"}
_MARKS = {
    "passed": "✅",
    "slow": "🐢",
    "failed": "❌",
    "skipped": "⏭️",
    "advice": "💡",
    "suspect": "❓",
}


def escaped(text: object) -> str:
    """One line of text that Markdown shows as it is: no markup, no mention, no link, no table border."""
    return _SPECIAL.sub(
        lambda m: f"\\{m[1]}" if m[1] else f"{m[2] or m[3]}\u200b", one_line(text, 800)
    )


def to_markdown(document: dict) -> str:
    """The summary as GitHub-flavoured Markdown."""
    answer, run = document["answer"], document["run"]
    head = f"{_HEAD_MARKS[answer['verdict']]} {HEADINGS[answer['verdict']]}"
    lines = [f"# {head}", "", f"**{escaped(answer['sentence'])}**", ""]
    facts = [f"run {escaped(run['id'])}"]
    if run["started"]:
        facts.append(f"started {run['started']}, took {duration(run['duration_s'])}")
    if document["cluster"].get("version"):
        facts.append(f"Kubernetes {escaped(document['cluster']['version'])}")
    lines += [", ".join(facts), ""]
    lines += _findings(document["findings"])
    lines += _tests(document["tests"])
    lines += _readiness(document["readiness"])
    lines += _comparison(document["comparison"])
    return "\n".join(lines).rstrip("\n") + "\n"


def _findings(findings: list[dict]) -> list[str]:
    if not findings:
        return []
    lines = ["## Findings", ""]
    for finding in findings[:MOST_FINDINGS]:
        mark = _MARKS.get(finding["verdict"], _MARKS["failed"])
        spot = place(finding["where"])
        code = finding["code"]
        if finding.get("localisation"):
            code = f"{finding['localisation']}: {code}"
        title = f"{escaped(finding['title'])}{f' ({escaped(spot)})' if spot else ''}"
        lines.append(f"- {mark} **{title}** `{one_line(code).replace(chr(96), chr(39))}`")
        lines += [
            f"  - {k}: {escaped(finding[k])}" for k in ("seen", "cause", "remedy") if finding[k]
        ]
    if len(findings) > MOST_FINDINGS:
        lines.append(f"- and {count(len(findings) - MOST_FINDINGS, 'more finding')}")
    return [*lines, ""]


def _tests(tests: list[dict]) -> list[str]:
    if not tests:
        return []
    lines = [
        *("## Tests", ""),
        "| test | verdict | nodes | links | passed | slow | failed | slowest Gb/s | median Gb/s | required Gb/s |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for test in tests:
        links = test["links"]
        figures = [
            k["bandwidth_average_gbps"] for k in links if k["bandwidth_average_gbps"] is not None
        ]
        limits = sorted({k["threshold_gbps"] for k in links if k["threshold_gbps"] is not None})
        cells = [
            TITLES.get(test["test"], test["test"]),
            f"{_MARKS[test['verdict']]} {test['verdict']}",
            len(test["nodes"]),
            len(links),
            *(sum(k["verdict"] == v for k in links) for v in ("passed", "slow", "failed")),
            gbps(test["worst_gbps"]),
            gbps(median(figures)) if figures else "-",
            ", ".join(gbps(x) for x in limits[:3]) or "-",
        ]
        lines.append(f"| {' | '.join(str(c) for c in cells)} |")
    bad = [(t["test"], k) for t in tests for k in t["links"] if k["verdict"] != "passed"]
    if bad:
        lines += [
            "",
            "| test | client → server | Gb/s | required | verdict |",
            "| --- | --- | ---: | ---: | --- |",
        ]
        for test, link in bad[:MOST_BAD_LINKS]:
            code = f" ({escaped(link['code'])})" if link["code"] else ""
            lines.append(
                f"| {test} | {escaped(link['id'])} | {gbps(link['bandwidth_average_gbps'])} | {gbps(link['threshold_gbps'])}"
                f" | {_MARKS[link['verdict']]} {link['verdict']}{code} |"
            )
    if len(bad) > MOST_BAD_LINKS:
        lines += ["", f"and {count(len(bad) - MOST_BAD_LINKS, 'more link')} that did not pass"]
    return [*lines, ""]


def _readiness(readiness: dict | None) -> list[str]:
    if not readiness:
        return []
    lines = ["## Readiness", "", "| status | check | seen |", "| --- | --- | --- |"]
    for check in readiness["checks"]:
        lines.append(
            f"| {_MARKS[check['status']]} {check['status']} | {escaped(check['title'])} | {escaped(check['seen'])} |"
        )
    return [*lines, ""]


def _comparison(comparison: dict | None) -> list[str]:
    if not comparison:
        return []
    changes = comparison["changes"][:MOST_FINDINGS]
    lines = ["## Changes", "", f"{escaped(comparison['sentence'])}", ""]
    lines += [f"- {escaped(c['words'])}" for c in changes]
    more = len(comparison["changes"]) - len(changes)
    return [*lines, *([f"- and {count(more, 'more change')}"] if more else []), ""]
