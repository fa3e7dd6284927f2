"""An earlier run as a threshold."""

from __future__ import annotations

import json

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import baseline
from ansible_collections.k8si.fabric.plugins.plugin_utils.settings import make_settings

from .engine_data import VARIABLES
from .test_report import document

NOW = make_settings(VARIABLES, "rdma_test_")
THERE, BACK = "gpu-node-2/0 -> gpu-node-1/0", "gpu-node-1/0 -> gpu-node-2/0"


def text(change=lambda before: None) -> str:
    before = document("two")
    change(before["tests"][0])
    return json.dumps(before)


def test_the_figures_of_every_link():
    made = baseline.make_baseline(text(), "old.json", NOW, 5)
    links = document("two")["tests"][0]["links"]
    assert made["figures"] == {k["id"]: k["bandwidth_average_gbps"] for k in links}
    assert sorted(made["figures"]) == [BACK, THERE]
    assert (made["run"], made["tolerance_percent"]) == ("260302-093000-1a2b", 5)


def test_of_a_link_measured_twice_the_best_counts_and_one_that_was_not_measured_is_none():
    def change(test):
        first, second = test["links"]
        second["bandwidth_average_gbps"] = None
        test["links"].append({**first, "bandwidth_average_gbps": 999.0})
        test["links"].append({**first, "bandwidth_average_gbps": 1.0})

    made = baseline.make_baseline(text(change), "old.json", NOW, 5)
    assert list(made["figures"].values()) == [999.0]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("tool", "ib_read_bw", "tool 'ib_read_bw' then, 'ib_write_bw' now"),
        ("sizes", 65536, "sizes 65536 then, 'all' now"),
        ("qps", 4, "qps 4 then, 1 now"),
        ("bidirectional", True, "bidirectional True then, False now"),
        ("rail_mode", "parallel", "rail_mode 'parallel' then, 'serial' now"),
    ],
)
def test_figures_of_something_else_are_no_baseline(name, value, words):
    old = text(lambda test: test["parameters"].update({name: value}))
    with pytest.raises(ValueError, match=f"old.json was measured with other parameters: {words}"):
        baseline.make_baseline(old, "old.json", NOW, 5)


def test_a_run_without_this_test_compares_nothing_and_says_so():
    gpu = {**NOW, "test": "gpudirect"}
    old = json.loads(text())
    old["tests"] = old["tests"][:1]
    made = baseline.make_baseline(json.dumps(old), "old.json", gpu, 5)
    assert made["figures"] == {}
    links = [{"id": THERE, "verdict": "passed"}, {"id": BACK, "verdict": "failed"}]
    (words,) = baseline.notes(links, {**gpu, "baseline": made})
    assert words.startswith("0 of 1 links could be compared with run 260302-093000-1a2b of ")
    assert words.endswith(f"held against the threshold alone: {THERE}")


def test_new_links_are_named_a_few_and_counted():
    made = baseline.make_baseline(text(), "old.json", NOW, 5)
    new = [{"id": f"n{k}/0 -> n0/0", "verdict": "slow"} for k in range(7)]
    links = [{"id": THERE, "verdict": "passed"}, *new]
    (words,) = baseline.notes(links, {**NOW, "baseline": made})
    assert words.startswith("1 of 8 links could be compared")
    assert words.endswith("n4/0 -> n0/0 and 2 more")
    assert baseline.notes(links[:1], {**NOW, "baseline": made}) == []
    assert baseline.notes(links, NOW) == []


def test_latency_takes_the_least():
    def change(test):
        test["parameters"].update(tool="ib_send_lat")
        for number, link in enumerate(test["links"]):
            link.update(latency_us=2.5 + number, bandwidth_average_gbps=None)

    now = {**NOW, "tool": "ib_send_lat"}
    made = baseline.make_baseline(text(change), "old.json", now, 10)
    assert sorted(made["figures"].values()) == [2.5, 3.5]
    first = next(name for name, figure in made["figures"].items() if figure == 2.5)
    found = baseline.limit(first, {**now, "baseline": made})
    assert found["figure"] == 2.75 and found["words"].startswith("110 % of 2.5 µs, the same link")


@pytest.mark.parametrize(
    "links",
    [[{"bandwidth_average_gbps": 1.0}], ["a"], [{"id": "a", "bandwidth_average_gbps": []}] * 2],
)
def test_a_damaged_file_is_told_as_such(links):
    content = json.dumps({"schema_version": "1.0", "tests": [{"test": "rdma", "links": links}]})
    with pytest.raises(ValueError, match=r"rdma_test_baseline='b\.json': this file is damaged"):
        make_settings({**VARIABLES, "baseline": "b.json"}, "rdma_test_", content)


@pytest.mark.parametrize("content", [None, "", "no", "[]"])
def test_a_file_that_is_none_is_an_error_before_anything_is_measured(content):
    changes = {"baseline": "/nowhere/results.json"}
    with pytest.raises(ValueError, match=r"rdma_test_baseline='/nowhere/results.json': "):
        make_settings({**VARIABLES, **changes}, "rdma_test_", content)
