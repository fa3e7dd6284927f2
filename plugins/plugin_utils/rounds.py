# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which links are measured, and when. Pure.

A link is {id, rail, server, client, round, wave}: server and client are ids of endpoints on different nodes; `client_rail` is
there only where it is not `rail`. Data of a write test flows from client to server. A round is a list of links that run at the
same time; no node meets two others in it. Wave 0 is the plan, later waves are retests of what did not pass.
"""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.k8si.fabric.plugins.plugin_utils import evidence as proofs
from ansible_collections.k8si.fabric.plugins.plugin_utils.evidence import (
    CLIENT,
    GOOD,
    ROLES,
    SERVER,
    SUSPECT,
)

REPEATED = ("listen_race",)  # failures of perftest itself: the next run works
ATTEMPTS = 3
PLANS = ("adaptive", "pairs", "ring", "full_mesh", "star")

Pair = tuple[str, str]  # (server, client), of nodes or of endpoints


def plan_rounds(endpoints: list[dict], settings: dict) -> list[list[dict]]:
    """The rounds of the first wave.

    Args:
        endpoints: {id, node, rail}, in the order of the nodes.
        settings: `plan`, `both_directions`, `rail_mode` (`serial`, `parallel`), `cross_rail`, `max_parallel_links`
            (0: no limit), `reference` (node of a star; empty: the first).

    Returns:
        Rounds. `adaptive` and `pairs` let every node meet one other (with an odd number the last meets the first in a round
        of its own); `ring` each its two neighbours; `full_mesh` all others, N-1 rounds for even N, N for odd; `star` the
        reference all others. With `both_directions` each round is followed by its reverse.

    Raises:
        ValueError: the reference is not among the nodes.
    """
    table = {(e["node"], e["rail"]): e["id"] for e in endpoints}
    order = list(dict.fromkeys(e["node"] for e in endpoints))
    rounds: list[list[dict]] = []
    for lanes in _lanes(sorted({e["rail"] for e in endpoints}), settings):
        nodes = [n for n in order if any((n, c) in table and (n, s) in table for c, s in lanes)]
        for pairs in _plan(nodes, settings):
            rounds += _directed(pairs, lanes, table, settings)
        rounds += _left_out(rounds, lanes, table, order, settings)
    return _numbered(rounds, first=1, wave=0)


def there_and_back(rounds: list[list[dict]]) -> list[list[dict]]:
    """Joins each round with the one behind it where that is its reverse, so that one task runs both.

    The way back of a pair starts when its way there has ended (`commands.round_items`); the start of a task costs as much as a
    short measurement. Rounds in which a node has several links (rails in parallel) stay apart: a pair's way back would
    run beside another rail's way there.
    """
    joined: list[list[dict]] = []
    for links in rounds:
        before = joined[-1] if joined else []
        ways = {(k["server"], k["client"]) for k in before}
        nodes = [k[role].rpartition("/")[0] for k in links for role in ROLES]
        back = {(k["client"], k["server"]) for k in links}
        if before and ways == back and len(ways) == len(before) and len(set(nodes)) == len(nodes):
            joined[-1] = [*before, *links]
        else:
            joined.append(links)
    return joined


def repeats(judged: list[dict]) -> list[dict]:
    """The links of a round that are run again at once, with `attempts`: which run that will be. Empty: nothing is left to repeat."""
    keys = ("id", "rail", "client_rail", "server", "client", "round", "wave")
    return [
        {**{k: link[k] for k in keys if k in link}, "attempts": link.get("attempts", 1) + 1}
        for link in judged
        if link["code"] in REPEATED and link.get("attempts", 1) < ATTEMPTS
    ]


def with_repeats(judged: list[dict], again: list[dict]) -> list[dict]:
    """The judged links of a round, with what came of those that were run again."""
    newer = {link["id"]: link for link in again}
    return [newer.get(link["id"], link) for link in judged]


def _lanes(rails: list[int], settings: dict) -> list[list[proofs.Lane]]:
    """Groups of (client rail, server rail) that a pair measures at the same time."""
    shifts = range(len(rails) if settings["cross_rail"] else min(1, len(rails)))
    groups = [
        [(rails[(k + shift) % len(rails)], rail) for k, rail in enumerate(rails)]
        for shift in shifts
    ]
    if settings["rail_mode"] == "parallel":
        return groups
    return [[lane] for group in groups for lane in group]


def _plan(nodes: list[str], settings: dict) -> list[list[Pair]]:
    if len(nodes) < 2:
        return []
    if settings["plan"] == "ring":
        return _ring(nodes)
    if settings["plan"] == "full_mesh":
        return _full_mesh(nodes)
    if settings["plan"] == "star":
        return _star(nodes, settings["reference"])
    return _matching(nodes)


def _matching(nodes: list[str]) -> list[list[Pair]]:
    pairs = [(nodes[i], nodes[i + 1]) for i in range(0, len(nodes) - 1, 2)]
    return [pairs, [(nodes[0], nodes[-1])]] if len(nodes) % 2 else [pairs]


def _ring(nodes: list[str]) -> list[list[Pair]]:
    count = len(nodes)
    if count == 2:
        return [[(nodes[0], nodes[1])]]
    edges = [(nodes[i], nodes[(i + 1) % count]) for i in range(count)]
    if count % 2:
        return [edges[0:-1:2], edges[1::2], edges[-1:]]
    return [edges[0::2], edges[1::2]]


def _full_mesh(nodes: list[str]) -> list[list[Pair]]:
    """The circle method: one stands, the others go round; with an odd number one pauses in each round."""
    ring: list[str | None] = [*nodes, None] if len(nodes) % 2 else list(nodes)
    half, rounds = len(ring) // 2, []
    for _turn in range(len(ring) - 1):
        across = zip(ring[:half], reversed(ring[half:]), strict=True)
        rounds.append([(a, b) for a, b in across if a is not None and b is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


def _star(nodes: list[str], reference: str) -> list[list[Pair]]:
    centre = reference or nodes[0]
    if centre not in nodes:
        raise ValueError(
            f"the reference node {centre} is not among the nodes that can be tested: {', '.join(nodes[:20])}"
        )
    return [[(centre, node)] for node in nodes if node != centre]


def _left_out(rounds, lanes, table, order, settings) -> list[list[dict]]:
    """Ports whose partner lacks the rail, when all rails of a pair run at once: they meet somebody who has it."""
    if len(lanes) == 1 or settings["plan"] not in ("adaptive", "pairs"):
        return []
    met = {k[role] for links in rounds for k in links for role in ROLES}
    extra: list[list[dict]] = []
    for lane in lanes:
        having = [n for n in order if all((n, rail) in table for rail in lane)]
        alone = [n for n in having if table[n, lane[1]] not in met]
        others = [n for n in having if n not in alone]
        pairs = _matching(alone)[0] if len(alone) > 1 else []
        if len(alone) % 2 and (others or len(alone) > 1):
            pairs = [*pairs, ((others or alone)[0], alone[-1])]
        for batch in _batches(pairs):
            extra += _directed(batch, [lane], table, settings)
    return extra


def plan_retests(links: list[dict], endpoints: list[dict], settings: dict) -> list[list[dict]]:
    """The next wave: what must be measured to tell which end or path of the failed links is to blame.

    Every suspect meets a partner that is known to be good and that it has not met; a link whose two ends proved good
    elsewhere is repeated once, so that a chance result is not taken for a bad path; where nobody is known to be good,
    suspects meet other suspects.

    Args:
        links: judged links of all waves so far ({id, rail, server, client, server_node, client_node, verdict, wave, round}).
        endpoints, settings: as for `plan_rounds`; also `retests`, the largest number of waves.

    Returns:
        Rounds; none when everything is decided, cannot be decided, or the waves are used up, and for every plan but `adaptive`.
        In a wave every rail has at most one round a direction (more only with `max_parallel_links`).
    """
    wave = max((k["wave"] for k in links), default=0) + 1
    if settings["plan"] != "adaptive" or wave > settings["retests"]:
        return []
    known = proofs.weigh(links)
    place = {e["id"]: (e["node"], e["rail"]) for e in endpoints}
    table = {at: name for name, at in place.items()}
    wanted: list[tuple[Pair, proofs.Lane]] = []
    rails = sorted({rail for _node, rail in place.values()})
    parallel = settings["rail_mode"] == "parallel"
    for rail in rails:
        ids = [name for name, at in place.items() if at[1] == rail]
        met_now = {frozenset(place[e][0] for e in pair) for pair, _lane in wanted}
        pairs = _suspects_meet(ids, known, wave, place, met_now, parallel)
        wanted += [(pair, (rail, rail)) for pair in pairs]
    busy = {(e, lane) for pair, lane in wanted for e in pair}
    for link in _to_repeat(links, known):
        lane, pair = proofs.lane_of(link), (link["server"], link["client"])
        # endpoints that a suspect meets on this rail in this wave are taken; the repetition waits for the next
        if not busy & {(e, lane) for e in pair}:
            wanted.append((pair, lane))
            busy |= {(e, lane) for e in pair}
    by_node = [((place[s][0], place[c][0]), lane) for (s, c), lane in wanted]
    rounds: list[list[dict]] = []
    for group in _packed(by_node, rails, parallel):
        # rails of a pair stay together
        limit, width = settings["max_parallel_links"], len(rails) if parallel else 1
        size = max(width, limit // width * width) if limit else len(group)
        for chunk in (group[i : i + size] for i in range(0, len(group), size)):
            rounds += _both_ways(chunk, table, settings)
    return _numbered(rounds, first=max((k["round"] for k in links), default=0) + 1, wave=wave)


def _suspects_meet(
    ids: list[str],
    known: proofs.Evidence,
    wave: int,
    place: dict[str, tuple[str, int]],
    met_now: set[frozenset[str]],
    parallel: bool,
) -> list[Pair]:
    """One matching on one rail: each suspect with somebody good that it has not met.

    met_now: the pairs of nodes that meet in this wave on other rails. Partners are chosen so that all fit into one round.
    """
    in_use = {node for pair in met_now for node in pair}
    in_use |= {place[e][0] for (e, _role), state in known.states.items() if state == SUSPECT}

    def crowding(suspect: str, partner: str) -> int:
        if parallel and frozenset((place[suspect][0], place[partner][0])) in met_now:
            return 0
        return 2 if place[partner][0] in in_use else 1

    suspects = [e for e in ids if any(known.states.get((e, r)) == SUSPECT for r in ROLES)]
    if not suspects and known.wide and wave == 1:
        # Nobody passed: perhaps several are bad, and other pairs tell. Once is enough.
        suspects = [
            e for e in ids if (e, CLIENT) not in known.states and (e, SERVER) not in known.states
        ]
    good = [e for e in ids if known.is_clean(e)]
    good += [e for e in ids if known.is_good(e) and not known.is_clean(e)]
    pairs, taken = [], set()
    for suspect in suspects:
        if suspect in taken:
            continue
        met = _met(suspect, known)
        role = CLIENT if known.states.get((suspect, CLIENT)) == SUSPECT else SERVER
        opposite = SERVER if role == CLIENT else CLIENT
        proven = [g for g in good if known.states.get((g, opposite)) == GOOD]
        # a different start for each, lest the first good one be everybody's partner
        start = ids.index(suspect) % len(proven) if proven else 0
        choice = proven[start:] + proven[:start] or suspects[::-1]
        free = [g for g in choice if g not in taken and g not in met and g != suspect]
        if free:
            partner = min(free, key=lambda g, own=suspect: crowding(own, g))
            pairs.append((partner, suspect) if role == CLIENT else (suspect, partner))
            taken |= {suspect, partner}
    return pairs


def _met(endpoint: str, known: proofs.Evidence) -> set[str]:
    return {b if a == endpoint else a for a, b in known.runs if endpoint in (a, b)}


def _to_repeat(links: list[dict], known: proofs.Evidence) -> list[dict]:
    """Links that failed once, though both ends are good in their roles."""
    return [
        k
        for k in links
        if known.runs[k["client"], k["server"]] == [False]
        and all(known.states.get((k[role], role)) == GOOD for role in ROLES)
    ]


def _packed(wanted: list, rails: list[int], parallel: bool) -> list[list]:
    """Groups of (pair of nodes, lane) that can run at once: no node meets two others.

    Where rails run at once, a pair measures all of them again: a port may be slow only beside the others.
    """
    if parallel:
        together: dict[Pair, set[proofs.Lane]] = {}
        for pair, lane in wanted:
            key = pair[::-1] if pair[::-1] in together else pair
            lanes = together.setdefault(key, {(rail, rail) for rail in rails})
            lanes.add(lane)
        batches = _batches(list(together))
        return [[(pair, lane) for pair in b for lane in sorted(together[pair])] for b in batches]
    by_lane: dict[proofs.Lane, list] = {}
    for item in wanted:
        by_lane.setdefault(item[1], []).append(item)
    mixed: list[list] = []
    for item in wanted:
        for group in mixed:
            if not {n for pair, _lane in group for n in pair} & set(item[0]):
                group.append(item)
                break
        else:
            mixed.append([item])
    return mixed if len(mixed) <= len(by_lane) else list(by_lane.values())


def _batches(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Splits pairs into groups in which nobody is twice."""
    batches: list[list[Pair]] = []
    busy: list[set[str]] = []
    for pair in pairs:
        for batch, taken in zip(batches, busy, strict=True):
            if not taken & set(pair):
                batch.append(pair)
                taken.update(pair)
                break
        else:
            batches.append([pair])
            busy.append(set(pair))
    return batches


def _directed(pairs, lanes, table, settings) -> list[list[dict]]:
    rounds = []
    width = len(lanes)
    for chunk in _chunks(pairs, settings, width):
        rounds += _both_ways([(pair, lane) for pair in chunk for lane in lanes], table, settings)
    return rounds


def _chunks(items: list, settings: dict, width: int) -> list[list]:
    """Parts of a round that respect `max_parallel_links`; an item is `width` links."""
    limit = settings["max_parallel_links"]
    size = max(1, limit // width) if limit else max(1, len(items))
    return [items[i : i + size] for i in range(0, len(items), size)]


def _both_ways(items: list, table: dict, settings: dict) -> list[list[dict]]:
    """A round of links and, if wanted, its reverse: nodes change roles, the rails of the roles stay."""
    rounds = []
    for turned in (False, True) if settings["both_directions"] else (False,):
        links = []
        for pair, (client_rail, rail) in items:
            server, client = pair[::-1] if turned else pair
            if (server, rail) in table and (client, client_rail) in table:
                links.append(
                    _link(table[server, rail], table[client, client_rail], client_rail, rail)
                )
        if links:
            rounds.append(links)
    return rounds


def _link(server: str, client: str, client_rail: int, rail: int) -> dict:
    across = {"client_rail": client_rail} if client_rail != rail else {}
    return {
        "id": f"{client} -> {server}",
        "rail": rail,
        **across,
        "server": server,
        "client": client,
    }


def _numbered(rounds: list[list[dict]], first: int, wave: int) -> list[list[dict]]:
    return [
        [{**link, "round": number, "wave": wave} for link in links]
        for number, links in enumerate(rounds, first)
    ]
