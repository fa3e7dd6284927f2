"""What changed since an earlier run."""

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_compare import compare
from ansible_collections.k8si.fabric.plugins.plugin_utils.results_file import read_results

from .test_report import document


def changed(case: str, change) -> dict:
    """The comparison of a document with itself before `change` was done to it."""
    now, before = document(case), document(case)
    change(now)
    return compare(now, before, 5)


def test_nothing_changed():
    result = compare(document("sixteen"), document("sixteen"), 5)
    assert result["changes"] == []
    assert result["counts"] == {
        "worse": 0,
        "vanished": 0,
        "better": 0,
        "appeared": 0,
        "unchanged": 384,
    }
    assert result["sentence"].endswith(": 384 unchanged")


@pytest.mark.parametrize(
    ("factor", "change"), [(0.94, "worse"), (0.96, None), (1.04, None), (1.06, "better")]
)
def test_figures_that_move_more_than_the_tolerance(factor, change):
    def move(now):
        link = now["tests"][0]["links"][0]
        link["bandwidth_average_gbps"] *= factor

    changes = changed("two", move)["changes"]
    assert [c["change"] for c in changes] == ([change] if change else [])
    if change:
        assert changes[0]["difference_percent"] == pytest.approx((factor - 1) * 100, abs=0.02)
        assert changes[0]["words"].startswith(
            "rdma, rail 0: gpu-node-2 to gpu-node-1 got " + change
        )


def test_a_verdict_counts_whatever_the_figure():
    def slow(now):
        now["tests"][0]["links"][0].update(verdict="slow", code="slow_link")

    (change,) = changed("two", slow)["changes"]
    assert (change["change"], change["difference_percent"]) == ("worse", 0.0)


def test_links_that_vanish_and_appear():
    def other(now):
        link = now["tests"][0]["links"][0]
        link["server_node"] = "gpu-node-9"

    changes = changed("slow_node", other)["changes"]
    assert [(c["change"], c["kind"]) for c in changes] == [
        ("vanished", "link"),
        ("appeared", "link"),
    ]


def test_a_test_that_was_not_run_is_one_change():
    result = compare(document("two_slow"), document("two"), 5)
    kinds = [(c["change"], c["kind"]) for c in result["changes"]]
    assert kinds == [
        ("worse", "finding"),
        ("worse", "link"),
        ("worse", "link"),
        ("vanished", "test"),
    ]
    back = compare(document("two"), document("two_slow"), 5)
    assert [(c["change"], c["kind"]) for c in back["changes"]] == [
        ("better", "finding"),
        ("better", "link"),
        ("better", "link"),
        ("appeared", "test"),
    ]


def test_checks():
    def fail(now):
        now["readiness"]["checks"][3]["status"] = "failed"

    (change,) = changed("two", fail)["changes"]
    assert change["words"] == "readiness check policy got worse: passed, now failed"


def test_parameters_that_differ_are_told():
    def change(now):
        now["tests"][0]["parameters"]["qps"] = 4

    assert changed("two", change)["parameters"] == [
        {"test": "rdma", "name": "qps", "before": 1, "now": 4}
    ]


def test_the_worst_comes_first():
    changes = compare(document("failures"), document("sixteen"), 5)["changes"]
    order = ["worse", "vanished", "better", "appeared"]
    found = [order.index(c["change"]) for c in changes]
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no", "old.json is not JSON"),
        ("[]", "old.json is not a results.json"),
        ('{"schema_version": "1.0"}', "old.json is not a results.json"),
        (
            '{"schema_version": "2.0", "tests": []}',
            "old.json has schema version 2.0, this collection reads 1.0",
        ),
    ],
)
def test_what_is_no_baseline(text, words):
    with pytest.raises(ValueError, match=words):
        read_results(text, "old.json")


def test_a_newer_minor_version_is_read():
    old = copy.deepcopy(document("two"))
    old["schema_version"] = "1.7"
    assert read_results(json.dumps(old), "old.json")["run"]["id"] == "260302-093000-1a2b"
