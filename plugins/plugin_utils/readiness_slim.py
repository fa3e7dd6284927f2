# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cuts nodes and pods down to what the checks look at.

A cluster of a thousand nodes has ten thousand pods and a hundred thousand labels; all of them would be carried from
task to task. The objects keep their shape, so that judges take whole objects as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Item = Mapping[str, Any]

_NFD = "feature.node.kubernetes.io/"
_MELLANOX = "15b3"
_NODE_LABELS = ("network.nvidia.com/operator.mofed.wait", "nvidia.com/gpu.product")


def slim_node(item: Item) -> dict[str, Any]:
    """Name, the labels that tell of adapters, taints, extended resources, the condition Ready, the kernel."""
    metadata, spec, status = (item.get(part) or {} for part in ("metadata", "spec", "status"))
    labels = metadata.get("labels") or {}
    kept = {
        key: labels[key]
        for key in labels
        if key in _NODE_LABELS or (key.startswith(_NFD) and _MELLANOX in key)
    }
    if not any(key.startswith(_NFD) for key in kept):
        # one of the others shows that Node Feature Discovery runs
        kept.update({key: labels[key] for key in [k for k in labels if k.startswith(_NFD)][:1]})
    slim: dict[str, Any] = {
        "kind": "Node",
        "metadata": {"name": metadata.get("name"), "labels": kept},
        "spec": {key: spec[key] for key in ("taints", "unschedulable") if spec.get(key)},
        "status": {
            "conditions": [c for c in status.get("conditions") or [] if c.get("type") == "Ready"],
            "nodeInfo": {"kernelVersion": (status.get("nodeInfo") or {}).get("kernelVersion")},
        },
    }
    for part in ("capacity", "allocatable"):
        resources = status.get(part) or {}
        slim["status"][part] = {key: resources[key] for key in resources if "/" in key}
    return slim


def slim_pod(item: Item) -> dict[str, Any]:
    """Name, labels, owners, node, and what its status says about readiness."""
    metadata, spec, status = (item.get(part) or {} for part in ("metadata", "spec", "status"))
    kept = ("name", "namespace", "uid", "labels", "deletionTimestamp")
    return {
        "kind": "Pod",
        "metadata": {
            **{key: metadata[key] for key in kept if key in metadata},
            "ownerReferences": [
                {"kind": owner.get("kind")} for owner in metadata.get("ownerReferences") or []
            ],
        },
        "spec": {"nodeName": spec.get("nodeName")},
        "status": {
            "phase": status.get("phase"),
            "reason": status.get("reason"),
            "conditions": [
                c
                for c in status.get("conditions") or []
                if c.get("type") in ("Ready", "PodScheduled")
            ],
            **{
                part: [_slim_container(c) for c in status.get(part) or []]
                for part in ("containerStatuses", "initContainerStatuses")
            },
        },
    }


def _slim_container(status: Item) -> dict[str, Any]:
    return {key: status.get(key) for key in ("name", "ready", "restartCount", "state")}


_SLIM: Mapping[str, Callable[[Item], dict[str, Any]]] = {"Node": slim_node, "Pod": slim_pod}


def slim(kind: str, items: Iterable[Item]) -> list[Any]:
    """The objects of a kind, cut down where it is one of the large ones."""
    cut = _SLIM.get(kind)
    return [cut(item) for item in items] if cut else list(items)
