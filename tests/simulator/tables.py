"""Lists as tables, for `kubectl get`."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from .resources import Resource
from .store import Entry

Obj = dict[str, Any]
Column = tuple[str, Callable[[Obj], Any]]


def wanted(accept: str) -> bool:
    """Whether a client would rather have a table."""
    return "as=Table" in accept.split(",")[0]


def _age(obj: Obj) -> str:
    made = datetime.datetime.strptime(obj["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ")
    seconds = int((datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - made).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


def _pod_status(pod: Obj) -> str:
    status = pod["status"]
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for container in status.get("containerStatuses") or ():
        state = container["state"]
        reason = (state.get("waiting") or state.get("terminated") or {}).get("reason")
        if reason:
            return str(status.get("reason") or reason)
    return str(status.get("phase", ""))


def _pod_ready(pod: Obj) -> str:
    statuses = pod["status"].get("containerStatuses") or []
    return f"{sum(bool(c['ready']) for c in statuses)}/{len(pod['spec']['containers'])}"


def _restarts(pod: Obj) -> int:
    return sum(c["restartCount"] for c in pod["status"].get("containerStatuses") or ())


def _node_status(node: Obj) -> str:
    ready = any(
        c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"]
    )
    cordoned = ",SchedulingDisabled" if node["spec"].get("unschedulable") else ""
    return ("Ready" if ready else "NotReady") + cordoned


def _state(obj: Obj) -> str:
    return str((obj.get("status") or {}).get("state", ""))


_NAME: Column = ("Name", lambda o: o["metadata"]["name"])
_AGE: Column = ("Age", _age)
_COLUMNS: dict[str, list[Column]] = {
    "pods": [
        ("Ready", _pod_ready),
        ("Status", _pod_status),
        ("Restarts", _restarts),
        _AGE,
        ("IP", lambda o: o["status"].get("podIP", "<none>")),
        ("Node", lambda o: o["spec"].get("nodeName", "<none>")),
    ],
    "nodes": [
        ("Status", _node_status),
        _AGE,
        ("Version", lambda o: o["status"]["nodeInfo"]["kubeletVersion"]),
    ],
    "events": [
        ("Type", lambda o: o.get("type")),
        ("Reason", lambda o: o.get("reason")),
        (
            "Object",
            lambda o: f"{o['involvedObject']['kind'].lower()}/{o['involvedObject']['name']}",
        ),
        ("Message", lambda o: o.get("message")),
    ],
    "nicclusterpolicies": [("Status", _state), _AGE],
    "macvlannetworks": [("Status", _state), _AGE],
    "clusterpolicies": [("Status", _state), _AGE],
}
_WIDE = ("IP", "Node")


def table(resource: Resource, entries: list[Entry], meta: Obj) -> Obj:
    """A `Table` of objects, with what a client needs of each to tell it by."""
    columns = [_NAME, *_COLUMNS.get(resource.plural, [_AGE])]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [
            {
                "name": name,
                "type": "string",
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": 1 if name in _WIDE else 0,
            }
            for name, _unused in columns
        ],
        "rows": [
            {
                "cells": [value(e.obj) for _unused, value in columns],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": e.obj["metadata"],
                },
            }
            for e in entries
        ],
    }
