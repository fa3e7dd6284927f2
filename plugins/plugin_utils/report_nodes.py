# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the links say about each node. Pure."""

from __future__ import annotations

from ansible_collections.k8si.fabric.plugins.plugin_utils.report_text import natural

# The worst first: a node's verdict is the worst of its rails'. What was not measured does not pass.
ORDER = ("failed", "slow", "suspect", "skipped", "passed")


def judge_nodes(tests: list[dict]) -> list[dict]:
    """One entry for each node that a test chose or skipped.

    A node is not blamed for its partner: `slow` and `failed` are the words of a finding that names the node (or the whole
    rail), `passed` takes a partner with which every link passed, and a node that has none, without being blamed, is
    `suspect`. `skipped` was not measured.

    Returns:
        [{name, verdict, rails: [{test, rail, verdict, links, passed, best_gbps, worst_gbps}]}], in natural order.
    """
    rails: dict[str, list[dict]] = {}
    for test in tests:
        for rail, row in _judge_test(test):
            rails.setdefault(rail, []).append(row)
    return [
        {"name": name, "verdict": worst([r["verdict"] for r in rails[name]]), "rails": rails[name]}
        for name in sorted(rails, key=natural)
    ]


def worst(verdicts: list[str]) -> str:
    """The worst of some verdicts; `skipped` of none."""
    return min(verdicts, key=ORDER.index, default="skipped")


def _judge_test(test: dict):
    links_of: dict[tuple[str, int], list[dict]] = {}
    for link in test["links"]:
        for node in (link["server_node"], link["client_node"]):
            links_of.setdefault((node, link["rail"]), []).append(link)
    indexes = sorted({rail for _node, rail in links_of}) or [0]
    names = {*test["nodes"], *(s["node"] for s in test["skipped"]), *(n for n, _r in links_of)}
    blamed = _blamed(test["findings"])
    for name in names:
        for rail in indexes:
            links = links_of.get((name, rail), [])
            figures = [
                k["bandwidth_average_gbps"]
                for k in links
                if k["bandwidth_average_gbps"] is not None
            ]
            yield (
                name,
                {
                    "test": test["test"],
                    "rail": rail,
                    "verdict": _verdict(name, rail, links, blamed),
                    "links": len(links),
                    "passed": sum(k["verdict"] == "passed" for k in links),
                    "best_gbps": max(figures, default=None),
                    "worst_gbps": min(figures, default=None),
                },
            )


def _blamed(findings: list[dict]) -> dict[tuple[str | None, int | None], str]:
    """(node, rail) -> slow or failed; node None is every node of the rail, rail None every rail of the node."""
    blamed: dict[tuple[str | None, int | None], str] = {}
    for finding in findings:
        where = finding["where"]
        node = where.get("node")
        if finding.get("localisation") in ("rail_wide", "fabric_wide"):
            node = None
        elif not node:
            continue
        verdict = finding.get("verdict") or "failed"
        for rail in where.get("rails") or [where.get("rail")]:
            key = (node, rail)
            blamed[key] = worst([verdict, blamed.get(key, "passed")])
    return blamed


def _verdict(name: str, rail: int, links: list[dict], blamed: dict) -> str:
    named = [
        blamed[k] for k in ((name, rail), (name, None), (None, rail), (None, None)) if k in blamed
    ]
    if named:
        return worst(named)
    if not links:
        return "skipped"
    partners: dict[str, bool] = {}
    for link in links:
        other = link["client_node"] if link["server_node"] == name else link["server_node"]
        partners[other] = partners.get(other, True) and link["verdict"] == "passed"
    return "passed" if any(partners.values()) else "suspect"
