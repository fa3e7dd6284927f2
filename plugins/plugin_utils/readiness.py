# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers "may I start RDMA workloads, and if not, what exactly is missing?" from objects that were read.

:func:`judge` goes through a declarative table (``readiness_checks.yml``, plus the rows of the user) and returns the
result; the rules themselves are in ``readiness_<subject>.py``. Nothing here reads a cluster or a clock.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from . import (
    readiness_access,
    readiness_gpu,
    readiness_networks,
    readiness_nodes,
    readiness_operator,
    readiness_policy,
)
from .catalogue import REFERENCE, catalogue
from .readiness_expressions import evaluate, make_extra_rows
from .readiness_findings import Context, Finding, Judgement, load_yaml, names
from .readiness_reads import that_count
from .readiness_settings import TESTS, Settings

Row = Mapping[str, Any]
Check = dict[str, Any]

_TABLE = Path(__file__).with_name("readiness_checks.yml")
_ROW_DEFAULTS: Row = {"severity": "required", "tests": list(TESTS), "reads": [], "also": []}
_OWN_WORDS = ("cause", "remedy", "retry")
_BROKEN = re.compile(r"deserialization failed|Failed to import the required Python library")
_UNAUTHORIZED = re.compile(r"\b401\b|Unauthorized")


def judge_api(context: Context) -> Judgement:
    """The API server answers, and to this identity."""
    cluster = context.cluster
    if not cluster.get("server_version"):
        words = _brief(str(cluster.get("msg") or cluster.get("exception") or "no answer"))
        if cluster.get("module_stderr"):
            words += f": {_brief(str(cluster['module_stderr']))}"
        if _BROKEN.search(words):
            return Judgement([Finding("client_broken", words)])
        code = "api_unauthorized" if _UNAUTHORIZED.search(words) else "api_unreachable"
        return Judgement([Finding(code, words)])
    return Judgement(seen=f"Kubernetes {cluster['server_version']}")


def judge_readable(context: Context) -> Judgement:
    """No read failed for a reason other than permissions or a kind that is not there; those are told elsewhere."""
    failed = {
        read_id: _brief(str(outcome.get("message")))
        for read_id, outcome in context.reads.items()
        if outcome.get("status") == "failed"
    }
    if failed:
        seen = "; ".join(f"{read_id}: {words}" for read_id, words in failed.items())
        return Judgement([Finding("read_failed", seen)], evidence=failed)
    return Judgement(seen=f"{len(context.reads)} reads")


JUDGES: Mapping[str, Callable[[Context], Judgement]] = {
    "api": judge_api,
    "permissions": readiness_access.judge_permissions,
    "readable": judge_readable,
    "operator": readiness_operator.judge_operator,
    "operands": readiness_operator.judge_operands,
    "policy": readiness_policy.judge_policy,
    "node_policies": readiness_policy.judge_node_policies,
    "nodes_present": readiness_nodes.judge_nodes_present,
    "labels": readiness_nodes.judge_labels,
    "usable": readiness_nodes.judge_usable,
    "rdma": readiness_nodes.judge_rdma,
    "enough": readiness_nodes.judge_enough,
    "adapters": readiness_nodes.judge_adapters,
    "networks": readiness_networks.judge_networks,
    "pools": readiness_networks.judge_pools,
    "sriov": readiness_networks.judge_sriov,
    "pod_security": readiness_access.judge_pod_security,
    "scc": readiness_access.judge_scc,
    "pull_secrets": readiness_access.judge_pull_secrets,
    "gpu_operator": readiness_gpu.judge_gpu_operator,
    "gpu_nodes": readiness_nodes.judge_gpu_nodes,
    "gpu_memory": readiness_gpu.judge_memory_path,
    "mig": readiness_nodes.judge_mig,
}


@functools.cache
def builtin_rows() -> tuple[Row, ...]:
    """The rows of the table that the collection brings."""
    with _TABLE.open(encoding="utf-8") as stream:
        return tuple({**_ROW_DEFAULTS, **row} for row in load_yaml(stream))


def table(settings: Settings) -> list[Row]:
    """The rows that apply: built-in ones and the user's, less those switched off and those of tests not chosen.

    Raises :class:`ValueError` for a row that cannot be understood and for a switched-off id that does not exist.
    """
    builtin = builtin_rows()
    known = {row["id"] for row in builtin}
    rows = [*builtin, *make_extra_rows(settings.extra_checks, known)]
    unknown = sorted(set(settings.disabled_checks) - {row["id"] for row in rows})
    if unknown:
        raise ValueError(
            f"readiness_disabled_checks: no such check: {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        )
    return [
        row
        for row in rows
        if row["id"] not in settings.disabled_checks and set(row["tests"]) & set(settings.tests)
    ]


def judge(context: Context) -> dict[str, Any]:
    """The result of readiness: ``{passed, tests, checks, nodes, cluster}``.

    Each entry of ``checks`` is ``{id, title, status, severity, code, seen, required, cause, remedy, retry, reference,
    where, tests, evidence}``; ``status`` is ``passed``, ``failed``, ``advice`` (not as it should be, but no obstacle) or
    ``skipped`` (nothing to judge, or not readable: then ``code`` is ``not_read``). A check that finds several
    things has an entry for each, with the same id. ``tests`` tells for each chosen test whether anything that it
    needs is in the way.
    """
    reads = that_count(context.settings, context.reads)
    context = dataclasses.replace(context, reads=reads, memory={})
    if not judge_api(context).findings:
        rows = table(context.settings)
    else:
        # nothing was read: a list of consequences would bury the one cause
        rows = [row for row in table(context.settings) if row["id"] == "api"]
    checks = [check for row in rows for check in _check(row, context)]
    blocked = {test for check in checks if check["status"] == "failed" for test in check["tests"]}
    unread = {
        test
        for check in checks
        if check["code"] == "not_read" and check["severity"] == "required"
        for test in check["tests"]
    }
    chosen = [test for test in TESTS if test in context.settings.tests]
    verdicts = {test: test not in blocked | unread for test in chosen}
    return {
        "passed": all(verdicts.values()),
        "tests": verdicts,
        "checks": checks,
        "nodes": readiness_nodes.node_rows(context),
        "cluster": {
            "version": context.cluster.get("server_version"),
            "openshift": readiness_access.is_openshift(context),
            "gpu_memory_path": readiness_gpu.memory_path(readiness_gpu.first_policy(context)),
        },
    }


def report(context: Context) -> dict[str, Any]:
    """The result (:func:`judge`) and the words about it.

    ``{result, message, missing, advice, pending}``: the message of the final assert, what is still missing and what
    is worth a look in lines of text, and the reads to repeat if waiting may help.
    """
    result = judge(context)
    return {
        "result": result,
        "message": message(result),
        "missing": missing(result),
        "advice": advice(result),
        "pending": pending_reads(result, context.settings),
    }


def _check(row: Row, context: Context) -> list[Check]:
    unreadable = _unreadable(row, context)
    if unreadable:
        return [_entry(row, "skipped", code="not_read", seen=unreadable)]
    judgement = JUDGES[row["judge"]](context) if "judge" in row else evaluate(row, context)
    if judgement.skipped:
        return [_entry(row, "skipped", seen=judgement.skipped)]
    if not judgement.findings:
        return [_entry(row, "passed", seen=judgement.seen, evidence=judgement.evidence)]
    return [_finding_entry(row, finding, judgement) for finding in judgement.findings]


def _unreadable(row: Row, context: Context) -> str | None:
    """Why the row cannot be judged. A kind that does not exist is for the judge to tell, so it is no obstacle."""
    for name in [*row["reads"], *row["also"]]:
        status = context.status(name)
        if status in ("forbidden", "failed") or (status == "not_read" and name in row["reads"]):
            return f"{name} could not be read ({status.replace('_', ' ')})"
    return None


def _finding_entry(row: Row, finding: Finding, judgement: Judgement) -> Check:
    # the user's own words come first, also for a code that the catalogue knows
    code = {**catalogue().get(finding.code, {}), **{k: row[k] for k in _OWN_WORDS if row.get(k)}}
    severity = finding.severity or row["severity"]
    where = {
        "kind": finding.kind,
        "namespace": finding.namespace,
        "name": finding.name,
        "nodes": list(finding.nodes),
    }
    return _entry(
        row,
        "failed" if severity == "required" else "advice",
        severity=severity,
        code=finding.code,
        seen=finding.seen,
        required=finding.required,
        cause=code.get("cause", ""),
        remedy=code.get("remedy", ""),
        retry=bool(code.get("retry", False)) if finding.retry is None else finding.retry,
        reference=f"{REFERENCE}#{code['anchor']}" if "anchor" in code else "",
        where=where,
        evidence=judgement.evidence if finding.evidence is None else finding.evidence,
    )


def _entry(row: Row, status: str, **more: Any) -> Check:
    entry: Check = {
        "id": row["id"],
        "title": row["title"],
        "status": status,
        "severity": row["severity"],
        "code": None,
        "seen": "",
        "required": "",
        "cause": "",
        "remedy": "",
        "retry": False,
        "reference": "",
        "where": {"kind": None, "namespace": None, "name": None, "nodes": []},
        "tests": list(row["tests"]),
        "evidence": None,
    }
    return {**entry, **more}


def pending_reads(result: Mapping[str, Any], settings: Settings) -> list[str]:
    """What to read again because waiting may help: the reads behind failed checks that a retry may clear.

    Empty when nothing failed, and when something failed that no waiting will mend.
    """
    failed = [check for check in result["checks"] if check["status"] == "failed"]
    if not failed or not all(check["retry"] for check in failed):
        return []
    ids = {check["id"] for check in failed}
    reads = {
        name
        for row in table(settings)
        if row["id"] in ids
        for name in [*row["reads"], *row["also"]]
    }
    return sorted(reads)


def describe(check: Check) -> str:
    """One check that is not as it should be, in words for a person."""
    lines = [f"{check['title']} [{check['code'] or check['id']}]: {check['seen']}"]
    if check["required"]:
        lines.append(f"  required: {check['required']}")
    if check["cause"]:
        lines.append(f"  likely cause: {check['cause']}")
    if check["remedy"]:
        lines.append(f"  remedy: {check['remedy']}")
    return "\n".join(lines)


def message(result: Mapping[str, Any]) -> str:
    """The words of the final assert: every failing check with its cause and remedy, then what could not be judged."""
    failed = [check for check in result["checks"] if check["status"] == "failed"]
    unread = [check for check in result["checks"] if check["code"] == "not_read"]
    passed = sum(check["status"] == "passed" for check in result["checks"])
    head = f"The high-speed network is not ready: {len(failed)} failing, {passed} passed."
    parts = [head, *(f"{number}. {describe(check)}" for number, check in enumerate(failed, 1))]
    if unread:
        parts.append(f"Not judged, because not read: {names((c['id'] for c in unread), 30)}.")
    return "\n".join(parts)


def advice(result: Mapping[str, Any]) -> list[str]:
    """The checks that are no obstacle and yet worth a look, in words."""
    return [describe(check) for check in result["checks"] if check["status"] == "advice"]


def missing(result: Mapping[str, Any]) -> list[str]:
    """What is still missing, one line each, for the steps of waiting."""
    return [
        f"{check['title']}: {check['seen']}"
        for check in result["checks"]
        if check["status"] == "failed"
    ]


def _brief(text: str, limit: int = 400) -> str:
    """The last lines of a client's words: a traceback ends with what matters."""
    lines: Iterable[str] = [line.strip() for line in text.strip().splitlines() if line.strip()]
    words = list(lines)[-1] if "Traceback" in text else " ".join(lines)
    return words if len(words) <= limit else words[:limit] + " …"
