# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which links are measured, and when. Pure.

A link is {id, rail, server, client}: the ids of two endpoints on different nodes. Data of a write test flows from client to
server. A round is a list of links that run at the same time; no node is in two of them.
"""

from __future__ import annotations


def plan_rounds(endpoints: list[dict], settings: dict) -> list[list[dict]]:
    """One matching of the nodes on each rail, first in one direction, then (`both_directions`) in the other.

    With an odd number of nodes the last one meets the first in a round of its own.
    """
    rounds = []
    for rail in sorted({e["rail"] for e in endpoints}):
        ids = [e["id"] for e in endpoints if e["rail"] == rail]
        matching = [(ids[i], ids[i + 1]) for i in range(0, len(ids) - 1, 2)]
        extra = [(ids[0], ids[-1])] if len(ids) % 2 and len(ids) > 1 else []
        for pairs in (matching, extra):
            rounds += _directed(pairs, rail, settings)
    return rounds


def plan_retests(links: list[dict], endpoints: list[dict], settings: dict) -> list[list[dict]]:
    """Every suspect against a partner that is known to be good, so that the bad one of a pair can be told.

    Args:
        links: judged links ({rail, server, client, verdict}).

    Returns:
        Rounds; none where there is no suspect or no known-good partner. An endpoint is a suspect when a link of its did not
        pass, and known to be good when it has links and all passed.
    """
    rounds = []
    for rail in sorted({e["rail"] for e in endpoints}):
        mine = [k for k in links if k["rail"] == rail]
        met: dict[str, set[str]] = {}
        suspects: list[str] = []
        for link in mine:
            met.setdefault(link["server"], set()).add(link["client"])
            met.setdefault(link["client"], set()).add(link["server"])
            if link["verdict"] != "passed":
                suspects += [e for e in (link["server"], link["client"]) if e not in suspects]
        good = [e for e in met if e not in suspects]
        pairs = []
        for number, suspect in enumerate(suspects):
            fresh = [g for g in good if g not in met[suspect]]
            if fresh:
                pairs.append((fresh[number % len(fresh)], suspect))
        for batch in _batches(pairs):
            rounds += _directed(batch, rail, settings)
    return rounds


def _batches(pairs: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Splits pairs into groups in which no endpoint is twice."""
    batches: list[list[tuple[str, str]]] = []
    for pair in pairs:
        for batch in batches:
            if not {e for p in batch for e in p} & set(pair):
                batch.append(pair)
                break
        else:
            batches.append([pair])
    return batches


def _directed(pairs: list[tuple[str, str]], rail: int, settings: dict) -> list[list[dict]]:
    if not pairs:
        return []
    forward = [_link(pair, rail) for pair in pairs]
    if not settings["both_directions"]:
        return [forward]
    return [forward, [_link(pair[::-1], rail) for pair in pairs]]


def _link(pair: tuple[str, str], rail: int) -> dict:
    server, client = pair
    return {"id": f"{client} -> {server}", "rail": rail, "server": server, "client": client}
