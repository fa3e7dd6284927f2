from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import rounds

from .engine_data import endpoint, link

BOTH = {"both_directions": True}
ONE = {"both_directions": False}


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 33, 64])
@pytest.mark.parametrize("rails", [1, 2])
def test_every_node_meets_a_partner_and_none_is_twice_in_a_round(count, rails):
    ends = [endpoint(n, rail) for n in range(1, count + 1) for rail in range(rails)]
    plan = rounds.plan_rounds(ends, BOTH)
    by_id = {e["id"]: e for e in ends}
    for links in plan:
        nodes = [by_id[k[side]]["node"] for k in links for side in ("server", "client")]
        assert len(nodes) == len(set(nodes))
        assert all(
            by_id[k["server"]]["rail"] == by_id[k["client"]]["rail"] == k["rail"] for k in links
        )
    met = {k[side] for links in plan for k in links for side in ("server", "client")}
    assert met == set(by_id)
    directed = [(k["server"], k["client"]) for links in plan for k in links]
    assert len(set(directed)) == len(directed)
    assert {(b, a) for a, b in directed} == set(directed)


def test_two_nodes_are_two_rounds_of_one_link():
    plan = rounds.plan_rounds([endpoint(1), endpoint(2)], BOTH)
    assert [[k["id"] for k in links] for links in plan] == [["n2/0 -> n1/0"], ["n1/0 -> n2/0"]]


def test_one_direction_only():
    assert len(rounds.plan_rounds([endpoint(1), endpoint(2)], ONE)) == 1


def test_one_node_has_nothing_to_measure():
    assert rounds.plan_rounds([endpoint(1)], BOTH) == []


def test_suspects_meet_different_known_good_partners():
    ends = [endpoint(n) for n in range(1, 9)]
    links = [link(1, 2, "slow"), link(2, 1, "slow")]
    links += [link(a, b) for a, b in ((3, 4), (4, 3), (5, 6), (6, 5), (7, 8), (8, 7))]
    plan = rounds.plan_retests(links, ends, BOTH)
    assert len(plan) == 2 and all(len(r) == 2 for r in plan)
    partners = {k["client"]: k["server"] for k in plan[0]}
    assert set(partners) == {"n1/0", "n2/0"}
    assert len(set(partners.values())) == 2 and not set(partners.values()) & {"n1/0", "n2/0"}


def test_no_retest_without_a_known_good_partner_or_a_suspect():
    ends = [endpoint(1), endpoint(2)]
    assert rounds.plan_retests([link(1, 2, "slow")], ends, BOTH) == []
    assert rounds.plan_retests([link(1, 2)], ends, BOTH) == []


def test_few_good_partners_take_several_rounds():
    ends = [endpoint(n) for n in range(1, 7)]
    links = [link(1, 2, "slow"), link(3, 4, "slow"), link(5, 6)]
    plan = rounds.plan_retests(links, ends, ONE)
    assert sorted(k["client"] for r in plan for k in r) == ["n1/0", "n2/0", "n3/0", "n4/0"]
    for links_of_round in plan:
        ids = [k[s] for k in links_of_round for s in ("server", "client")]
        assert len(ids) == len(set(ids))
