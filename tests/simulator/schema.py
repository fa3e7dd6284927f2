"""Decoding of objects: which fields a type has, and of what JSON type each is.

An API server drops fields it does not know (and warns, or refuses, as `fieldValidation` says) and refuses values of the wrong
type outright. The field tables in schemas/ hold names and types alone.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from .errors import Causes, bad_request

HERE = Path(__file__).parent / "schemas"

# Fields of metadata that the models leave out of nothing, and types that are not plain structures.
_OPEN = {"object", "V1JSONSchemaProps"}
_GO_TYPES = {
    "str": "string",
    "bool": "bool",
    "int": "int32",
    "float": "float64",
    "datetime": "Time",
}
# Maps of quantities: numbers are accepted and answered as strings.
QUANTITY_MAPS = {
    "limits",
    "requests",
    "capacity",
    "allocatable",
    "hard",
    "used",
    "overhead",
    "default",
    "defaultRequest",
    "max",
    "min",
    "maxLimitRequestRatio",
    "allocatedResources",
}


@cache
def _types() -> dict[str, dict[str, str]]:
    return json.loads((HERE / "builtin.json").read_text())


@cache
def custom_definitions() -> list[dict[str, Any]]:
    """The custom resource types that the operators of a real cluster bring along."""
    return json.loads((HERE / "custom.json").read_text())


def model_of(kind: str) -> str | None:
    """The name of a built-in kind's table; None for a kind without one."""
    for name in (f"V1{kind}", f"CoreV1{kind}"):
        if name in _types():
            return name
    return None


@cache
def _parsed(text: str) -> tuple[str, str]:
    if m := re.fullmatch(r"list\[(.+)\]", text):
        return ("list", m[1])
    if m := re.fullmatch(r"dict\(str, (.+)\)", text):
        return ("map", m[1])
    return ("one", text)


class Decoder:
    """Decodes one object of a built-in kind; collects unknown fields and raises on wrong types."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.unknown: list[str] = []

    def decode(self, obj: dict[str, Any]) -> dict[str, Any]:
        """The object with only known fields and without nulls."""
        model = model_of(self.kind)
        if model is None:
            return obj
        return self._struct(obj, model, "")

    def _wrong(self, value: Any, path: str, go_type: str) -> Exception:
        have = (
            "array"
            if isinstance(value, list)
            else (
                "object"
                if isinstance(value, dict)
                else (
                    "bool"
                    if isinstance(value, bool)
                    else "string" if isinstance(value, str) else "number"
                )
            )
        )
        where = re.sub(r"\[[^\]]*\]", "", path)
        owner = where.split(".")[-2] if "." in where else self.kind
        return bad_request(
            f'{self.kind} in version "v1" cannot be handled as a {self.kind}: json: cannot unmarshal {have} into Go '
            f"struct field {owner[:1].upper() + owner[1:]}.{where} of type {go_type}"
        )

    def _struct(self, value: Any, model: str, path: str) -> Any:
        fields = _types().get(model)
        if fields is None:
            return value
        if not isinstance(value, dict):
            raise self._wrong(value, path, f"v1.{model[2:]}")
        out = {}
        for name, item in value.items():
            where = f"{path}.{name}" if path else name
            kind = fields.get(name)
            if kind is None:
                self.unknown.append(where)
            elif item is not None:
                out[name] = self._value(item, kind, where)
            elif name == "creationTimestamp":
                out[name] = None
        return out

    def _value(self, value: Any, kind: str, path: str) -> Any:
        shape, inner = _parsed(kind)
        if shape == "list":
            if not isinstance(value, list):
                raise self._wrong(value, path, f"[]v1.{inner.removeprefix('V1')}")
            return [self._scalar_or_struct(x, inner, f"{path}[{i}]") for i, x in enumerate(value)]
        if shape == "map":
            name = path.rsplit(".", 1)[-1]
            if not isinstance(value, dict):
                raise self._wrong(value, path, "map[string]string")
            if name in QUANTITY_MAPS:
                return {k: self._quantity(v, path) for k, v in value.items()}
            return {
                k: self._scalar_or_struct(v, inner, path) for k, v in value.items() if v is not None
            }
        return self._scalar_or_struct(value, inner, path)

    def _quantity(self, value: Any, path: str) -> str:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise self._wrong(value, path, "resource.Quantity")
        text = str(value)
        if not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", text):
            raise bad_request(
                f'{self.kind} in version "v1" cannot be handled as a {self.kind}: quantities must match the regular '
                "expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            )
        return text

    def _scalar_or_struct(self, value: Any, kind: str, path: str) -> Any:
        if kind in _OPEN:
            return value
        if kind == "str" and not isinstance(value, str):
            raise self._wrong(value, path, "string")
        if kind == "datetime" and not isinstance(value, str):
            raise self._wrong(value, path, "Time")
        if kind == "bool" and not isinstance(value, bool):
            raise self._wrong(value, path, "bool")
        if kind == "int" and (isinstance(value, bool) or not isinstance(value, int)):
            raise self._wrong(value, path, "int64" if path.endswith("Seconds") else "int32")
        if kind == "float" and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise self._wrong(value, path, "float64")
        if kind in _GO_TYPES or kind.startswith(("list[", "dict(")):
            return value if kind in _GO_TYPES else self._value(value, kind, path)
        return self._struct(value, kind, path)


class CustomDecoder:
    """Prunes, defaults and validates an object of a custom type against its structural schema."""

    def __init__(self, schema: dict[str, Any] | None) -> None:
        self.schema = schema or {}
        self.unknown: list[str] = []
        self.causes = Causes()

    def decode(self, obj: dict[str, Any]) -> dict[str, Any]:
        keep = {k: obj[k] for k in ("apiVersion", "kind", "metadata") if k in obj}
        if isinstance(keep.get("metadata"), dict):
            keep["metadata"] = Decoder("ObjectMeta").decode(keep["metadata"])
        rest = {k: v for k, v in obj.items() if k not in keep}
        schema = {
            **self.schema,
            "properties": {
                k: v
                for k, v in (self.schema.get("properties") or {}).items()
                if k not in ("apiVersion", "kind", "metadata")
            },
            "required": [r for r in self.schema.get("required") or () if r not in keep],
        }
        return {**keep, **self._value(rest, schema, "")}

    def _value(self, value: Any, schema: dict[str, Any], path: str) -> Any:
        if value is None:
            return value
        if _preserves(schema) and not schema.get("properties"):
            return value
        if schema.get("intOrString") or schema.get("x-kubernetes-int-or-string"):
            return value
        kind = schema.get("type")
        if kind and not _is(value, kind):
            self.causes.add(
                "FieldValueInvalid",
                path,
                f': "{_json_type(value)}": {path} in body must be of type {kind}: "{_json_type(value)}"',
            )
            return value
        if isinstance(value, dict):
            return self._object(value, schema, path)
        if isinstance(value, list):
            items = schema.get("items") or {}
            return [self._value(x, items, f"{path}[{i}]") for i, x in enumerate(value)]
        self._scalar(value, schema, path)
        return value

    def _object(self, value: dict[str, Any], schema: dict[str, Any], path: str) -> dict[str, Any]:
        fields = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        out = {}
        for name, item in value.items():
            where = f"{path}.{name}" if path else name
            if name in fields:
                if item is not None:
                    out[name] = self._value(item, fields[name], where)
            elif isinstance(additional, dict):
                out[name] = self._value(item, additional, where)
            elif _preserves(schema) or additional is True:
                out[name] = item
            else:
                self.unknown.append(where)
        for name, field in fields.items():
            if name not in out and "default" in field:
                out[name] = json.loads(json.dumps(field["default"]))
                if isinstance(out[name], dict):
                    out[name] = self._value(out[name], field, f"{path}.{name}" if path else name)
        for name in schema.get("required") or ():
            if name not in out:
                self.causes.required(f"{path}.{name}" if path else name)
        return out

    def _scalar(self, value: Any, schema: dict[str, Any], path: str) -> None:
        if "enum" in schema and value not in schema["enum"]:
            self.causes.unsupported(path, value, [str(e) for e in schema["enum"]])
        if isinstance(value, str):
            if "pattern" in schema and not re.search(schema["pattern"], value):
                self.causes.invalid(
                    path, value, f"{path} in body should match '{schema['pattern']}'"
                )
            if len(value) < schema.get("minLength", 0):
                self.causes.invalid(
                    path,
                    value,
                    f"{path} in body should be at least {schema['minLength']} chars long",
                )
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            if "minimum" in schema and value < schema["minimum"]:
                self.causes.invalid(
                    path,
                    value,
                    f"{path} in body should be greater than or equal to {schema['minimum']}",
                )
            if "maximum" in schema and value > schema["maximum"]:
                self.causes.invalid(
                    path,
                    value,
                    f"{path} in body should be less than or equal to {schema['maximum']}",
                )


def _preserves(schema: dict[str, Any]) -> bool:
    return bool(schema.get("preserve") or schema.get("x-kubernetes-preserve-unknown-fields"))


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return {dict: "object", list: "array", str: "string", int: "integer", float: "number"}.get(
        type(value), "null"
    )


def _is(value: Any, kind: str) -> bool:
    have = _json_type(value)
    return have == kind or (kind == "number" and have == "integer")
