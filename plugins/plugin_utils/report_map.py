# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node by node map of a test, one for each rail: who sends to whom, how fast, with which verdict. Pure."""

from __future__ import annotations

from ansible_collections.k8si.fabric.plugins.plugin_utils.report_text import count, natural
from ansible_collections.k8si.fabric.plugins.plugin_utils.words import gbps

# Up to so many nodes each has a row and a column; of more, neighbours share one.
MOST_NODES = 64
MOST_GROUPS = 32
# Up to so many, figures fit into the cells.
MOST_WITH_FIGURES = 16

#: class of a cell, its sign, what the legend says
STEPS = (
    ("p2", "", "passed, 5 % or more above the threshold"),
    ("p1", "", "passed"),
    ("s1", "▾", "slow, from 75 % of the threshold"),
    ("s2", "▾", "slow, from 50 %"),
    ("s3", "▾", "slow, below 50 %"),
    ("f", "✕", "failed: could not be measured"),
)
_SIGNS = {name: sign for name, sign, _words in STEPS}


def step_of(link: dict) -> str:
    """The class of a link's cell."""
    figure, limit = link["bandwidth_average_gbps"], link["threshold_gbps"]
    if link["verdict"] == "passed":
        return "p2" if figure and limit and figure >= 1.05 * limit else "p1"
    if link["verdict"] == "slow" and figure is not None and limit:
        share = figure / limit
        return "s1" if share >= 0.75 else "s2" if share >= 0.5 else "s3"
    return "f"


def _badness(link: dict) -> tuple:
    figure = link["bandwidth_average_gbps"]
    return (
        ("passed", "slow", "failed").index(link["verdict"]) if link["verdict"] != "skipped" else 2,
        -(figure or 0.0),
    )


def link_words(link: dict) -> str:
    """A link in one sentence, for a pointer, a keyboard and a screen reader."""
    words = (
        f"{link['client_node']} to {link['server_node']}, rail {link['rail']}: {link['verdict']}"
    )
    if link["code"]:
        words += f" ({link['code']})"
    if link["bandwidth_average_gbps"] is not None:
        words += f", {gbps(link['bandwidth_average_gbps'])} Gb/s"
    if link["threshold_gbps"] is not None:
        words += f", required {gbps(link['threshold_gbps'])}"
    return words


def heat_maps(test: dict, anchors: dict[str, str]) -> list[dict]:
    """One map a rail: {rail, grouped, nodes, grouped (nodes a row, 0 for one), figures, heads [{label}], rows [{label, cells}]}.

    A cell is None where nothing was measured, `self` on the diagonal of single nodes, else {step, sign, text, words, anchor}.

    Args:
        anchors: id of a link -> id of the element that shows more of it.
    """
    rails = sorted({k["rail"] for k in test["links"]})
    return [_map([k for k in test["links"] if k["rail"] == r], r, anchors) for r in rails]


def _map(links: list[dict], rail: int, anchors: dict[str, str]) -> dict:
    nodes = sorted({n for k in links for n in (k["server_node"], k["client_node"])}, key=natural)
    size = 1 if len(nodes) <= MOST_NODES else -(-len(nodes) // MOST_GROUPS)
    groups = [nodes[i : i + size] for i in range(0, len(nodes), size)]
    index = {node: number for number, group in enumerate(groups) for node in group}
    cells: dict[tuple[int, int], list[dict]] = {}
    for link in links:
        key = (index[link["client_node"]], index[link["server_node"]])
        cells.setdefault(key, []).append(link)
    heads = [_label(g) for g in groups]
    figures = len(nodes) <= MOST_WITH_FIGURES
    rows = []
    for row, head in enumerate(heads):
        line: list = []
        for column in range(len(groups)):
            here = cells.get((row, column))
            if here:
                line.append(_cell(here, head, heads[column], size > 1, figures, anchors))
            else:
                line.append("self" if row == column and size == 1 else None)
        rows.append({**head, "cells": line})
    return {
        "rail": rail,
        "nodes": len(nodes),
        "grouped": size if size > 1 else 0,
        "figures": figures,
        "heads": heads,
        "rows": rows,
    }


def _label(group: list[str]) -> dict:
    """`gpu-node-17 … 32` for a group, the name for a node."""
    first, last = group[0], group[-1]
    if first == last:
        return {"label": first}
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    while same and first[same - 1].isalnum():
        same -= 1
    return {"label": f"{first} … {last[same:]}"}


def _cell(
    links: list[dict], row: dict, column: dict, grouped: bool, figures: bool, anchors: dict
) -> dict:
    worst = max(links, key=_badness)
    step = step_of(worst)
    bad = sum(k["verdict"] != "passed" for k in links)
    text = _SIGNS[step]
    if grouped:
        known = [
            k["bandwidth_average_gbps"] for k in links if k["bandwidth_average_gbps"] is not None
        ]
        words = f"from {row['label']} to {column['label']}: {count(len(links), 'link')}, {len(links) - bad} passed"
        if known:
            words += f", slowest {gbps(min(known))} Gb/s"
        if bad:
            words += f"; worst: {link_words(worst)}"
    else:
        words = link_words(worst)
        if figures and worst["bandwidth_average_gbps"] is not None:
            text = f"{_SIGNS[step]}{worst['bandwidth_average_gbps']:.0f}"
    return {"step": step, "text": text, "words": words, "anchor": anchors.get(worst["id"], "")}
