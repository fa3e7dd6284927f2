"""Rounds, nodes, settings, marks, maps, charts and texts of the report."""

from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import (
    report_charts,
    report_map,
    report_marks,
    report_settings,
    report_text,
    report_view,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_nodes import judge_nodes
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_rounds import group_rounds

from .engine_data import link
from .test_report import document, made


def test_rounds_are_those_that_ran():
    for test in document("sixteen")["tests"]:
        sizes = [len(r["links"]) for r in test["rounds"]]
        assert len(sizes) == 24
        assert sum(sizes) == len(test["links"])
        assert max(sizes) == 8
        for entry in test["rounds"]:
            nodes = [
                n
                for k in test["links"]
                if k["id"] in entry["links"]
                for n in (k["server_node"], k["client_node"])
            ]
            assert len(nodes) == len(set(nodes))


def test_rounds_without_times_are_told_by_nodes_and_rails():
    links = [link(1, 2), link(3, 4), link(2, 1), link(5, 6, rail=1)]
    links = [{k: v for k, v in each.items() if k not in ("round", "wave")} for each in links]
    assert [len(r["links"]) for r in group_rounds(links)] == [2, 1, 1]


def test_rounds_that_are_numbered_are_taken():
    links = [{**link(1, 2), "round": 1}, {**link(3, 4), "round": 2}]
    assert [r["links"] for r in group_rounds(links)] == [["n2/0 -> n1/0"], ["n4/0 -> n3/0"]]


def of(case: str) -> dict[str, str]:
    return {n["name"]: n["verdict"] for n in document(case)["nodes"]}


def test_a_node_is_not_blamed_for_its_partner():
    assert {n: v for n, v in of("slow_node").items() if v != "passed"} == {"gpu-node-3": "slow"}
    assert {n: v for n, v in of("failures").items() if v != "passed"} == {
        "gpu-node-5": "failed",
        "gpu-node-9": "failed",
    }
    assert set(of("bad_path").values()) == {"passed"}
    assert set(of("two_slow").values()) == {"suspect"}


def test_a_node_that_was_not_measured_did_not_pass():
    test = {
        "test": "rdma",
        "nodes": ["a", "b"],
        "skipped": [{"node": "c"}],
        "links": [],
        "findings": [],
    }
    assert {n["verdict"] for n in judge_nodes([test])} == {"skipped"}


def test_a_whole_rail_can_be_to_blame():
    finding = {"localisation": "fabric_wide", "where": {"rail": 0}, "verdict": "slow"}
    links = [link(1, 2, "slow"), link(2, 3, "slow")]
    test = {"test": "rdma", "nodes": [], "skipped": [], "links": links, "findings": [finding]}
    assert {n["verdict"] for n in judge_nodes([test])} == {"slow"}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("formats", "pdf", "report_formats='pdf': it must be a list of one or more of json, html"),
        ("formats", [], "report_formats=[]"),
        ("formats", {"json": 1}, "report_formats="),
        ("dir", 7, "report_dir=7: it must be a text"),
        ("baseline", ["x"], "report_baseline="),
        (
            "baseline_tolerance",
            "much",
            "report_baseline_tolerance='much': it must be a number from 0 to 100",
        ),
        ("baseline_tolerance", 101, "report_baseline_tolerance=101"),
        ("node_labels", "maybe", "report_node_labels='maybe': it must be true or false"),
        ("event", 2, "report_event=2"),
    ],
)
def test_settings_that_cannot_be_used_fall_back(name, value, words):
    settings, problems = report_settings.make_settings({name: value})
    assert len(problems) == 1
    assert problems[0].startswith(words)
    assert settings == report_settings.make_settings({})[0]


def test_settings_convert_what_extra_vars_bring():
    settings, problems = report_settings.make_settings(
        {
            "baseline_tolerance": "7.5",
            "event": "yes",
            "node_labels": "False",
            "formats": "html,json",
        }
    )
    assert problems == []
    assert settings["tolerance_percent"] == 7.5
    assert (settings["event"], settings["node_labels"]) == (True, False)
    assert settings["formats"] == ["json", "html"]


def marks(case: str, **asked) -> list[dict]:
    settings = {
        "node_annotations": False,
        "node_labels": False,
        "event": False,
        "event_namespace": "default",
        **asked,
    }
    return report_marks.manifests(made(case), settings)


def test_no_marks_unless_asked_for():
    assert marks("slow_node") == []


def test_marks_on_nodes():
    patches = {
        m["metadata"]["name"]: m
        for m in marks("slow_node", node_annotations=True, node_labels=True)
    }
    assert len(patches) == 16
    slow = patches["gpu-node-3"]
    assert slow["metadata"]["labels"] == {"fabric.k8si.io/rdma": "slow"}
    assert slow["metadata"]["annotations"]["fabric.k8si.io/rdma-gbps"].startswith("2")
    assert slow["metadata"]["annotations"]["fabric.k8si.io/run"] == "260302-093000-1a2b"
    assert patches["gpu-node-1"]["metadata"]["labels"] == {"fabric.k8si.io/rdma": "passed"}
    # nothing that could change what is scheduled there
    assert all(set(m) == {"apiVersion", "kind", "metadata"} for m in patches.values())
    assert all(set(m["metadata"]) == {"name", "labels", "annotations"} for m in patches.values())


def test_labels_only():
    assert all(set(m["metadata"]) == {"name", "labels"} for m in marks("two", node_labels=True))


@pytest.mark.parametrize(
    ("case", "kind", "reason"),
    [("two", "Normal", "FabricFit"), ("large", "Warning", "FabricNotFit")],
)
def test_event(case, kind, reason):
    (event,) = marks(case, event=True, event_namespace="tests")
    assert (event["type"], event["reason"]) == (kind, reason)
    assert event["metadata"]["namespace"] == event["involvedObject"]["namespace"] == "tests"
    assert event["metadata"]["name"] == "fabric-validation-260302-093000-1a2b"
    assert len(event["message"]) <= 1024


@pytest.mark.parametrize(
    ("verdict", "gbps", "step"),
    [
        ("passed", 390.0, "p2"),
        ("passed", 361.0, "p1"),
        ("slow", 300.0, "s1"),
        ("slow", 200.0, "s2"),
        ("slow", 20.0, "s3"),
        ("failed", None, "f"),
    ],
)
def test_steps_of_the_map(verdict, gbps, step):
    one = {**link(1, 2, verdict), "bandwidth_average_gbps": gbps}
    assert report_map.step_of(one) == step
    (only,) = report_map.heat_maps({"links": [one]}, {})
    assert only["rows"][1]["cells"][0]["step"] == step
    assert only["rows"][0]["cells"] == ["self", None]


def test_groups_of_the_map():
    links = [link(n, n + 1) for n in range(1, 201)] + [link(150, 7, "failed")]
    (only,) = report_map.heat_maps({"links": links}, {})
    assert (only["nodes"], only["grouped"], len(only["rows"])) == (201, 7, 29)
    assert only["rows"][0]["label"] == "n1 … n7"
    cell = only["rows"][0]["cells"][21]
    assert (cell["step"], cell["text"]) == ("f", "✕")
    assert cell["words"].startswith(
        "from n1 … n7 to n148 … n154: 1 link, 0 passed; worst: n7 to n150"
    )


@pytest.mark.parametrize(
    ("extent", "about", "step"),
    [(100, 10, 10), (7, 5, 2), (0.3, 6, 0.05), (0, 5, 1), (1e6, 4, 500_000)],
)
def test_nice_steps(extent, about, step):
    assert report_charts.nice_step(extent, about) == pytest.approx(step)


def test_distribution_counts_every_link_once():
    links = document("slow_node")["tests"][0]["links"]
    chart = report_charts.distribution(links)
    assert sum(int(b["words"].split(", ")[-1].split()[0]) for b in chart["bars"]) == len(links)
    assert {b["verdict"] for b in chart["bars"]} == {"passed", "slow"}
    assert [t["label"] for t in chart["thresholds"]] == ["360 required"]
    for column in chart["bars"]:
        assert chart["left"] <= column["x"] < chart["right"]
        assert column["height"] >= 4


def test_one_link_makes_charts_too():
    links = document("two")["tests"][0]["links"][:1]
    assert report_charts.distribution(links)["bars"]
    assert len(report_charts.curves(links)["lines"]) == 1
    assert report_charts.host_and_gpu(links, links)["kind"] == "bars"


def test_nothing_makes_no_chart():
    assert report_charts.distribution([]) is None
    assert report_charts.curves([]) is None
    assert report_charts.host_and_gpu([], []) is None
    assert report_charts.over_time({"links": [], "rounds": []}) is None


def test_of_many_links_a_band_and_the_bad_ones():
    chart = report_charts.curves(document("slow_node")["tests"][0]["links"])
    assert chart["band"].startswith("M") and chart["band"].endswith("Z")
    assert {line["verdict"] for line in chart["lines"]} == {"slow"}
    assert len(chart["select"]["links"]) == 32


def test_many_pairs_become_points():
    host, gpu = (t["links"] for t in document("sixteen")["tests"])
    chart = report_charts.host_and_gpu(host, gpu)
    assert chart["kind"] == "points"
    assert "measured in both; GPU memory reaches" in chart["note"]


def test_outputs_share_a_budget():
    document_ = document("failures")
    for test in document_["tests"]:
        for one in test["links"]:
            for end in one["outputs"].values():
                if "stdout" in end:
                    end["stdout"] = "x" * 1_000_000
    entries = report_view.make_view(document_)["outputs"]["entries"]
    total = sum(len(e["stdout"]) + len(e["stderr"]) for o in entries for e in o["ends"])
    assert total < 1.1 * report_view.OUTPUT_BUDGET
    assert "characters left out; results.json has them" in entries[0]["ends"][0]["stdout"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\x1b[1mb", "a\\x1b[1mb"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x00\x85", "\\x00\\x85"),
        ("\ud800", "?"),
        ("é\t✓", "é\t✓"),
    ],
)
def test_visible(value, shown):
    assert report_text.visible(value) == shown


def test_plain():
    value = {
        1: (float("nan"), float("-inf"), {"x"}),
        "b": "\udfff",
        "c": [True, None, 3, 2.5, object],
    }
    result = report_text.plain(value)
    assert result["1"] == [None, None, ["x"]]
    assert result["b"] == "?"
    assert result["c"][:4] == [True, None, 3, 2.5]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "-"),
        (0.4, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
    ],
)
def test_duration(seconds, words):
    assert report_text.duration(seconds) == words


@pytest.mark.parametrize("text", [None, "", "now", "2026-13-01T00:00:00Z", 7, "2026-01-01"])
def test_moment_of_what_is_none(text):
    assert report_text.moment(text) is None


def test_moment():
    assert report_text.moment("2026-01-31T12:00:00.123Z") == pytest.approx(1769860800.123)
    assert report_text.iso(1769860800.9) == "2026-01-31T12:00:00Z"


@pytest.mark.parametrize(
    ("where", "localisation", "slow"),
    [
        ({"rails": [0, 1]}, "fabric_wide", {0, 1}),
        ({"rail": 1}, "rail_wide", {1}),
        ({"node": "n1", "rail": 0}, "bad_port", {0}),
    ],
)
def test_findings_of_rails_mark_every_node_there(where, localisation, slow):
    links = [link(1, 2, rail=rail) for rail in (0, 1)]
    finding = {"localisation": localisation, "where": where, "verdict": "slow"}
    test = {
        "test": "rdma",
        "nodes": ["n1", "n2"],
        "skipped": [],
        "links": links,
        "findings": [finding],
    }
    rails = {r["rail"]: r["verdict"] for r in judge_nodes([test])[0]["rails"]}
    assert {rail for rail, verdict in rails.items() if verdict == "slow"} == slow
