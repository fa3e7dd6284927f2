"""Words for a terminal."""

from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import words

from . import report_cases
from .engine_data import link
from .test_report import facts

NOTHING = {
    "passed": False,
    "verdict": "skipped",
    "test": "gpudirect",
    "links": [],
    "skipped": [],
    "findings": [],
}


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({}, ""),
        ({"node": "a", "rail": 0, "link": "x"}, "node a, rail 0"),
        ({"nodes": ["a", "b"], "rail": 1}, "nodes a and b, rail 1"),
        ({"kind": "Node", "namespace": None, "name": "a", "nodes": ["a"]}, "Node a"),
        ({"kind": "Pod", "namespace": "ns", "name": "p", "nodes": ["a"]}, "Pod ns/p, nodes a"),
        ({"namespace": "ns"}, "namespace ns"),
        (
            {"nodes": [f"n{i}" for i in range(12)]},
            "nodes n0, n1, n2, n3, n4, n5, n6, n7 and 4 more",
        ),
        ({"pod": "x\ny"}, "pod x y"),
    ],
)
def test_place(where, text):
    assert words.place(where) == text


def test_a_finding_is_explained_whole():
    result = facts("slow_node")["tests"][0]
    text = words.explain_result(result)
    assert text.startswith(
        "RDMA, host memory: slow (slow_link)\n[bad_node: slow_link] The link is slower"
    )
    for part in (
        "(node gpu-node-3, rail 0)",
        "required 360 Gb/s",
        "  cause:  ",
        "  remedy: ",
        "  more:   ",
    ):
        assert part in text


def test_a_passed_test_is_one_line():
    assert words.explain_result(facts("two")["tests"][0]) == (
        "RDMA, host memory: passed. 2 links measured, the slowest 386.5 Gb/s."
    )


def test_a_hundred_findings_are_cut():
    result = {**facts("slow_node")["tests"][0]}
    result["findings"] = result["findings"] * 100
    assert words.explain_result(result).endswith("… and 80 more findings.")


def test_terminal_gets_no_control_characters():
    result = report_cases.hostile()
    for text in (
        *words.summary(result["readiness"], result["tests"]),
        words.explain_result(result["tests"][0]),
    ):
        assert "\x1b" not in text and "\x00" not in text
    assert "\\x1b[31m" in words.explain_result(result["tests"][0])


def test_round_summary():
    links = [link(1, 2), link(3, 4, "slow", gbps=211.04), link(5, 6, "failed")]
    assert words.round_summary(links, 3, 2) == (
        "round 2: 3 links, 1 passed, 1 slow, 1 failed; slowest n4/0 -> n3/0 211.0 Gb/s (required 360.0);"
        " n6/0 -> n5/0 completion_error"
    )
    assert words.round_summary(links, 1, 3).startswith("round 3: 1 link, 1 failed")


def test_round_title():
    back = [{**link(2, 1), "round": 4}]
    assert words.round_title([{**link(1, 2), "round": 3}, *back], 7) == "round 3-4/7, 2 links"
    assert words.round_title(back, 7) == "round 4/7, 1 link"


def test_a_short_table_is_whole():
    lines = words.summary(None, facts("bad_path")["tests"][:1])
    assert sum(" -> " in line and line.endswith("  passed") for line in lines) == 16


def test_a_long_table_shows_what_matters():
    lines = words.summary(None, facts("large")["tests"][:1])
    assert sum("slow (slow_link)" in line for line in lines) == 6
    assert "  and 1009 more that passed, the median 388.2 Gb/s" in lines


def test_skipped_nodes_are_told():
    test = {
        **facts("two")["tests"][0],
        "skipped": [{"node": f"n{i}", "reason": "cordoned"} for i in range(14)],
    }
    lines = words.summary(None, [test])
    assert "  node n0 was not tested: cordoned" in lines
    assert "  and 4 more nodes not tested" in lines


@pytest.mark.parametrize(
    ("readiness", "tests", "verdict", "text"),
    [
        (None, [], "not_measured", "neither readiness nor a test was run"),
        ({"passed": True, "checks": []}, [], "not_measured", "readiness passed, no test was run"),
        (None, [NOTHING], "not_fit", "not tested: GPUDirect RDMA, GPU memory"),
        (
            {"passed": False, "checks": [{"status": "skipped", "seen": "", "title": "x"}]},
            [],
            "not_fit",
            "readiness is not proven, 1 check could not be judged",
        ),
        (
            {
                "passed": False,
                "checks": [{"status": "failed", "seen": s, "title": "x"} for s in "ab"],
            },
            [],
            "not_fit",
            "2 readiness checks failed, the first: a",
        ),
    ],
)
def test_answer(readiness, tests, verdict, text):
    assert words.answer(readiness, tests) == (verdict, text)


def test_a_skipped_test_beside_a_passed_one_is_not_fit():
    assert words.answer(None, [facts("two")["tests"][0], NOTHING])[0] == "not_fit"


def test_the_summary_ends_with_the_answer():
    assert words.summary(None, [])[-1] == "NOT MEASURED: neither readiness nor a test was run"
    two = facts("two")
    assert words.summary(two["readiness"], two["tests"])[-1].startswith(
        "FIT: all of 4 links passed"
    )


def test_a_test_of_latency_beside_one_of_bandwidth():
    bandwidth = facts("two")["tests"][0]
    latency = {**bandwidth, "worst_gbps": None, "best_gbps": None}
    assert words.answer(None, [bandwidth, latency])[0] == "fit"
    assert words.answer(None, [latency]) == (
        "fit",
        f"FIT: all of {len(latency['links'])} links passed",
    )
