"""JUnit XML, Prometheus text and Markdown: what their readers make of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from xml.etree import ElementTree as ET

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import report_prometheus
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_markdown import escaped

from .test_report import CASES, CONTEXT, SETTINGS, document, facts, made, report


def suites(case: str) -> dict[str, ET.Element]:
    return {s.get("name"): s for s in ET.fromstring(made(case)["files"]["junit.xml"].encode())}


@pytest.mark.parametrize("case", CASES)
def test_junitparser_reads_the_same_numbers(case):
    junitparser = pytest.importorskip("junitparser")
    xml = junitparser.JUnitXml.fromstring(made(case)["files"]["junit.xml"].encode())
    results = [r for suite in xml for c in suite for r in c.result]
    assert xml.tests == sum(len(list(s)) for s in xml)
    assert xml.failures == sum(isinstance(r, junitparser.Failure) for r in results)
    assert xml.skipped == sum(isinstance(r, junitparser.Skipped) for r in results)
    counted = (xml.tests, xml.failures, xml.errors, xml.skipped)
    xml.update_statistics()
    assert counted == (xml.tests, xml.failures, xml.errors, xml.skipped)
    # a CI server must turn red exactly when the network is not fit, or when not even readiness was looked at; a test that
    # was skipped is told as skipped
    if document(case)["answer"]["fit"] or case == "only_ready":
        assert xml.failures == 0
    else:
        assert xml.failures > 0


def test_junit_has_a_case_for_each_check_and_link():
    cases = {name: len(suite) for name, suite in suites("slow_node").items()}
    assert cases == {"Readiness": 8, "RDMA, host memory": 32, "GPUDirect RDMA, GPU memory": 1}
    slow = suites("slow_node")["RDMA, host memory"].findall("testcase/failure")
    assert {f.get("type") for f in slow} == {"slow_link"}
    assert "remedy:" in slow[0].text
    assert suites("slow_node")["GPUDirect RDMA, GPU memory"].find("testcase/skipped") is not None


def test_junit_tells_findings_that_no_link_explains():
    names = [c.get("name") for c in suites("hostile")["RDMA, host memory"]]
    assert any(n.startswith("The failure is not in the catalogue (node node-1-") for n in names)


def test_junit_fails_where_readiness_was_not_judged():
    readiness = {"passed": False, "checks": [{"id": "api", "title": "API", "status": "skipped"}]}
    text = report.make_report({"readiness": readiness}, SETTINGS, CONTEXT)["files"]["junit.xml"]
    assert 'failures="1"' in text


@pytest.mark.parametrize("case", CASES)
def test_prometheus_client_reads_it(case):
    parser = pytest.importorskip("prometheus_client.parser")
    families = {
        f.name: f for f in parser.text_string_to_metric_families(made(case)["files"]["fabric.prom"])
    }
    answer = document(case)["answer"]
    if answer["verdict"] == "not_measured":  # neither good nor bad: no alert
        assert "fabric_validation_fit" not in families
    else:
        assert families["fabric_validation_fit"].samples[0].value == answer["fit"]
    for family in families.values():
        assert family.type == "gauge"
        assert family.documentation.endswith(".")
        series = [(s.name, tuple(sorted(s.labels.items()))) for s in family.samples]
        assert len(series) == len(set(series))


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
@pytest.mark.parametrize("case", CASES)
def test_promtool_finds_nothing(case):
    run = subprocess.run(
        ["promtool", "check", "metrics"],
        input=made(case)["files"]["fabric.prom"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_prometheus_units_and_labels():
    text = made("two_slow")["files"]["fabric.prom"]
    links = {k["client_node"]: k for k in document("two_slow")["tests"][0]["links"]}
    found = re.search(
        r'^fabric_link_bandwidth_bytes_per_second\{test="rdma",rail="0",server="gpu-node-1",client="gpu-node-2"\} (\d+)$',
        text,
        re.MULTILINE,
    )
    gbps = links["gpu-node-2"]["bandwidth_average_gbps"]
    assert int(found[1]) == round(gbps * 1e9 / 8)
    assert re.search(
        r"^fabric_link_threshold_bytes_per_second\{.*\} 45000000000$", text, re.MULTILINE
    )


def test_prometheus_series_are_bounded():
    text = made("large")["files"]["fabric.prom"]
    assert text.count("\nfabric_link_passed{") == report_prometheus.MOST_LINKS
    assert 'fabric_test_links_without_series{test="rdma"} 522' in text
    assert text.count('fabric_link_passed{test="rdma",') == text.count("fabric_link_passed{")
    # what did not pass is never among those left out
    assert len(re.findall(r"^fabric_link_passed\{.*\} 0$", text, re.MULTILINE)) == 9
    labels = set(re.findall(r'[{,](\w+)="', text))
    assert labels <= {
        "run",
        "version",
        "status",
        "test",
        "verdict",
        "node",
        "rail",
        "server",
        "client",
    }


@pytest.mark.parametrize("case", CASES)
def test_markdown_is_short_and_says_it_first(case):
    text = made(case)["files"]["summary.md"]
    heads = {
        "fit": "# ✅ Fit for training",
        "not_fit": "# ❌ Not fit for training",
        "not_measured": "# ❓ Not measured",
    }
    assert text.startswith(heads[document(case)["answer"]["verdict"]])
    assert len(text) < 20_000
    for block in re.split(r"\n\n", text):
        columns = {
            len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines() if row.startswith("|")
        }
        assert len(columns) <= 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a\\|b"),
        ("<b>", "\\<b\\>"),
        ("*x* _y_ `z`", "\\*x\\* \\_y\\_ \\`z\\`"),
        ("[a](http://b)", "\\[a\\](http://\u200bb)"),
        ("@team", "@\u200bteam"),
        ("one\ntwo\x1b", "one two\\\\x1b"),
        ("gpu-node-1.example, 5.0", "gpu-node-1.example, 5.0"),
    ],
)
def test_markdown_escapes(text, shown):
    assert escaped(text) == shown


def test_markdown_of_a_comparison():
    before = made("two")["files"]["results.json"]
    result = report.make_report(
        facts("two_slow"), {**SETTINGS, "baseline": "old.json"}, {**CONTEXT, "baseline": before}
    )
    assert "## Changes" in result["files"]["summary.md"]
    assert (
        "got worse: passed 386.5 Gb/s, now slow 208.7 Gb/s (-46.0 %)"
        in result["files"]["summary.md"]
    )
    assert "Changes since run" in result["files"]["report.html"]
    assert any(line.startswith("Compared with run") for line in result["lines"])
    assert result["result"]["changes"]["worse"] == 3
