# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node, port or path the links that did not pass point to. Pure: judged links in, findings out."""

from __future__ import annotations

from ansible_collections.k8si.fabric.plugins.plugin_utils import evidence as proofs
from ansible_collections.k8si.fabric.plugins.plugin_utils.evidence import (
    BAD,
    CLIENT,
    GOOD,
    ROLES,
    SERVER,
)

Lane = proofs.Lane


def localise(links: list[dict]) -> list[dict]:
    """Blames nodes, ports and paths.

    Args:
        links: judged links ({id, client, server, client_node, server_node, rail, verdict, finding, bandwidth_average_gbps;
            client_rail, client_device and server_device where there are such}).

    Returns:
        Findings, each the worst link's own finding (code, title, cause, remedy) with `localisation`, `where`, `links` (ids
        that it explains), `verdict` and `seen`. Every link that did not pass is explained by one of them. `localisation`:

        - `fabric_wide`, `rail_wide`: no link of any rail, of one rail passed (`where.rail`; `where.client_rail` across rails);
        - `bad_node`: on every rail that was tested the node passed with nobody (`where.node`; with one rail also `where.rail`);
        - `bad_port`: the same on some of several rails (`where.node`, `where.rail`, `where.device`);
        - `one_way`: a port that fails in one role and is fine in the other (`where.node`, `where.rail`, `where.role`), or one
          direction of a path (`where.nodes`, `where.client`, `where.server`);
        - `bad_path`: both ends are fine with somebody else (`where.nodes`, and `where.rail` or `where.rails`);
        - `not_enough_evidence`: which of two it is cannot be told, or it did not come again when repeated.
    """
    bad = [k for k in links if k["verdict"] != "passed"]
    if not bad:
        return []
    known = proofs.weigh(links, strict=False)
    findings = _wide(bad, known, {proofs.lane_of(k) for k in links})
    rest = [k for k in bad if proofs.lane_of(k) not in known.wide]
    ports = _ports(links, known)
    found, explained = _blamed_ports(rest, links, ports)
    findings += found
    rest = [k for k in rest if k["id"] not in explained]
    return findings + _paths(rest, links, known)


def _wide(bad: list[dict], known: proofs.Evidence, lanes: set[Lane]) -> list[dict]:
    if not known.wide:
        return []
    if known.wide == lanes:
        rails = sorted({rail for _client, rail in lanes})
        where = {"rail": rails[0]} if len(rails) == 1 else {"rails": rails}
        words = "every link of the rail" if len(rails) == 1 else "every link of every rail"
        return [_blame("fabric_wide", bad, where, words)]
    findings = []
    for client_rail, rail in sorted(known.wide):
        mine = [k for k in bad if proofs.lane_of(k) == (client_rail, rail)]
        across = {"client_rail": client_rail} if client_rail != rail else {}
        words = (
            f"every link of rail {rail}"
            if not across
            else f"every link from rail {client_rail} to rail {rail}"
        )
        findings.append(
            _blame(
                "rail_wide", mine, {"rail": rail, **across}, f"{words}; links of other rails passed"
            )
        )
    return findings


def _ports(links: list[dict], known: proofs.Evidence) -> dict[str, dict[int, dict]]:
    """node -> rail -> {id, device, bad: roles in which it is bad, good: roles in which it is good}, of all that were measured."""
    ports: dict[str, dict[int, dict]] = {}
    for link in links:
        client_rail, rail_of_server = proofs.lane_of(link)
        for role, rail in ((SERVER, rail_of_server), (CLIENT, client_rail)):
            name = link[role]
            states = {r: known.states.get((name, r)) for r in ROLES}
            ports.setdefault(link[f"{role}_node"], {})[rail] = {
                "id": name,
                "device": link.get(f"{role}_device") or "",
                "bad": [r for r in ROLES if states[r] == BAD],
                "good": [r for r in ROLES if states[r] == GOOD],
            }
    return ports


def _blamed_ports(bad: list[dict], links: list[dict], ports: dict) -> tuple[list[dict], set[str]]:
    """(findings of nodes and ports, ids of the links that they explain)."""
    findings, explained = [], set()
    for node, by_rail in ports.items():
        whole = {rail: p for rail, p in by_rail.items() if p["bad"] and not p["good"]}
        if len(whole) == len(by_rail):
            only = {"rail": next(iter(whole))} if len(whole) == 1 else {}
            groups = [("bad_node", list(whole.values()), {"node": node, **only})]
        else:
            groups = [("bad_port", [p], _place(node, rail, p)) for rail, p in whole.items()]
        groups += [
            ("one_way", [p], {**_place(node, rail, p), "role": p["bad"][0]})
            for rail, p in by_rail.items()
            if p["bad"] and p["good"]
        ]
        for code, blamed, where in groups:
            sides = {
                (p["id"], role)
                for p in blamed
                for role in (p["bad"] if code == "one_way" else ROLES)
            }
            mine = [k for k in bad if any((k[role], role) in sides for role in ROLES)]
            explained |= {k["id"] for k in mine}
            findings.append(_blame(code, mine, where, _port_words(code, node, blamed, mine, where)))
    return findings, explained


def _place(node: str, rail: int, port: dict) -> dict:
    return {"node": node, "rail": rail, **({"device": port["device"]} if port["device"] else {})}


def _port_words(code: str, node: str, blamed: list[dict], links: list[dict], where: dict) -> str:
    ids = {p["id"] for p in blamed}
    partners = {
        k[f"{other}_node"]
        for k in links
        for own, other in ((CLIENT, SERVER), (SERVER, CLIENT))
        if k[own] in ids
    }
    count = f"{len(partners)} partner{'s' if len(partners) != 1 else ''}"
    if code == "one_way":
        role = where["role"]
        return f"{node}, rail {where['rail']}: as {role} no link to any of {count} passed, in the other role links do"
    if code == "bad_port":
        return f"{node}, rail {where['rail']}: no link to any of {count} passed; other rails of the node do"
    return f"{node}: no link to any of {count} passed" + (" on any rail" if len(blamed) > 1 else "")


def _paths(bad: list[dict], links: list[dict], known: proofs.Evidence) -> list[dict]:
    """What is left: between two nodes."""
    runs: dict[tuple[str, str], list[dict]] = {}
    for link in links:
        runs.setdefault((link["client"], link["server"]), []).append(link)
    groups: dict[tuple, list[dict]] = {}
    for link in bad:
        pair = tuple(sorted((link["server_node"], link["client_node"])))
        groups.setdefault((pair, _kind(link, runs, known)), []).append(link)
    findings = []
    for (pair, kind), mine in groups.items():
        rails = sorted({k["rail"] for k in mine})
        where: dict = {"nodes": list(pair)}
        where |= {"rail": rails[0]} if len(rails) == 1 else {"rails": rails}
        client, server = mine[0]["client_node"], mine[0]["server_node"]
        if kind == "one_way":
            where |= {"client": client, "server": server}
        words = {
            "once": f"between {pair[0]} and {pair[1]}; it passed when it was repeated, so the failure is not steady",
            "one_way": f"only {client} to {server}; the other direction passed",
            "bad_path": f"between {pair[0]} and {pair[1]}; both are fine with other nodes",
            "unknown": f"between {pair[0]} and {pair[1]}; which of the two is to blame takes a third node to tell",
        }[kind]
        code = kind if kind in ("one_way", "bad_path") else "not_enough_evidence"
        findings.append(_blame(code, mine, where, words))
    return findings


def _kind(link: dict, runs: dict, known: proofs.Evidence) -> str:
    if any(k["verdict"] == "passed" for k in runs[link["client"], link["server"]]):
        return "once"
    back = runs.get((link["server"], link["client"]))
    if back and any(k["verdict"] == "passed" for k in back):
        return "one_way"
    ends = [known.states.get((link[role], role)) for role in ROLES]
    return "bad_path" if ends == [GOOD, GOOD] else "unknown"


def _blame(code: str, links: list[dict], where: dict, words: str) -> dict:
    """One finding for several links: who, the worst figure, and the cause and remedy of the worst link's own finding."""
    worst = min(links, key=lambda k: (k["verdict"] != "failed", k["bandwidth_average_gbps"] or 0.0))
    inner = worst["finding"]
    return {
        **inner,
        "localisation": code,
        "where": where,
        "links": list(dict.fromkeys(k["id"] for k in links)),
        "verdict": worst["verdict"],
        "seen": f"{words}. {worst['id']}: {inner['seen']}",
    }
