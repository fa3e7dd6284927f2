"""The whole report, of every kind of result: valid, complete, and safe against what a cluster may print."""

from __future__ import annotations

import functools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import report, report_settings

from . import report_cases

ROOT = Path(__file__).parents[4]
SCHEMA = json.loads((ROOT / "roles/report/files/results.schema.json").read_text(encoding="utf-8"))
CONTEXT = {
    "run": "260302-093000-1a2b",
    "now": "2026-03-02T10:00:00Z",
    "collection": "0.1.0",
    "ansible": "2.19.0",
    "check_mode": False,
    "baseline": None,
}
SETTINGS, _PROBLEMS = report_settings.make_settings({})
CASES = [c for c in report_cases.CASES if c != "large_healthy"]


@functools.cache
def facts(case: str) -> dict:
    return report_cases.CASES[case]()


@functools.cache
def made(case: str) -> dict:
    return report.make_report(facts(case), SETTINGS, CONTEXT)


def document(case: str) -> dict:
    return json.loads(made(case)["files"]["results.json"])


@pytest.mark.parametrize("case", CASES)
def test_json_is_valid_against_the_schema(case):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(SCHEMA)
    assert [e.message for e in validator.iter_errors(document(case))] == []
    assert made(case)["problems"] == []


def test_the_schema_is_one():
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    ("case", "fit", "words"),
    [
        ("two", True, "all of 4 links passed"),
        ("two_slow", False, "pair of nodes gpu-node-1 and gpu-node-2, rail 0: 2"),
        ("sixteen", True, "passed, the slowest with"),
        ("slow_node", False, "node gpu-node-3, rail 0: 208.7 of 360.0 Gb/s required"),
        ("bad_path", False, "one direction between nodes gpu-node-1 and gpu-node-2"),
        ("failures", False, "node gpu-node-5, rail 0"),
        ("gpu_failure", False, "GPUDirect RDMA, GPU memory: node gpu-node-2"),
        ("not_ready", False, "1 readiness check failed: rdma/rdma_shared_device_a is 0"),
        ("nothing", False, "neither readiness nor a test was run"),
        ("only_ready", False, "readiness passed, no test was run"),
        ("large", False, "node gpu-node-300, rail 0"),
    ],
)
def test_the_answer(case, fit, words):
    answer = document(case)["answer"]
    assert answer["fit"] is fit
    unmeasured = case in ("nothing", "only_ready")
    assert answer["verdict"] == ("not_measured" if unmeasured else "fit" if fit else "not_fit")
    assert words in answer["sentence"]
    assert made(case)["result"]["fit"] is fit
    assert answer["sentence"] in made(case)["lines"][-1]


def test_facts_that_lack_nearly_everything_still_make_a_report():
    bare = {
        "readiness": {"passed": False, "checks": [{"id": "api", "status": "failed"}]},
        "tests": [{"test": "rdma", "memory": "host", "verdict": "failed", "links": None}],
    }
    result = report.make_report(bare, SETTINGS, {"run": "r", "now": None})
    assert result["problems"] == []
    assert not json.loads(result["files"]["results.json"])["answer"]["fit"]


def test_outputs_are_kept_of_what_failed_only():
    for test in document("failures")["tests"]:
        for link in test["links"]:
            for end in link["outputs"].values():
                assert ("stdout" in end) is (link["verdict"] != "passed")
                assert end["command"][2] == "ib_write_bw"
            assert len(link["rows"]) == (23 if link["verdict"] == "passed" else 0)


def test_json_has_one_line_for_each_link():
    lines = made("sixteen")["files"]["results.json"].splitlines()
    links = [line for line in lines if '"server_node"' in line]
    assert len(links) == sum(len(t["links"]) for t in document("sixteen")["tests"])
    assert all(json.loads(line.rstrip(","))["id"] for line in links)


def test_numbers_that_json_has_no_words_for_become_null():
    broken = report_cases.results(2, gpu=False)
    broken["tests"][0]["links"][0]["rows"][0]["message_rate_mpps"] = float("nan")
    broken["tests"][0]["links"][0]["rows"][1]["message_rate_mpps"] = float("inf")
    text = report.make_report(broken, SETTINGS, CONTEXT)["files"]["results.json"]
    rows = json.loads(text, parse_constant=pytest.fail)["tests"][0]["links"][0]["rows"]
    assert rows[0]["message_rate_mpps"] is None
    assert rows[1]["message_rate_mpps"] is None


def test_a_format_that_fails_is_a_problem_and_leaves_the_others(monkeypatch):
    def fail(_document):
        raise RuntimeError("no ink")

    monkeypatch.setitem(report.FORMATS, "html", ("report.html", fail))
    result = report.make_report(facts("two"), SETTINGS, CONTEXT)
    assert list(result["files"]) == ["results.json", "junit.xml", "fabric.prom", "summary.md"]
    assert result["problems"] == ["report.html could not be made (RuntimeError: no ink)"]


def test_formats_select():
    settings, problems = report_settings.make_settings({"formats": "junit, json"})
    result = report.make_report(facts("two"), settings, CONTEXT)
    assert (list(result["files"]), problems) == (["results.json", "junit.xml"], [])


class _Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        # every element is closed in its turn
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@functools.cache
def page(case: str) -> _Page:
    return _Page(made(case)["files"]["report.html"])


@pytest.mark.parametrize("case", CASES)
def test_html_is_well_formed_and_needs_nothing_else(case):
    text = page(case)
    assert text.open == []
    names = [tag for tag, _a in text.elements]
    assert names.count("script") == 2
    assert not set(names) & {"img", "iframe", "object", "embed", "base", "form"}
    for tag, attributes in text.elements:
        for key in ("src", "href", "action", "data", "xlink:href"):
            value = attributes.get(key)
            assert value is None or value.startswith("#") or (tag, value) == ("link", "data:,")
        assert not [k for k in attributes if k.startswith("on")]
    ids = [a["id"] for _t, a in text.elements if "id" in a]
    assert len(ids) == len(set(ids))
    anchors = {a["href"][1:] for _t, a in text.elements if a.get("href", "").startswith("#")}
    assert anchors <= set(ids)
    targets = {a["data-to"] for _t, a in text.elements if "data-to" in a}
    assert targets <= set(ids)


def test_hostile_text_is_text_everywhere():
    files = made("hostile")["files"]
    html = files["report.html"]
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(" in html
    assert "{{ 1 + 1 }}" in "".join(page("hostile").words)
    for name, text in files.items():
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text), name
        text.encode()
    assert "<script" not in files["summary.md"].replace("\\<", "")
    for line in made("hostile")["lines"]:
        assert "\x1b" not in line


def test_the_data_of_the_page_cannot_end_its_element():
    html = made("hostile")["files"]["report.html"]
    island = html.partition('id="curves">')[2].partition("</script>")[0]
    assert "<" not in island
    assert "<script>alert('x')</script>" in json.loads(island)["rdma"]["links"][0]["label"]


@pytest.mark.parametrize(
    ("case", "nodes", "cells"), [("two", 2, 2), ("slow_node", 16, 32), ("sixteen", 16, 192)]
)
def test_the_map_has_a_cell_for_each_link(case, nodes, cells):
    first = next(
        i
        for i, (t, _a) in enumerate(page(case).elements)
        if t == "section" and _a["aria-labelledby"] == "rdma"
    )
    section = []
    for tag, attributes in page(case).elements[first + 1 :]:
        if tag == "section":
            break
        section.append((tag, attributes))
    measured = [a for t, a in section if t == "td" and "data-to" in a]
    assert len(measured) == cells
    rails = 4 if case == "sixteen" else 1
    diagonal = [a for t, a in section if t == "td" and a.get("class") == "self"]
    assert len(diagonal) == nodes * rails
    assert sum(a["tabindex"] == "0" for a in measured) == rails
    assert all(a["title"].startswith("gpu-node-") for a in measured)


def test_a_large_fabric_is_grouped_and_stays_small():
    text = made("large")["files"]["report.html"]
    assert len(text.encode()) < 5 * 2**20
    assert "512 nodes, 16 share a row" in text
    tiles = [a for t, a in page("large").elements if t == "li" and "title" in a]
    assert len(tiles) == 512
    assert [a["class"] for a in tiles if a["class"] != "passed"] == ["slow", "failed"]
    assert "gpu-node-77, rail 0: slow" in text


def test_many_findings_with_one_remedy_are_one_card():
    broken = {f"gpu-node-{n}": report_cases.MEMLOCK for n in range(1, 60, 2)}
    result = report.make_report(
        report_cases.results(128, gpu=False, failing=broken), SETTINGS, CONTEXT
    )
    html = result["files"]["report.html"]
    assert html.count('<article class="finding failed">') == 1
    assert "and 5 more; results.json names them all" in html
    assert len(html) < 3 * 2**20


def test_the_terminal_stays_short_on_a_large_fabric():
    assert len(made("large")["lines"]) < 70
    assert any("1009 more that passed" in line for line in made("large")["lines"])
