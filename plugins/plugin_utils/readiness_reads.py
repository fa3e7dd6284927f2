# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which resources readiness reads, each kind once, and what came of each read.

A read is a plain dict that the role hands to ``kubernetes.core.k8s_info``:
``{id, api_version, kind, namespace, name, label_selectors, hidden_fields}``.
What came of it is ``{status, items, message}`` with one of these states:

========== =====================================================================================
ok         read; ``items`` may be empty
no_kind    the API server does not know the kind: the CustomResourceDefinition is not installed
forbidden  refused by RBAC
failed     anything else; ``message`` has the words of the client
========== =====================================================================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .readiness_networks import nad_facts, network_names
from .readiness_operator import OPERATOR_LABEL_SELECTORS, is_operator_pod
from .readiness_settings import OWN_LABEL, Settings

Read = dict[str, Any]
Seen = Mapping[str, Mapping[str, Any]]

#: Fields that are large and that no check looks at.
_BULK = ["metadata.managedFields"]
_NODE_BULK = [*_BULK, "metadata.annotations", "status.images", "status.volumesInUse"]
_NODE_BULK += ["status.volumesAttached", "status.features", "status.runtimeHandlers"]
_POD_BULK = [*_BULK, "metadata.annotations", "spec.containers", "spec.initContainers"]
_POD_BULK += ["spec.volumes", "spec.tolerations", "spec.affinity"]
_SECRET_BULK = [*_BULK, "metadata.annotations", "data", "stringData"]

#: Kinds that belong to optional parts of a cluster: read only where the API server knows them.
_OPTIONAL = {
    "node_policies": ("mellanox.com/v1alpha1", "NicNodePolicy"),
    "nic_devices": ("configuration.net.nvidia.com/v1alpha1", "NicDevice"),
    "sriov_states": ("sriovnetwork.openshift.io/v1", "SriovNetworkNodeState"),
}
#: Kinds out of which the operators make a NetworkAttachmentDefinition; read only to explain a missing one.
NETWORK_KINDS = {
    "macvlan_networks": ("mellanox.com/v1alpha1", "MacvlanNetwork"),
    "host_device_networks": ("mellanox.com/v1alpha1", "HostDeviceNetwork"),
    "ipoib_networks": ("mellanox.com/v1alpha1", "IPoIBNetwork"),
    "sriov_networks": ("sriovnetwork.openshift.io/v1", "SriovNetwork"),
    "sriov_ib_networks": ("sriovnetwork.openshift.io/v1", "SriovIBNetwork"),
}


def plan_reads(settings: Settings, apis: Mapping[str, Any] | None, seen: Seen) -> list[Read]:
    """The reads that are due now: those that the settings and what was seen so far ask for, less those in ``seen``.

    ``apis`` is what ``kubernetes.core.k8s_cluster_info`` found (group/version → kind → …), or None when it is not
    known. Call it, read, and call it again until it returns nothing: some reads follow from others.
    """
    wanted = [*_base_reads(settings, apis), *_following_reads(settings, apis, seen)]
    wanted += extra_reads(settings)
    return [read for read in wanted if read["id"] not in seen]


def _base_reads(settings: Settings, apis: Mapping[str, Any] | None) -> list[Read]:
    reads = [
        _read("nodes", "v1", "Node", hidden=_NODE_BULK),
        _read("pods", "v1", "Pod", settings.operator_namespace, hidden=_POD_BULK),
        _read("policies", "mellanox.com/v1alpha1", "NicClusterPolicy"),
        _read("networks", "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"),
        _read("namespace", "v1", "Namespace", name=settings.namespace),
        _read("own_pods", "v1", "Pod", settings.namespace, labels=[OWN_LABEL], hidden=_POD_BULK),
    ]
    if settings.wants_gpu:
        reads.append(_read("gpu_policies", "nvidia.com/v1", "ClusterPolicy"))
    reads += [
        _read(f"secret:{name}", "v1", "Secret", settings.namespace, name, hidden=_SECRET_BULK)
        for name in settings.image_pull_secrets
    ]
    reads += [
        _read(read_id, api_version, kind)
        for read_id, (api_version, kind) in _OPTIONAL.items()
        if knows_kind(apis, api_version, kind)
    ]
    return reads


def _following_reads(
    settings: Settings, apis: Mapping[str, Any] | None, seen: Seen
) -> Iterable[Read]:
    if _status(seen, "pods") == "ok" and not any(map(is_operator_pod, _items(seen, "pods"))):
        for number, selector in enumerate(OPERATOR_LABEL_SELECTORS):
            yield _read(
                f"operator_elsewhere_{number}", "v1", "Pod", labels=[selector], hidden=_POD_BULK
            )
    if _status(seen, "networks") == "ok":
        facts = nad_facts(_items(seen, "networks"))
        chosen = [facts.get(key) for key in network_names(settings)]
        kinds = {fact["ipam_kind"] for fact in chosen if fact}
        if "IPPool" in kinds:
            yield _read("ip_pools", "nv-ipam.nvidia.com/v1alpha1", "IPPool")
        if "CIDRPool" in kinds:
            yield _read("cidr_pools", "nv-ipam.nvidia.com/v1alpha1", "CIDRPool")
        if None in chosen:
            for read_id, (api_version, kind) in NETWORK_KINDS.items():
                if knows_kind(apis, api_version, kind):
                    yield _read(read_id, api_version, kind)
    if any(_wants_peermem(policy) for policy in _items(seen, "gpu_policies")):
        yield _read(
            "driver_pods", "v1", "Pod", labels=["app=nvidia-driver-daemonset"], hidden=_POD_BULK
        )


def _wants_peermem(policy: Mapping[str, Any]) -> bool:
    driver = (policy.get("spec") or {}).get("driver") or {}
    return bool(driver.get("enabled", True) and (driver.get("rdma") or {}).get("enabled"))


def extra_reads(settings: Settings) -> list[Read]:
    """The reads of the user's own checks; two checks of the same resource share one read."""
    reads: dict[str, Read] = {}
    for check in settings.extra_checks:
        resource = check.get("resource")
        if isinstance(resource, Mapping):
            read_id = extra_read_id(resource)
            labels = resource.get("label_selectors") or []
            reads[read_id] = _read(
                read_id,
                str(resource.get("api_version", "v1")),
                str(resource.get("kind", "")),
                resource.get("namespace"),
                resource.get("name"),
                labels=[labels] if isinstance(labels, str) else list(labels),
            )
    return list(reads.values())


def extra_read_id(resource: Mapping[str, Any]) -> str:
    """The id of the read of a user's resource: the same resource has the same id."""
    keys = ("api_version", "kind", "namespace", "name", "label_selectors")
    return "extra:" + json.dumps([resource.get(key) for key in keys])


def _read(
    read_id: str,
    api_version: str,
    kind: str,
    namespace: str | None = None,
    name: str | None = None,
    labels: list[str] | None = None,
    hidden: list[str] | None = None,
) -> Read:
    return {
        "id": read_id,
        "api_version": api_version,
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "label_selectors": labels or [],
        "hidden_fields": hidden or _BULK,
    }


def knows_kind(apis: Mapping[str, Any] | None, api_version: str, kind: str) -> bool:
    """Whether the API server serves the kind; unknown (no list of APIs) counts as no."""
    return bool(apis) and kind in ((apis or {}).get(api_version) or {})


def _status(seen: Seen, read_id: str) -> str:
    return str((seen.get(read_id) or {}).get("status", "not_read"))


def _items(seen: Seen, read_id: str) -> list[Mapping[str, Any]]:
    return list((seen.get(read_id) or {}).get("items") or [])


_FORBIDDEN = re.compile(r"\b403\b|[Ff]orbidden")


def read_outcomes(results: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What a loop of ``kubernetes.core.k8s_info`` over reads registered, as id → ``{status, items, message}``."""
    return {result["item"]["id"]: _outcome(result) for result in results if "item" in result}


def _outcome(result: Mapping[str, Any]) -> dict[str, Any]:
    message = str(result.get("msg") or result.get("exception") or "")
    if "resources" in result:
        if result.get("api_found") is False:
            return {"status": "no_kind", "items": [], "message": message}
        return {"status": "ok", "items": list(result["resources"] or []), "message": ""}
    status = "forbidden" if _FORBIDDEN.search(message) else "failed"
    return {"status": status, "items": [], "message": message}
