# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document that all reports are made of: the facts of the other roles in one structure with a version. Pure.

Its schema is `roles/report/files/results.schema.json`; `docs/report.md` explains it.
"""

from __future__ import annotations

from ansible_collections.k8si.fabric.plugins.plugin_utils import words
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_nodes import judge_nodes
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_rounds import group_rounds
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_text import iso, moment, plain
from ansible_collections.k8si.fabric.plugins.plugin_utils.results_file import SCHEMA_VERSION

# What the parser keeps for its own proof; nothing in a report needs it.
_PARSER_ONLY = ("printed", "unit_proven", "run", "line")
_OUTPUTS = ("stdout", "stderr")

_CHECK = {
    "id": "",
    "title": "",
    "status": "skipped",
    "severity": "required",
    "code": None,
    "seen": "",
    "required": "",
    "cause": "",
    "remedy": "",
    "where": {},
    "evidence": None,
}
_FINDING = {
    "code": "unknown",
    "title": "",
    "where": {},
    "seen": "",
    "line": "",
    "cause": "",
    "remedy": "",
    "retry": False,
    "reference": "",
}
_LINK = {
    "id": "",
    "rail": 0,
    "server": "",
    "client": "",
    "server_node": "",
    "client_node": "",
    "verdict": "failed",
    "code": None,
    "bandwidth_average_gbps": None,
    "bytes": None,
    "line_rate_gbps": None,
    "threshold_gbps": None,
    "threshold_words": "",
    "rows": [],
    "finding": None,
    "outputs": {},
    "duration_s": None,
}
_TEST = {
    "test": "",
    "memory": "",
    "run": None,
    "passed": False,
    "verdict": "skipped",
    "reason": None,
    "nodes": [],
    "skipped": [],
    "endpoints": [],
    "links": [],
    "findings": [],
    "best_gbps": None,
    "worst_gbps": None,
    "parameters": {},
    "started": None,
    "ended": None,
}


def make_document(facts: dict, context: dict) -> dict:
    """Turns the facts into the document.

    Args:
        facts: {`readiness`: the fact `readiness_result` or None, `tests`: results of tests as `verdicts.conclude` makes
            them, `deploy`: the fact `deploy_result` or None}. What a fact lacks is filled in, what it has more is kept.
        context: {`run`: the run's id, `now`: ISO 8601, `collection`, `ansible`: versions, `check_mode`}.

    Returns:
        {schema_version, generator, run, answer, counts, cluster, readiness, deploy, tests, nodes, findings, comparison
        (None)}.
        Outputs of links that passed are left out, everything else about them is kept.
    """
    readiness = _readiness(facts.get("readiness"))
    tests = [_test(t) for t in facts.get("tests") or [] if t]
    verdict, sentence = words.answer(readiness, tests)
    moments = _moments([readiness, *tests])
    now = moment(context.get("now"))
    started = min(moments, default=now)
    ended = max(moments, default=now)
    findings = _findings(readiness, tests)
    return {
        "schema_version": SCHEMA_VERSION,
        "generator": {
            "name": "k8si.fabric",
            "version": context.get("collection") or "",
            "ansible": context.get("ansible") or "",
        },
        "run": {
            "id": str(context["run"]),
            "started": iso(started),
            "ended": iso(ended),
            "duration_s": None if started is None or ended is None else round(ended - started, 3),
            "reported": iso(now),
            "check_mode": bool(context.get("check_mode")),
        },
        "answer": {"fit": verdict == "fit", "verdict": verdict, "sentence": sentence},
        "counts": _counts(readiness, tests, findings),
        "cluster": (readiness or {}).get("cluster") or {},
        "readiness": readiness,
        "deploy": plain(facts.get("deploy")) or None,
        "tests": tests,
        "nodes": judge_nodes(tests),
        "findings": findings,
        "comparison": None,
    }


def _filled(defaults: dict, given: dict) -> dict:
    return {**defaults, **{k: v for k, v in given.items() if v is not None or k not in defaults}}


def _readiness(fact: dict | None) -> dict | None:
    if not fact:
        return None
    fact = plain(fact)
    return {
        **fact,
        "passed": bool(fact.get("passed")),
        "checks": [_filled(_CHECK, c) for c in fact.get("checks") or []],
        "nodes": fact.get("nodes") or [],
        "cluster": fact.get("cluster") or {},
    }


def _test(fact: dict) -> dict:
    links = fact.get("links") or []
    test = _filled(_TEST, _without(fact, ("links",)))
    test["findings"] = [_filled(_FINDING, f) for f in test["findings"]]
    test["links"] = [_link(k) for k in links]
    test["rounds"] = group_rounds(test["links"])
    return test


def _link(fact: dict) -> dict:
    passed = fact.get("verdict") == "passed"
    outputs, rows = fact.get("outputs") or {}, fact.get("rows") or []
    link = _filled(_LINK, _without(fact, ("outputs", "rows")))
    if link["finding"] is not None:
        link["finding"] = _filled(_FINDING, link["finding"])
    link["rows"] = [_without(row, _PARSER_ONLY) for row in rows]
    link["outputs"] = {
        str(side): _without(end or {}, _OUTPUTS if passed else ()) for side, end in outputs.items()
    }
    return link


def _without(given: dict, left_out: tuple[str, ...]) -> dict:
    """A plain copy. Values are only touched where they are kept: Ansible's own dictionaries take their time for each."""
    return {str(k): plain(given[k]) for k in given if k not in left_out}


def _findings(readiness: dict | None, tests: list[dict]) -> list[dict]:
    """All findings in one list, the most telling first: obstacles of readiness, of the tests, then advice."""
    required, advice = [], []
    for check in (readiness or {}).get("checks", []):
        if check["status"] in ("failed", "advice"):
            finding = {
                **_FINDING,
                **{k: check[k] for k in ("title", "where", "seen", "cause", "remedy")},
                "code": check["code"] or check["id"],
                "retry": bool(check.get("retry")),
                "source": "readiness",
                "check": check["id"],
                "required": check["required"],
                "severity": "required" if check["status"] == "failed" else "advice",
                "verdict": check["status"],
            }
            (required if check["status"] == "failed" else advice).append(finding)
    for test in tests:
        verdict = "skipped" if test["verdict"] == "skipped" else "failed"
        required += [
            {"verdict": verdict, **f, "source": test["test"], "severity": "required"}
            for f in test["findings"]
        ]
    # readiness comes first: what it finds explains what the tests find
    order = {"failed": 0, "slow": 1}
    required.sort(key=lambda f: (f["source"] != "readiness", order.get(f["verdict"], 2)))
    return required + advice


def _counts(readiness: dict | None, tests: list[dict], findings: list[dict]) -> dict:
    links = [k for t in tests for k in t["links"]]
    checks = (readiness or {}).get("checks", [])
    return {
        "checks": {
            s: sum(c["status"] == s for c in checks)
            for s in ("passed", "failed", "advice", "skipped")
        },
        "links": {
            v: sum(k["verdict"] == v for k in links)
            for v in ("passed", "slow", "failed", "skipped")
        },
        "nodes": len({n for k in links for n in (k["server_node"], k["client_node"])}),
        "findings": sum(f["severity"] == "required" for f in findings),
        "advice": sum(f["severity"] == "advice" for f in findings),
    }


def _moments(facts: list[dict | None]) -> list[float]:
    found = [moment((f or {}).get(key)) for f in facts for key in ("started", "ended")]
    return [m for m in found if m is not None]
