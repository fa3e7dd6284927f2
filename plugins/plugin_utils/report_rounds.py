# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which links ran at the same time. Pure."""

from __future__ import annotations

from statistics import median

from ansible_collections.k8si.fabric.plugins.plugin_utils.report_text import iso, moment


def group_rounds(links: list[dict]) -> list[dict]:
    """The rounds of a test, from its links in the order of measurement.

    A link's own `round` (a number) is taken where it has one. Otherwise a round ends where a node comes again, the rail
    changes, or a link started after all others had ended: no node is in two links of a round, and a round begins when
    the one before is over.

    Returns:
        [{number (from 1), rail, started, ended (ISO 8601 or None), links (ids), passed, slow, failed, slowest_gbps,
        median_gbps}].
    """
    groups: list[list[dict]] = []
    nodes: set[str] = set()
    over = None  # when the last of the round's links so far had ended
    for link in links:
        mine = {link["server_node"], link["client_node"]}
        start, end = span(link)
        if not groups or not _same_round(groups[-1][-1], link, nodes & mine, start, over):
            groups.append([])
            nodes, over = set(), None
        groups[-1].append(link)
        nodes |= mine
        if end is not None:
            over = end if over is None else max(over, end)
    return [_round(number, group) for number, group in enumerate(groups, 1)]


def span(link: dict) -> tuple[float | None, float | None]:
    """When a link's measurement began and ended, in seconds since the epoch; None where it is not known."""
    starts, ends = [], []
    for end in (link.get("outputs") or {}).values():
        start = moment((end or {}).get("start"))
        if start is not None:
            starts.append(start)
            ends.append(start + float(end.get("duration_s") or 0))
    return min(starts, default=None), max(ends, default=None)


def _same_round(
    last: dict, link: dict, again: set[str], start: float | None, over: float | None
) -> bool:
    if link.get("round") is not None:
        return link["round"] == last.get("round")
    if link["rail"] != last["rail"] or again:
        return False
    return start is None or over is None or start <= over


def _round(number: int, group: list[dict]) -> dict:
    spans = [span(k) for k in group]
    figures = [
        k["bandwidth_average_gbps"] for k in group if k["bandwidth_average_gbps"] is not None
    ]
    return {
        "number": number,
        "rail": group[0]["rail"],
        "started": iso(min((s for s, e in spans if s is not None), default=None)),
        "ended": iso(max((e for s, e in spans if e is not None), default=None)),
        "links": [k["id"] for k in group],
        **{v: sum(k["verdict"] == v for k in group) for v in ("passed", "slow", "failed")},
        "slowest_gbps": min(figures, default=None),
        "median_gbps": round(median(figures), 3) if figures else None,
    }
