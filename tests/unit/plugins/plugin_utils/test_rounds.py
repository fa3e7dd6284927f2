from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import rounds

from .engine_data import endpoint, link

PLAN = {
    "plan": "adaptive",
    "retests": 4,
    "rail_mode": "serial",
    "cross_rail": False,
    "max_parallel_links": 0,
    "reference": "",
}
BOTH = {**PLAN, "both_directions": True}
ONE = {**PLAN, "both_directions": False}
COUNTS = [2, 3, 4, 5, 7, 8, 33, 64, 255, 1000]


def ends_of(count, rails=1):
    return [endpoint(n, rail) for n in range(1, count + 1) for rail in range(rails)]


def node(name):
    return name.partition("/")[0]


def pairs_of(links):
    return {frozenset((node(k["server"]), node(k["client"]))) for k in links}


def check(plan, ends, limit=0):
    """What holds for every plan: nodes meet one other a round, links join two nodes, both directions are there, no link twice."""
    seen = set()
    for number, links in enumerate(plan, 1):
        assert links and (not limit or len(links) <= limit)
        met = [n for pair in pairs_of(links) for n in pair]
        assert len(met) == len(set(met))
        for k in links:
            assert node(k["server"]) != node(k["client"])
            assert k["round"] == number and k["wave"] == 0
            assert (k["server"], k["client"]) not in seen
            seen.add((k["server"], k["client"]))
    assert {(b, a) for a, b in seen} == seen
    if len(ends) > 1:
        assert {e for k in seen for e in k} == {e["id"] for e in ends}
    return seen


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["pairs", "adaptive"])
def test_pairs_every_node_once(name, count):
    ends = ends_of(count)
    plan = rounds.plan_rounds(ends, {**BOTH, "plan": name})
    check(plan, ends)
    assert len(plan) == (2 if count % 2 == 0 else 4)


@pytest.mark.parametrize("count", COUNTS)
def test_ring_every_node_meets_its_neighbours(count):
    ends = ends_of(count)
    plan = rounds.plan_rounds(ends, {**BOTH, "plan": "ring"})
    links = check(plan, ends)
    assert len(links) == (2 * count if count > 2 else 2)
    assert len(plan) == (2 if count == 2 else 4 if count % 2 == 0 else 6)


@pytest.mark.parametrize("count", [c for c in COUNTS if c < 100])
def test_full_mesh_every_pair_in_the_fewest_rounds(count):
    ends = ends_of(count)
    plan = rounds.plan_rounds(ends, {**BOTH, "plan": "full_mesh"})
    assert len(check(plan, ends)) == count * (count - 1)
    assert len(plan) == 2 * (count - 1 if count % 2 == 0 else count)


def test_full_mesh_of_a_thousand():
    plan = rounds._full_mesh(list(range(1000)))
    assert len(plan) == 999 and all(len(pairs) == 500 for pairs in plan)
    assert len({(min(p), max(p)) for pairs in plan for p in pairs}) == 1000 * 999 // 2


@pytest.mark.parametrize("count", COUNTS)
def test_star(count):
    ends = ends_of(count)
    plan = rounds.plan_rounds(ends, {**BOTH, "plan": "star", "reference": "n2"})
    check(plan, ends)
    assert len(plan) == 2 * (count - 1) and all("n2" in p for r in plan for p in pairs_of(r))
    assert rounds.plan_rounds(ends, {**ONE, "plan": "star"})[0][0]["server"] == "n1/0"


def test_a_reference_that_is_not_tested():
    with pytest.raises(ValueError, match="reference node n9"):
        rounds.plan_rounds(ends_of(3), {**BOTH, "plan": "star", "reference": "n9"})


def test_two_nodes_are_two_rounds_of_one_link():
    plan = rounds.plan_rounds([endpoint(1), endpoint(2)], BOTH)
    assert [[k["id"] for k in links] for links in plan] == [["n2/0 -> n1/0"], ["n1/0 -> n2/0"]]


def test_one_direction_only():
    assert len(rounds.plan_rounds([endpoint(1), endpoint(2)], ONE)) == 1


def test_one_node_has_nothing_to_measure():
    for name in rounds.PLANS:
        assert rounds.plan_rounds([endpoint(1)], {**BOTH, "plan": name}) == []


# ---- rails


@pytest.mark.parametrize("name", rounds.PLANS)
@pytest.mark.parametrize("count", [2, 3, 8, 9])
def test_rails_one_after_another_or_at_once(name, count):
    ends = ends_of(count, 4)
    serial = rounds.plan_rounds(ends, {**BOTH, "plan": name})
    at_once = rounds.plan_rounds(ends, {**BOTH, "plan": name, "rail_mode": "parallel"})
    assert check(serial, ends) == check(at_once, ends)
    assert len(serial) == 4 * len(at_once)
    assert all(len({k["rail"] for k in links}) == 1 for links in serial)
    assert all({k["rail"] for k in links} == {0, 1, 2, 3} for links in at_once)


@pytest.mark.parametrize("mode", ["serial", "parallel"])
def test_across_rails(mode):
    ends = ends_of(4, 3)
    settings = {**BOTH, "rail_mode": mode, "cross_rail": True}
    plan = rounds.plan_rounds(ends, settings)
    lanes = {(k.get("client_rail", k["rail"]), k["rail"]) for links in plan for k in links}
    assert lanes == {(a, b) for a in range(3) for b in range(3)}
    across = next(k for links in plan for k in links if "client_rail" in k)
    assert across["server"].endswith(f"/{across['rail']}")
    assert across["client"].endswith(f"/{across['client_rail']}")


@pytest.mark.parametrize("mode", ["serial", "parallel"])
def test_a_node_without_a_rail_leaves_nobody_out(mode):
    ends = [e for e in ends_of(4, 2) if e["id"] not in ("n1/1", "n4/1")]
    plan = rounds.plan_rounds(ends, {**BOTH, "rail_mode": mode})
    assert {k[s] for r in plan for k in r for s in ("server", "client")} == {e["id"] for e in ends}


@pytest.mark.parametrize("name", rounds.PLANS)
@pytest.mark.parametrize(("mode", "limit"), [("serial", 3), ("parallel", 4), ("serial", 1)])
def test_rounds_can_be_limited(name, mode, limit):
    ends = ends_of(17, 2)
    settings = {**BOTH, "plan": name, "rail_mode": mode, "max_parallel_links": limit}
    limited = check(rounds.plan_rounds(ends, settings), ends, limit)
    assert limited == check(rounds.plan_rounds(ends, {**settings, "max_parallel_links": 0}), ends)


# ---- retests


def test_suspects_meet_different_known_good_partners():
    ends = ends_of(8)
    links = [link(1, 2, "slow"), link(2, 1, "slow")]
    links += [link(a, b) for a, b in ((3, 4), (4, 3), (5, 6), (6, 5), (7, 8), (8, 7))]
    plan = rounds.plan_retests(links, ends, BOTH)
    assert len(plan) == 2 and all(len(r) == 2 for r in plan)
    assert [k["wave"] for k in plan[0]] == [1, 1] and plan[0][0]["round"] == 2
    partners = {k["client"]: k["server"] for k in plan[0]}
    assert set(partners) == {"n1/0", "n2/0"}
    assert len(set(partners.values())) == 2 and not set(partners.values()) & {"n1/0", "n2/0"}


def test_no_retest_without_a_known_good_partner_or_a_suspect():
    ends = [endpoint(1), endpoint(2)]
    assert rounds.plan_retests([link(1, 2, "slow")], ends, BOTH) == []
    assert rounds.plan_retests([link(1, 2)], ends, BOTH) == []


@pytest.mark.parametrize("changes", [{"plan": "pairs"}, {"retests": 0}])
def test_no_retests_where_none_are_wanted(changes):
    links = [link(1, 2, "slow"), link(3, 4)]
    assert rounds.plan_retests(links, ends_of(4), {**BOTH, **changes}) == []


def test_in_one_direction_a_suspect_keeps_its_role():
    links = [link(1, 2, "slow"), link(3, 4), link(5, 6)]
    plan = rounds.plan_retests(links, ends_of(6), ONE)
    assert len(plan) == 1
    (server, client), (other_server, other_client) = [(k["server"], k["client"]) for k in plan[0]]
    assert server == "n1/0" and client in ("n4/0", "n6/0")
    assert other_client == "n2/0" and other_server in ("n3/0", "n5/0")


def test_a_bad_path_is_repeated_once_both_ends_are_proven():
    links = [link(1, 2, "slow"), link(2, 1), link(3, 4), link(4, 3)]
    links += [link(3, 1, wave=1), link(1, 3, wave=1), link(4, 2, wave=1), link(2, 4, wave=1)]
    plan = rounds.plan_retests(links, ends_of(4), BOTH)
    assert [[k["id"] for k in r] for r in plan] == [["n2/0 -> n1/0"], ["n1/0 -> n2/0"]]
    links += [link(1, 2, "slow", wave=2), link(2, 1, wave=2)]
    assert rounds.plan_retests(links, ends_of(4), BOTH) == []


def test_a_node_with_two_strikes_is_not_measured_again():
    links = [link(1, 2, "slow"), link(2, 1, "slow"), link(3, 4), link(4, 3)]
    links += [link(3, 1, wave=1), link(1, 3, wave=1)]
    links += [link(4, 2, "slow", wave=1), link(2, 4, "slow", wave=1)]
    assert rounds.plan_retests(links, ends_of(4), BOTH) == []


def test_where_nobody_passed_others_are_tried_once():
    links = [link(a, b, "slow") for a, b in ((1, 2), (2, 1), (3, 4), (4, 3))]
    plan = rounds.plan_retests(links, ends_of(4), BOTH)
    assert len(plan) == 2 and not pairs_of(plan[0]) & {frozenset(["n1", "n2"])}
    links += [link(a, b, "slow", wave=1) for a, b in ((1, 3), (3, 1), (2, 4), (4, 2))]
    assert rounds.plan_retests(links, ends_of(4), BOTH) == []


def test_waves_are_bounded():
    links = [link(1, 2, "slow", wave=4), link(3, 4)]
    assert rounds.plan_retests(links, ends_of(4), BOTH) == []


@pytest.mark.parametrize("mode", ["serial", "parallel"])
def test_retests_of_several_rails_share_rounds(mode):
    """Suspects of different rails on different nodes are measured at the same time."""
    good = [(5, 6), (6, 5), (7, 8), (8, 7), (9, 10), (10, 9), (11, 12), (12, 11)]
    links = [link(a, b, rail=r) for r in (0, 1) for a, b in good]
    links += [link(1, 2, "slow"), link(2, 1, "slow"), link(1, 2, rail=1), link(2, 1, rail=1)]
    links += [link(3, 4), link(4, 3)]
    links += [link(3, 4, "slow", rail=1), link(4, 3, "slow", rail=1)]
    plan = rounds.plan_retests(links, ends_of(12, 2), {**BOTH, "rail_mode": mode})
    assert len(plan) == 2 and {k["rail"] for k in plan[0]} == {0, 1}
    met = [n for p in pairs_of(plan[0]) for n in p]
    assert len(met) == len(set(met)) == 8


@pytest.mark.parametrize(
    ("mode", "limit", "rounds_a_direction"),
    [("serial", 1, 2), ("parallel", 2, 2), ("parallel", 4, 1)],
)
def test_retests_respect_the_limit(mode, limit, rounds_a_direction):
    rails = (0, 1) if mode == "parallel" else (0,)
    links = [link(a, b, rail=r) for r in rails for a, b in ((3, 4), (4, 3), (5, 6), (6, 5))]
    links += [link(1, 2, "slow"), link(2, 1, "slow")]
    settings = {**BOTH, "rail_mode": mode, "max_parallel_links": limit}
    plan = rounds.plan_retests(links, ends_of(6, len(rails)), settings)
    assert len(plan) == 2 * rounds_a_direction
    assert all(len(links_of_round) <= limit for links_of_round in plan)
    if (
        mode == "parallel"
    ):  # a pair measures all its rails at once, though only one of them is suspect
        assert all({k["rail"] for k in links_of_round} == {0, 1} for links_of_round in plan)


def test_what_perftest_itself_spoilt_is_run_again_three_times_in_all():
    judged = [
        {**link(1, 2, "failed"), "code": "listen_race"},
        {**link(3, 4, "failed"), "code": "connect_failed"},
        {**link(5, 6), "code": None},
    ]
    (again,) = rounds.repeats(judged)
    assert again == {
        **{k: judged[0][k] for k in ("id", "rail", "server", "client", "round", "wave")},
        "attempts": 2,
    }
    judged = rounds.with_repeats(judged, [{**again, "code": "listen_race"}])
    (again,) = rounds.repeats(judged)
    assert again["attempts"] == 3
    judged = rounds.with_repeats(judged, [{**again, "code": "listen_race"}])
    assert rounds.repeats(judged) == []
    assert [k["code"] for k in judged] == ["listen_race", "connect_failed", None]


def test_a_round_and_its_reverse_are_one_task():
    ends = [endpoint(n) for n in range(1, 9)]
    plan = rounds.plan_rounds(ends, BOTH)
    joined = rounds.there_and_back(plan)
    assert len(plan) == 2 * len(joined)
    assert [k["id"] for batch in joined for k in batch] == [
        k["id"] for links in plan for k in links
    ]


def test_rounds_that_are_no_reverse_stay_apart():
    ends = [endpoint(n) for n in range(1, 6)]
    one_way = rounds.plan_rounds(ends, {**BOTH, "both_directions": False})
    assert rounds.there_and_back(one_way) == one_way
    several = [endpoint(n, rail) for n in (1, 2) for rail in (0, 1)]
    parallel = rounds.plan_rounds(several, {**BOTH, "rail_mode": "parallel"})
    assert rounds.there_and_back(parallel) == parallel
