"""Event objects, counted up when the same thing happens again."""

from __future__ import annotations

from typing import Any

from .admission import suffix
from .api import Api
from .clock import timestamp

POD = ("", "pods")


class Recorder:
    """Writes events of the components."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._resource = api.registry.find("", "v1", "events")
        self._known: dict[tuple[str, str, str], str] = {}

    def record(
        self,
        obj: dict[str, Any],
        reason: str,
        message: str,
        component: str,
        kind: str = "Normal",
        path: str = "",
    ) -> None:
        """One event about an object; `path` is the field path of a container."""
        meta = obj["metadata"]
        namespace = meta.get("namespace") or "default"
        key = (meta["uid"], reason, message)
        name = self._known.get(key)
        store = self._api.store
        known = store.find(self._resource.key, namespace, name) if name else None
        if known is not None:
            self._api.put(
                self._resource,
                {
                    **known,
                    "metadata": dict(known["metadata"]),
                    "count": known["count"] + 1,
                    "lastTimestamp": timestamp(),
                },
            )
            return
        if store.find(("", "namespaces"), None, namespace) is None:
            return
        name = f"{meta['name']}.{suffix(16)}"
        self._known[key] = name
        now = timestamp()
        involved = {
            "apiVersion": obj.get("apiVersion", "v1"),
            "kind": obj.get("kind", "Pod"),
            "name": meta["name"],
            "uid": meta["uid"],
            "resourceVersion": meta.get("resourceVersion", ""),
        }
        if meta.get("namespace"):
            involved["namespace"] = meta["namespace"]
        if path:
            involved["fieldPath"] = path
        host = (
            (obj.get("spec") or {}).get("nodeName", "")
            if component in ("kubelet", "multus")
            else ""
        )
        self._api.put(
            self._resource,
            {
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": involved,
                "reason": reason,
                "message": message,
                "type": kind,
                "source": {"component": component} | ({"host": host} if host else {}),
                "reportingComponent": component,
                "reportingInstance": host,
                "count": 1,
                "firstTimestamp": now,
                "lastTimestamp": now,
            },
        )
