# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From facts to files: what role report calls. Pure but for the templates of the HTML page."""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.k8si.fabric.plugins.plugin_utils import words
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_compare import compare
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_document import make_document
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_html import to_html
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_json import to_json
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_junit import to_junit
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_markdown import to_markdown
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_nodes import worst
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_prometheus import to_prometheus
from ansible_collections.k8si.fabric.plugins.plugin_utils.results_file import read_results

#: format -> (name of the file, its writer)
FORMATS: dict[str, tuple[str, Callable[[dict], str]]] = {
    "json": ("results.json", to_json),
    "html": ("report.html", to_html),
    "junit": ("junit.xml", to_junit),
    "prometheus": ("fabric.prom", to_prometheus),
    "markdown": ("summary.md", to_markdown),
}


def make_report(facts: dict, settings: dict, context: dict) -> dict:
    """Everything that role report writes, shows and leaves.

    Args:
        facts, context: as `report_document.make_document` takes them; of `context` besides `baseline`, the text of an
            earlier results.json, or None.
        settings: {`formats`, `baseline` (a path, for words), `tolerance_percent`}, see `report_settings.make_settings`.

    Returns:
        {files: {name: content}, lines: the terminal summary, problems: [sentence], result: what the role leaves as
        `report_result` (without the files' paths), ended, nodes: [{name, verdicts, gbps}] for `report_marks`}. A report that
        cannot be made is a problem and leaves the others alone; only results.json must succeed.
    """
    problems = []
    document = make_document(facts, context)
    if context.get("baseline"):
        try:
            before = read_results(context["baseline"], settings["baseline"])
            document["comparison"] = compare(document, before, settings["tolerance_percent"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problems.append(f"report_baseline: {_words(error, settings['baseline'])}")
    files = {}
    for kind in settings["formats"]:
        name, write = FORMATS[kind]
        try:
            files[name] = write(document)
        except Exception as error:
            if kind == "json":
                raise
            problems.append(f"{name} could not be made ({type(error).__name__}: {error})")
    readiness, tests = document["readiness"], document["tests"]
    return {
        "files": files,
        "lines": words.summary(readiness, tests, document["comparison"]),
        "problems": problems,
        "result": {
            "fit": document["answer"]["fit"],
            "verdict": document["answer"]["verdict"],
            "answer": document["answer"]["sentence"],
            "run": document["run"]["id"],
            "counts": document["counts"],
            "verdicts": {t["test"]: t["verdict"] for t in tests},
            "worst_gbps": {t["test"]: t["worst_gbps"] for t in tests},
            "changes": (document["comparison"] or {}).get("counts") or {},
        },
        "ended": document["run"]["ended"] or document["run"]["reported"],
        "nodes": _node_verdicts(document),
    }


def _words(error: Exception, name: str) -> str:
    if isinstance(error, ValueError):
        return str(error)
    return f"{name} lacks what a results.json has ({type(error).__name__}: {error})"


def _node_verdicts(document: dict) -> list[dict]:
    """[{name, verdicts: {test: the worst of its rails}, gbps: {test: figure}}], of nodes that were measured."""
    nodes = []
    for node in document["nodes"]:
        verdicts: dict[str, list[str]] = {}
        figures: dict[str, list[float]] = {}
        for row in node["rails"]:
            if row["verdict"] == "skipped":
                continue
            verdicts.setdefault(row["test"], []).append(row["verdict"])
            if row["best_gbps"] is not None:
                figures.setdefault(row["test"], []).append(row["best_gbps"])
        if verdicts:
            nodes.append(
                {
                    "name": node["name"],
                    "verdicts": {t: worst(v) for t, v in verdicts.items()},
                    # of each rail its best partner: a slow partner does not count against the node
                    "gbps": {t: min(v) for t, v in figures.items()},
                }
            )
    return nodes
