"""A healthy small cluster as readiness sees it, for tests to break one thing at a time."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness import judge
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_access import reviews
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_findings import Context
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_settings import make_settings

FIXTURES = Path(__file__).parents[2] / "k8s_fixtures"
NFD_LABEL = "feature.node.kubernetes.io/pci-15b3.present"
RDMA = "rdma/rdma_shared_device_a"
GPU = "nvidia.com/gpu"


def fixture(name: str) -> list[dict[str, Any]]:
    """The objects of a fixture file, one or many."""
    data = json.loads((FIXTURES / name).read_text(encoding="utf-8"))
    return data["items"] if data.get("kind", "").endswith("List") else [data]


def node(name: str, **changes: Any) -> dict[str, Any]:
    """A ready node with the label, 63 shares of RDMA and 8 GPUs. ``resources`` and ``labels`` add or replace."""
    resources = {RDMA: ("63", "63"), GPU: ("8", "8"), **changes.pop("resources", {})}
    resources = {key: pair for key, pair in resources.items() if pair is not None}
    labels = {NFD_LABEL: "true", **changes.pop("labels", {})}
    spec = changes.pop("spec", {})
    ready = changes.pop("ready", "True")
    assert not changes
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {key: value for key, value in labels.items() if value is not None},
        },
        "spec": spec,
        "status": {
            "capacity": {key: pair[0] for key, pair in resources.items()},
            "allocatable": {key: pair[1] for key, pair in resources.items()},
            "conditions": [{"type": "Ready", "status": ready, "reason": "KubeletReady"}],
            "nodeInfo": {"kernelVersion": "6.8.0-60-generic"},
        },
    }


def nad(name: str = "rdma-net-ipam", namespace: str = "default", **changes: Any) -> dict[str, Any]:
    """A macvlan network with addresses of an NVIDIA IPAM pool; ``config`` replaces its configuration."""
    ipam = {"type": "nv-ipam", "poolName": "rdma-pool"}
    config = changes.pop("config", {"type": "macvlan", "ipam": ipam})
    resource = changes.pop("resource", None)
    assert not changes
    annotations = {"k8s.v1.cni.cncf.io/resourceName": resource} if resource else {}
    return {
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {"config": config if isinstance(config, str) else json.dumps(config)},
    }


def pod(name: str, labels: dict[str, str], **changes: Any) -> dict[str, Any]:
    """A running, ready pod of one container; ``state`` and ``ready`` of the container can be given."""
    ready = changes.pop("ready", True)
    state = changes.pop("state", {"running": {}})
    namespace = changes.pop("namespace", "nvidia-network-operator")
    node_name = changes.pop("node", "w1")
    conditions = changes.pop("conditions", [{"type": "Ready", "status": str(ready)}])
    container = changes.pop("container", "main")
    assert not changes
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "uid": name},
        "spec": {"nodeName": node_name},
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "containerStatuses": [{"name": container, "ready": ready, "state": state}],
        },
    }


def healthy() -> dict[str, Any]:
    """Everything that :func:`check` takes, of a cluster that is ready. A fresh copy each time."""
    operator = pod("network-operator-1", {"app.kubernetes.io/name": "network-operator"})
    state = {
        "metadata": {"name": "default", "labels": {}},
        "status": {"phase": "Active"},
    }
    return copy.deepcopy(
        {
            "nodes": [node("w1"), node("w2")],
            "pods": [operator, pod("rdma-shared-dp-ds-1", {"app": "rdma-shared-dp"})],
            "policies": fixture("nicclusterpolicy/ready-mixed-ignore.json"),
            "networks": [nad()],
            "ip_pools": [
                {
                    "kind": "IPPool",
                    "metadata": {"name": "rdma-pool", "namespace": "nvidia-network-operator"},
                    "spec": {"subnet": "192.168.4.0/24", "perNodeBlockSize": 50},
                    "status": {"allocations": [{"nodeName": "w1"}, {"nodeName": "w2"}]},
                }
            ],
            "namespace": [state],
            "own_pods": [],
            "gpu_policies": fixture("clusterpolicy/ready-dmabuf.json"),
        }
    )


def answers(
    settings: dict[str, Any], refused: tuple[str, ...] = (), scc: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The answers to the reviews: all allowed but those of the resources ``refused``; no OpenShift, or ``scc``."""
    results = []
    for review in reviews(make_settings(settings)):
        answer = {"item": review, "api_found": False, "msg": "the API server knows no such kind"}
        if review["kind"] == "SelfSubjectAccessReview":
            resource = review["spec"]["resourceAttributes"]["resource"]
            status = {"allowed": resource not in refused}
            answer = {
                "item": review,
                "api_found": True,
                "resource": {**review, "status": status},
            }
        elif scc is not None:
            answer = {"item": review, "api_found": True, **scc}
        results.append(answer)
    return results


def context(reads: dict[str, Any], settings: dict[str, Any] | None = None, **more: Any) -> Context:
    """``reads`` holds lists of objects, or the name of a state (``forbidden``) instead."""
    settings = settings or {}
    outcomes = {
        read_id: (
            {"status": value, "items": [], "message": f"{value} in a test"}
            if isinstance(value, str)
            else {"status": "ok", "items": value, "message": ""}
        )
        for read_id, value in reads.items()
    }
    return Context(
        settings=make_settings(settings),
        reads=outcomes,
        cluster=more.pop("cluster", {"server_version": "v1.34.1"}),
        reviews=more.pop("reviews", answers(settings)),
        **more,
    )


def check(
    reads: dict[str, Any], settings: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """The result of :func:`judge` for these reads."""
    return judge(context(reads, settings, **more))


def entries(result: dict[str, Any], *ids: str) -> list[dict[str, Any]]:
    """The entries of the checks with these ids."""
    return [entry for entry in result["checks"] if entry["id"] in ids]


def codes(result: dict[str, Any], *statuses: str) -> set[str]:
    """The reason codes of all entries with one of these statuses (failed and advice without any)."""
    return {
        e["code"] for e in result["checks"] if e["status"] in (statuses or ("failed", "advice"))
    }
