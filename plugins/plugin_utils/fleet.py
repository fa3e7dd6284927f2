# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all links together show, beside the verdict of each. Pure."""

from __future__ import annotations

from statistics import median

from ansible_collections.k8si.fabric.plugins.plugin_utils.evidence import lane_of


def outliers(links: list[dict], percent: float) -> list[dict]:
    """Links that passed but lie far below what the fleet's links of the same rail reach.

    Args:
        links: judged links. percent: how far below the median is worth a word; 0: none is.

    Returns:
        [{link, rail, bandwidth_average_gbps, median_gbps, below_percent}], the farthest first. At least eight links of a
        rail must have passed, and a link must lie also four robust standard deviations (1.4826 x the median deviation) below
        the median, so that a fleet with a wide spread has no outliers by chance.
    """
    found = []
    for lane in sorted({lane_of(k) for k in links}) if percent else []:
        mine = [
            k
            for k in links
            if lane_of(k) == lane and k["verdict"] == "passed" and k["bandwidth_average_gbps"]
        ]
        if len(mine) < 8:
            continue
        middle = median(k["bandwidth_average_gbps"] for k in mine)
        spread = 1.4826 * median(abs(k["bandwidth_average_gbps"] - middle) for k in mine)
        limit = min(middle * (1 - percent / 100), middle - 4 * spread)
        found += [
            {
                "link": k["id"],
                "rail": k["rail"],
                "bandwidth_average_gbps": k["bandwidth_average_gbps"],
                "median_gbps": round(middle, 2),
                "below_percent": round(100 * (1 - k["bandwidth_average_gbps"] / middle), 1),
            }
            for k in mine
            if k["bandwidth_average_gbps"] < limit
        ]
    return sorted(found, key=lambda o: -o["below_percent"])


def pair_sums(links: list[dict]) -> list[dict]:
    """What the rails of a pair reach together, of rounds in which several ran at once.

    Returns:
        [{client_node, server_node, round, rails, sum_gbps (null when one was not measured), line_rate_gbps (sum)}].
    """
    groups: dict[tuple, list[dict]] = {}
    for link in links:
        key = (link["round"], link["client_node"], link["server_node"])
        groups.setdefault(key, []).append(link)
    sums = []
    for (number, client, server), mine in groups.items():
        if len(mine) < 2:
            continue
        figures = [k["bandwidth_average_gbps"] for k in mine]
        rates = [k["line_rate_gbps"] for k in mine]
        sums.append(
            {
                "client_node": client,
                "server_node": server,
                "round": number,
                "rails": [k["rail"] for k in mine],
                "sum_gbps": round(sum(figures), 2) if None not in figures else None,
                "line_rate_gbps": sum(rates) if None not in rates else None,
            }
        )
    return sums


def remarks(result: dict) -> list[str]:
    """Sentences about what is no verdict and yet worth knowing: choices that were made, outliers, sums of pairs of nodes.

    Args:
        result: of a test, as `verdicts.conclude` makes it.
    """
    said = list(result["notes"])
    for o in result["outliers"]:
        said.append(
            f"outlier: {o['link']} passed with {o['bandwidth_average_gbps']:.1f} Gb/s, {o['below_percent']:g} % below the"
            f" median {o['median_gbps']:.1f} Gb/s of rail {o['rail']}"
        )
    again = [k["id"] for k in result["links"] if k.get("attempts", 1) > 1]
    if again:
        said.append(
            f"run again because perftest's client came between the two times that its server listens: {', '.join(again)}"
        )
    measured = [p for p in result["pairs"] if p["sum_gbps"] is not None]
    if measured:
        least = min(measured, key=lambda p: p["sum_gbps"])
        rate = f" of {least['line_rate_gbps']:g}" if least["line_rate_gbps"] else ""
        said.append(
            f"{len(least['rails'])} rails at once: the least sum is {least['sum_gbps']:.1f}{rate} Gb/s,"
            f" {least['client_node']} to {least['server_node']}"
        )
    return said
