"""Label selectors and field selectors, parsed as the API server parses them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .errors import bad_request

Predicate = Callable[[dict[str, Any]], bool]

_NAME = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
_PREFIX = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_SET = re.compile(r"^(\S+)\s+(in|notin)\s*\((.*)\)$")
_EQUAL = re.compile(r"^([^=!\s]+)\s*(!=|==|=)\s*(.*)$")
_COMPARE = re.compile(r"^([^<>=!\s]+)\s*([<>])\s*(-?\d+)$")

QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def qualified_name_problem(key: str) -> str | None:
    """What is wrong with a label or annotation key; None when nothing is."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _PREFIX.match(prefix)):
        if not prefix:
            return "prefix part must be non-empty"
        return (
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
            " and must start and end with an alphanumeric character"
        )
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return None if _NAME.match(name) else QUALIFIED


def label_value_problem(value: str) -> str | None:
    """What is wrong with a label's value; None when nothing is."""
    if len(value) > 63:
        return "must be no more than 63 bytes"
    return None if not value or _NAME.match(value) else LABEL_VALUE


def _split(text: str) -> list[str]:
    """Splits on commas outside of parentheses."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    if depth:
        raise bad_request(f"unable to parse requirement: found '{text}', expected: ')'")
    parts.append(text[start:])
    return [p.strip() for p in parts]


def _checked(key: str, values: list[str]) -> None:
    if problem := qualified_name_problem(key):
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{key}": {problem}')
    for value in values:
        if problem := label_value_problem(value):
            raise bad_request(
                f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": {problem}'
            )


def _label_requirement(term: str) -> Callable[[Mapping[str, str]], bool]:
    if m := _SET.match(term):
        key, negate = m[1], m[2] == "notin"
        values = [v.strip() for v in m[3].split(",")]
        _checked(key, values)
        wanted = set(values)
        return (
            (lambda labels: labels.get(key) not in wanted)
            if negate
            else lambda labels: key in labels and labels[key] in wanted
        )
    if m := _EQUAL.match(term):
        key, operator, value = m[1], m[2], m[3].strip()
        _checked(key, [value])
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if m := _COMPARE.match(term):
        key, greater, number = m[1], m[2] == ">", int(m[3])
        _checked(key, [])

        def compare(labels: Mapping[str, str]) -> bool:
            try:
                have = int(labels[key])
            except (KeyError, ValueError):
                return False
            return have > number if greater else have < number

        return compare
    if term.startswith("!"):
        key = term[1:].strip()
        _checked(key, [])
        return lambda labels: key not in labels
    if not term:
        raise bad_request(
            "unable to parse requirement: found '', expected: !, identifier, or 'end of string'"
        )
    if len(term.split()) > 1:
        raise bad_request(
            f"unable to parse requirement: found '{term.split()[1]}', expected: in, notin, =, ==, !=, gt, lt"
        )
    _checked(term, [])
    return lambda labels: term in labels


def label_selector(text: str | None) -> Predicate | None:
    """A test for objects; None selects everything. Raises 400 for what cannot be parsed."""
    if not text or not text.strip():
        return None
    requirements = [_label_requirement(term) for term in _split(text)]

    def matches(obj: dict[str, Any]) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(r(labels) for r in requirements)

    return matches


def structured_selector(selector: dict[str, Any] | None) -> Callable[[Mapping[str, str]], bool]:
    """matchLabels and matchExpressions of a LabelSelector, as a test for labels."""
    selector = selector or {}
    labels = dict(selector.get("matchLabels") or {})
    expressions = list(selector.get("matchExpressions") or [])

    def matches(have: Mapping[str, str]) -> bool:
        return all(have.get(k) == v for k, v in labels.items()) and all(
            expression_matches(e, have) for e in expressions
        )

    return matches


def expression_matches(expression: dict[str, Any], have: Mapping[str, str]) -> bool:
    """One match expression (of a label selector or of node affinity) against labels."""
    key, operator = expression["key"], expression["operator"]
    values = expression.get("values") or []
    if operator == "In":
        return key in have and have[key] in values
    if operator == "NotIn":
        return have.get(key) not in values
    if operator == "Exists":
        return key in have
    if operator == "DoesNotExist":
        return key not in have
    try:
        number, limit = int(have[key]), int(values[0])
    except (KeyError, ValueError, IndexError):
        return False
    return number > limit if operator == "Gt" else number < limit


# Fields a selector may name, by type; every type has metadata.name (and namespace).
_FIELDS = {
    ("", "pods"): {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    },
    ("", "nodes"): {"spec.unschedulable"},
    ("", "namespaces"): {"status.phase"},
    ("", "secrets"): {"type"},
    ("batch", "jobs"): {"status.successful"},
    ("", "events"): {
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    },
}


def _field(obj: dict[str, Any], path: str) -> str:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            return "false" if path in ("spec.hostNetwork", "spec.unschedulable") else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def field_selector(text: str | None, key: tuple[str, str], kind: str) -> Predicate | None:
    """A test for objects; None selects everything. Raises 400 for a field that the type does not offer."""
    if not text or not text.strip():
        return None
    allowed = _FIELDS.get(key, set()) | {"metadata.name", "metadata.namespace"}
    requirements = []
    for term in text.split(","):
        m = re.match(r"^([^=!]+)(!=|==|=)(.*)$", term.strip())
        if not m:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        path, operator, value = m[1].strip(), m[2], m[3].strip()
        if path not in allowed:
            why = f"field label not supported: {path}"
            if key not in _FIELDS:
                why = f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            raise bad_request(why)
        requirements.append((path, operator != "!=", value))

    def matches(obj: dict[str, Any]) -> bool:
        return all((_field(obj, path) == value) == equal for path, equal, value in requirements)

    return matches
