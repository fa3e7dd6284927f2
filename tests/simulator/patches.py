"""The four kinds of PATCH: JSON merge, strategic merge, JSON patch and server-side apply."""

from __future__ import annotations

from typing import Any

import jsonpatch

from .errors import ApiError
from .store import thaw

# Lists of built-in types that merge by a key; every other list is replaced whole.
MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containerStatuses": "name",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "secrets": "name",
    "subjects": "name",
    "taints": "key",
    "tolerations": "key",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
# tolerations and subjects are atomic for strategic merge; apply merges neither.
_ATOMIC_IN_STRATEGIC = {"tolerations", "subjects"}
# Sets of plain values that strategic merge and apply join.
_SETS = {"finalizers"}


def merge(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    out = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), value)
    return out


def strategic(old: Any, patch: Any, field: str | None = None) -> Any:
    """Strategic merge: lists with a merge key are merged by it; `$patch: delete|replace` and `$retainKeys` are understood."""
    if isinstance(patch, list):
        return _strategic_list(old, patch, field)
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {k: v for k, v in patch.items() if k != "$patch"}
    out = dict(old) if isinstance(old, dict) else {}
    if "$retainKeys" in patch:
        out = {k: v for k, v in out.items() if k in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.split("/", 1)[1]
            out[name] = [x for x in out.get(name) or [] if x not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            out.pop(key, None)
        else:
            out[key] = strategic(out.get(key), value, key)
    return out


def _strategic_list(old: Any, patch: list[Any], field: str | None) -> list[Any]:
    key = None if field in _ATOMIC_IN_STRATEGIC else MERGE_KEYS.get(field or "")
    if field in _SETS and isinstance(old, list):
        return old + [x for x in patch if x not in old]
    keyed = all(isinstance(x, dict) and (key in x or x.get("$patch") == "replace") for x in patch)
    if key is None or not isinstance(old, list) or not keyed:
        return [x for x in patch if not (isinstance(x, dict) and "$patch" in x)]
    if any(x.get("$patch") == "replace" for x in patch):
        return [x for x in patch if "$patch" not in x]
    out = [dict(x) for x in old]
    for item in patch:
        at = next((i for i, x in enumerate(out) if x.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if at is not None:
                out.pop(at)
        elif at is None:
            out.append(strategic({}, item))
        else:
            out[at] = strategic(out[at], item)
    return out


def json_patch(old: dict[str, Any], patch: Any) -> dict[str, Any]:
    """RFC 6902; raises 422 when an operation cannot be carried out (a failed `test` among them)."""
    if not isinstance(patch, list):
        raise ApiError(
            400,
            "BadRequest",
            "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        )
    try:
        return jsonpatch.apply_patch(thaw(old), patch)
    except (
        jsonpatch.JsonPatchException,
        jsonpatch.JsonPointerException,
        TypeError,
        KeyError,
    ) as error:
        raise ApiError(
            422,
            "Invalid",
            f"the server rejected our request due to an error in our request: {error}",
            {},
        ) from error


Paths = set[tuple[Any, ...]]


def owned_paths(value: Any, field: str | None = None, prefix: tuple[Any, ...] = ()) -> Paths:
    """The leaves that an applied configuration names; keyed lists by their key, other lists as one leaf."""
    if isinstance(value, dict) and value:
        out: Paths = set()
        for key, item in value.items():
            out |= owned_paths(item, key, (*prefix, key))
        return out
    key = MERGE_KEYS.get(field or "")
    if (
        isinstance(value, list)
        and value
        and key
        and all(isinstance(x, dict) and key in x for x in value)
    ):
        out = set()
        for item in value:
            out |= owned_paths(item, None, (*prefix, (key, item[key])))
        return out
    return {prefix}


def apply(old: Any, config: Any, field: str | None = None) -> Any:
    """Server-side apply of a configuration: maps are merged, keyed lists by key, the rest replaced."""
    if isinstance(config, list):
        key = MERGE_KEYS.get(field or "")
        if (
            not key
            or not isinstance(old, list)
            or not all(isinstance(x, dict) and key in x for x in [*old, *config])
        ):
            return config
        out = [dict(x) for x in old]
        for item in config:
            at = next((i for i, x in enumerate(out) if x[key] == item[key]), None)
            if at is None:
                out.append(item)
            else:
                out[at] = apply(out[at], item)
        return out
    if not isinstance(config, dict):
        return config
    out = dict(old) if isinstance(old, dict) else {}
    for key, value in config.items():
        out[key] = apply(out.get(key), value, key)
    return out


def drop(obj: Any, path: tuple[Any, ...]) -> Any:
    """The object without one leaf that its manager no longer names."""
    if not path:
        return obj
    head, rest = path[0], path[1:]
    if isinstance(head, tuple):
        if not isinstance(obj, list):
            return obj
        key, wanted = head
        out = []
        for item in obj:
            if isinstance(item, dict) and item.get(key) == wanted:
                item = drop(item, rest) if rest else None
                if not item or set(item) <= {key}:
                    continue
            out.append(item)
        return out
    if not isinstance(obj, dict) or head not in obj:
        return obj
    if not rest:
        return {k: v for k, v in obj.items() if k != head}
    return {**obj, head: drop(obj[head], rest)}
