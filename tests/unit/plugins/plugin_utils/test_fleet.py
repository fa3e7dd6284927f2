from __future__ import annotations

from ansible_collections.k8si.fabric.plugins.plugin_utils import fleet

from .engine_data import link


def test_a_link_far_below_the_median_is_an_outlier():
    links = [link(n, n + 1, gbps=390.0 + n % 3) for n in range(1, 20, 2)]
    assert fleet.outliers(links, 5) == []
    links.append(link(21, 22, gbps=361.0))
    (found,) = fleet.outliers(links, 5)
    assert found["link"] == "n22/0 -> n21/0" and found["below_percent"] == 7.7
    assert fleet.outliers(links, 0) == [] and fleet.outliers(links, 10) == []


def test_what_did_not_pass_is_no_outlier_and_a_few_links_have_none():
    links = [link(n, n + 1, gbps=390.0) for n in range(1, 20, 2)]
    assert fleet.outliers([*links, link(21, 22, "slow", gbps=100.0)], 5) == []
    assert fleet.outliers([*links[:5], link(21, 22, gbps=361.0)], 5) == []


def test_a_wide_spread_has_no_outliers_by_chance():
    links = [link(n, n + 1, gbps=360.0 + 5 * n) for n in range(1, 20, 2)]
    assert fleet.outliers(links, 5) == []


def test_each_rail_has_its_own_median():
    links = [link(n, n + 1, gbps=390.0) for n in range(1, 20, 2)]
    links += [link(n, n + 1, rail=1, gbps=195.0) for n in range(1, 20, 2)]
    assert fleet.outliers(links, 5) == []


def test_sums_of_rails_that_ran_at_once():
    links = [link(1, 2), link(1, 2, rail=1, gbps=380.0), link(3, 4)]
    assert fleet.pair_sums(links) == [
        {
            "client_node": "n2",
            "server_node": "n1",
            "round": 1,
            "rails": [0, 1],
            "sum_gbps": 770.0,
            "line_rate_gbps": 800.0,
        }
    ]
    links[1]["bandwidth_average_gbps"] = None
    assert fleet.pair_sums(links)[0]["sum_gbps"] is None


def test_remarks():
    links = [link(n, n + 1, gbps=390.0) for n in range(1, 20, 2)] + [link(21, 22, gbps=361.0)]
    pairs = fleet.pair_sums([link(1, 2), link(1, 2, rail=1)])
    links[0]["attempts"] = 2
    result = {"links": links, "notes": ["n"], "outliers": fleet.outliers(links, 5), "pairs": pairs}
    said = fleet.remarks(result)
    assert said[0] == "n" and "outlier: n22/0 -> n21/0 passed with 361.0 Gb/s" in said[1]
    assert said[2].startswith("run again because perftest's client came between")
    assert said[2].endswith(f": {links[0]['id']}")
    assert "2 rails at once: the least sum is 780.0 of 800 Gb/s, n2 to n1" in said[3]
