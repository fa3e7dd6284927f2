# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that are one JMESPath expression: plain facts of the built-in table, and the user's own."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .readiness_findings import Context, Finding, Judgement
from .readiness_reads import extra_read_id
from .readiness_settings import TESTS

try:
    import jmespath
    from jmespath.exceptions import JMESPathError
except ImportError:  # told when it is needed, by name
    jmespath = None
    JMESPathError = ValueError

_KEYS = {"id", "title", "resource", "expression", "expected", "severity", "remedy"}
_KEYS |= {"cause", "code", "tests", "retry"}
_RESOURCE_KEYS = {"api_version", "kind", "namespace", "name", "label_selectors"}


class MissingLibrary(ValueError):
    """jmespath is not installed."""


def make_extra_rows(
    checks: Iterable[Mapping[str, Any]], known: Collection[str]
) -> list[dict[str, Any]]:
    """Rows of the table out of ``readiness_extra_checks``, completed and checked.

    Raises :class:`ValueError` naming the row and what is wrong with it.
    """
    rows: list[dict[str, Any]] = []
    for number, check in enumerate(checks, 1):
        name = f"readiness_extra_checks: row {number} ({check.get('id', 'without id')})"
        unknown = sorted(set(check) - _KEYS)
        if unknown:
            raise ValueError(f"{name}: unknown keys {', '.join(unknown)}")
        for key in ("id", "resource", "expression"):
            if not check.get(key):
                raise ValueError(f"{name}: {key} is missing")
        if check["id"] in known or any(check["id"] == row["id"] for row in rows):
            raise ValueError(f"{name}: the id is taken")
        resource = check["resource"]
        if not isinstance(resource, Mapping) or not resource.get("kind"):
            raise ValueError(f"{name}: resource must be a mapping with a kind")
        if set(resource) - _RESOURCE_KEYS:
            unknown = sorted(set(resource) - _RESOURCE_KEYS)
            raise ValueError(f"{name}: unknown keys of resource: {', '.join(unknown)}")
        severity = check.get("severity", "required")
        if severity not in ("required", "advice"):
            raise ValueError(f"{name}: severity must be required or advice, not {severity!r}")
        tests = check.get("tests", list(TESTS))
        if not isinstance(tests, list) or not tests or set(tests) - set(TESTS):
            raise ValueError(f"{name}: tests must be a list out of {', '.join(TESTS)}")
        _compile(name, str(check["expression"]))
        rows.append(
            {
                "id": str(check["id"]),
                "title": str(check.get("title") or check["id"]),
                "severity": severity,
                "tests": tests,
                "reads": [extra_read_id(resource)],
                "also": [],
                "single": bool(resource.get("name")),
                "expression": str(check["expression"]),
                "expected": check.get("expected", True),
                "code": str(check.get("code") or check["id"]),
                "cause": str(check.get("cause") or ""),
                "remedy": str(check.get("remedy") or ""),
                "retry": bool(check.get("retry", False)),
            }
        )
    return rows


def _compile(name: str, expression: str) -> Any:
    if jmespath is None:
        raise MissingLibrary(
            "the Python library jmespath is missing on the controller; install it with: pip install jmespath"
        )
    try:
        return jmespath.compile(expression)
    except JMESPathError as error:
        raise ValueError(f"{name}: {error}") from error


def evaluate(row: Mapping[str, Any], context: Context) -> Judgement:
    """Judges a row with an expression.

    The expression sees one object when the read names one (null when it is not there), else the list of objects.
    """
    read_id = row["reads"][0]
    items = context.items(read_id)
    single = row.get("single", read_id == "namespace")
    data = (items[0] if items else None) if single else items
    compiled = _compile(row["id"], row["expression"])
    try:
        value = compiled.search(data)
    except JMESPathError as error:
        return Judgement([Finding("expression_failed", f"{row['expression']}: {error}")])
    seen = f"{row['expression']} is {_words(value)}"
    if single and data is None:
        seen = "there is no such object"
    if value == row["expected"] and isinstance(value, bool) == isinstance(row["expected"], bool):
        return Judgement(seen=seen, evidence=value)
    return Judgement([Finding(row["code"], seen, _words(row["expected"]), evidence=value)])


def _words(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 300 else text[:300] + " …"
