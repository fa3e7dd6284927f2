"""Failures as the API server reports them: one exception that carries a `Status` object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class ApiError(Exception):
    """A refusal with an HTTP code and the machine-readable reason of `metav1.Status`."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    def status(self) -> dict[str, Any]:
        """The `Status` object that goes into the response body."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            body["details"] = self.details
        return body


# The reason of a cause and the words it starts with in a message.
_CAUSES = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueTooLong": "Too long",
}


@dataclass
class Causes:
    """Collects what is wrong with an object, field by field, in the order the server would find it."""

    items: list[dict[str, str]] = field(default_factory=list)

    def add(self, reason: str, path: str, text: str) -> None:
        """Collects one cause."""
        self.items.append(
            {"reason": reason, "message": f"{_CAUSES[reason]}{text}", "field": path},
        )

    def required(self, path: str, detail: str = "") -> None:
        """A field that must be there is not."""
        self.add("FieldValueRequired", path, f": {detail}" if detail else "")

    def invalid(self, path: str, value: Any, detail: str) -> None:
        self.add("FieldValueInvalid", path, f": {quote(value)}: {detail}")

    def forbidden(self, path: str, detail: str) -> None:
        """403 by admission."""
        self.add("FieldValueForbidden", path, f": {detail}")

    def unsupported(self, path: str, value: Any, allowed: list[str]) -> None:
        """A value that is none of those allowed."""
        choices = ", ".join(f'"{a}"' for a in sorted(allowed))
        self.add("FieldValueNotSupported", path, f": {quote(value)}: supported values: {choices}")

    def duplicate(self, path: str, value: Any) -> None:
        """A value that was there before."""
        self.add("FieldValueDuplicate", path, f": {quote(value)}")

    def raise_if_any(self, kind: str, name: str, group: str = "") -> None:
        """Raises 422 in the server's wording when something was collected."""
        if self.items:
            raise invalid(kind, name, self.items, group)


def quote(value: Any) -> str:
    """A value the way Go's %#v prints it in a validation message, near enough."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return str(value)


def invalid(kind: str, name: str, causes: list[dict[str, str]], group: str = "") -> ApiError:
    texts = [f"{c['field']}: {c['message']}" for c in causes]
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    full = f"{kind}.{group}" if group else kind
    details: dict[str, Any] = {"name": name, "kind": kind, "causes": causes}
    if group:
        details["group"] = group
    return ApiError(422, "Invalid", f'{full} "{name}" is invalid: {joined}', details)


def qualified(plural: str, group: str) -> str:
    """plural.group, as messages name a type."""
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, group: str, name: str) -> ApiError:
    """404 for an object."""
    details = {"name": name, "kind": plural} | ({"group": group} if group else {})
    return ApiError(404, "NotFound", f'{qualified(plural, group)} "{name}" not found', details)


def no_such_path() -> ApiError:
    """404 for a path that is not served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(plural: str, group: str, name: str) -> ApiError:
    """409 for a name that is taken."""
    details = {"name": name, "kind": plural} | ({"group": group} if group else {})
    text = f'{qualified(plural, group)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, details)


def conflict(plural: str, group: str, name: str, why: str) -> ApiError:
    """409 with a reason in words."""
    details = {"name": name, "kind": plural} | ({"group": group} if group else {})
    text = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return ApiError(409, "Conflict", text, details)


def modified_meanwhile(plural: str, group: str, name: str) -> ApiError:
    """409 for a stale resource version."""
    why = (
        "the object has been modified; please apply your changes to the latest version"
        " and try again"
    )
    return conflict(plural, group, name, why)


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def forbidden(plural: str, group: str, name: str, why: str) -> ApiError:
    """403 by admission."""
    details = {"kind": plural} | ({"group": group} if group else {})
    quoted = f' "{name}"' if name else ""
    if name:
        details["name"] = name
    text = f"{qualified(plural, group)}{quoted} is forbidden: {why}"
    return ApiError(403, "Forbidden", text, details)


def expired(message: str) -> ApiError:
    """410 for a list or watch that begins too long ago."""
    return ApiError(410, "Expired", message)
