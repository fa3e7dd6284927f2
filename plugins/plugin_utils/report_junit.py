# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document as JUnit XML, for CI servers: one test case for each check, link and finding of its own. Pure."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from ansible_collections.k8si.fabric.plugins.plugin_utils.report_rounds import span
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_text import one_line, visible
from ansible_collections.k8si.fabric.plugins.plugin_utils.words import (
    TITLES,
    explain_finding,
    gbps,
    place,
)


def to_junit(document: dict) -> str:
    """A `testsuites` element: a suite for readiness and for each test.

    A check or link that passed is a test case; one that did not carries `failure` (type: reason code, text: the finding),
    one that was skipped `skipped`. Findings that no link explains (a pod that did not start) are test cases of their own.
    """
    root = ET.Element("testsuites", {"name": "k8si.fabric"})
    if document["readiness"]:
        _readiness(root, document["readiness"])
    for test in document["tests"]:
        _test(root, test)
    if not len(root):
        suite = ET.SubElement(root, "testsuite", {"name": "validation"})
        case = ET.SubElement(
            suite, "testcase", {"classname": "k8si.fabric.validation", "name": "results"}
        )
        _failure(case, "nothing_measured", document["answer"]["sentence"], "")
    for suite in root:
        _total(suite, document["run"]["started"])
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(s.get(key, "0")) for s in root)))
    root.set("time", f"{document['run']['duration_s'] or 0:.3f}")
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _readiness(root: ET.Element, readiness: dict) -> None:
    suite = ET.SubElement(root, "testsuite", {"name": TITLES["readiness"]})
    for check in readiness["checks"]:
        spot = place(check["where"])
        case = _case(suite, "readiness", check["title"] + (f" ({spot})" if spot else ""))
        words = explain_finding({**check, "code": check["code"] or check["id"]})
        if check["status"] == "failed":
            _failure(case, check["code"] or check["id"], check["seen"], words)
        elif check["status"] == "skipped":
            ET.SubElement(case, "skipped", {"message": one_line(check["seen"])})
        elif check["status"] == "advice":
            ET.SubElement(case, "system-out").text = words
    if not readiness["passed"] and not any(c["status"] == "failed" for c in readiness["checks"]):
        case = _case(suite, "readiness", "Everything required was judged")
        _failure(case, "not_read", "checks that are required could not be judged", "")


def _test(root: ET.Element, test: dict) -> None:
    suite = ET.SubElement(root, "testsuite", {"name": TITLES.get(test["test"], test["test"])})
    if test["started"]:
        suite.set("timestamp", test["started"].rstrip("Z"))
    explained = set()
    for link in test["links"]:
        case = _case(suite, test["test"], link["id"])
        start, end = span(link)
        if start is not None and end is not None:
            case.set("time", f"{end - start:.3f}")
        if link["verdict"] == "skipped":
            ET.SubElement(case, "skipped", {"message": one_line(link["code"] or "")})
        elif link["verdict"] != "passed":
            explained.add(link["id"])
            finding = link["finding"]
            seen = finding["seen"] if finding else link["verdict"]
            _failure(
                case,
                link["code"] or link["verdict"],
                f"{link['verdict']}: {seen}",
                explain_finding(finding) if finding else "",
            )
        else:
            ET.SubElement(case, "system-out").text = (
                f"{gbps(link['bandwidth_average_gbps'])} Gb/s on average at best,"
                f" required {gbps(link['threshold_gbps'])} Gb/s"
            )
    for skipped in test["skipped"]:
        case = _case(suite, test["test"], f"node {skipped['node']}")
        ET.SubElement(case, "skipped", {"message": one_line(skipped.get("reason") or "")})
    for finding in test["findings"]:
        if explained.intersection(finding.get("links") or []):
            continue
        spot = place(finding["where"])
        case = _case(suite, test["test"], finding["title"] + (f" ({spot})" if spot else ""))
        if test["verdict"] == "skipped":
            ET.SubElement(case, "skipped", {"message": one_line(finding["seen"])})
        else:
            _failure(case, finding["code"], finding["seen"], explain_finding(finding))


def _case(suite: ET.Element, group: str, name: str) -> ET.Element:
    return ET.SubElement(
        suite, "testcase", {"classname": f"k8si.fabric.{group}", "name": one_line(name)}
    )


def _failure(case: ET.Element, code: str, message: str, text: str) -> None:
    failure = ET.SubElement(case, "failure", {"type": code, "message": one_line(message)})
    failure.text = visible(text)


def _total(suite: ET.Element, started: str | None) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(sum(c.find("failure") is not None for c in cases)))
    suite.set("errors", "0")
    suite.set("skipped", str(sum(c.find("skipped") is not None for c in cases)))
    suite.set("time", f"{sum(float(c.get('time', '0')) for c in cases):.3f}")
    if "timestamp" not in suite.attrib and started:
        suite.set("timestamp", started.rstrip("Z"))
