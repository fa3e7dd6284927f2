"""What the parts of the content share: names, uids, and storing."""

from __future__ import annotations

import uuid
from typing import Any

from ..api import Api

Obj = dict[str, Any]
VERSION = "v1.34.2"
OPERATOR = "nvidia-network-operator"
GPU_OPERATOR = "gpu-operator"
_SPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")


def uid(text: str) -> str:
    """A uid that is the same on every start."""
    return str(uuid.uuid5(_SPACE, text))


class Putter:
    """Stores objects as they are, statuses included."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def __call__(self, group: str, version: str, plural: str, obj: Obj) -> Obj:
        resource = self._api.registry.find(group, version, plural)
        meta = obj["metadata"]
        meta.setdefault("uid", uid(f"{plural}/{meta.get('namespace', '')}/{meta['name']}"))
        if resource.custom or group in ("apps", "batch"):
            meta.setdefault("generation", 1)
        return self._api.put(resource, obj)


def namespace(name: str) -> Obj:
    """A namespace object."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
