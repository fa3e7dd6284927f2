# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which resources readiness reads, each kind once, and what came of each read.

A read is a plain dict that the role hands to ``k8si.fabric.k8s_read``:
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

from .readiness_networks import DEVICE_TYPES, nad_facts, network_names
from .readiness_operator import OPERATOR_LABEL_SELECTORS, is_operator_pod
from .readiness_plain import plain
from .readiness_settings import OWN_LABEL, Settings
from .readiness_slim import slim

#: Pods of the GPU driver that the GPU Operator deploys.
DRIVER_LABEL = "app=nvidia-driver-daemonset"
_EXTRA = "extra:"
_DEVICE_PLUGINS = ("state-RDMA-device-plugin", "state-SRIOV-device-plugin")

Read = dict[str, Any]
Seen = Mapping[str, Mapping[str, Any]]

#: Fields that are large and that no check looks at.
_BULK = ["metadata.managedFields"]
_NODE_BULK = [*_BULK, "metadata.annotations", "status.images", "status.volumesInUse"]
_NODE_BULK += ["status.volumesAttached", "status.features", "status.runtimeHandlers"]
_POD_BULK = [*_BULK, "metadata.annotations", "spec.containers", "spec.initContainers"]
_POD_BULK += ["spec.volumes", "spec.tolerations", "spec.affinity"]
_SECRET_BULK = [*_BULK, "metadata.annotations", "data", "stringData"]

#: A label that pods of Deployments have and those of DaemonSets have not. A large cluster has thousands of the latter,
#: and the policy's state covers them: they are read only to say which of them keep it from being ready.
_OF_DEPLOYMENTS = "pod-template-hash"
#: Kinds out of which the operators make a NetworkAttachmentDefinition; read only to explain a missing one.
NETWORK_KINDS = {
    "macvlan_networks": ("mellanox.com/v1alpha1", "MacvlanNetwork"),
    "host_device_networks": ("mellanox.com/v1alpha1", "HostDeviceNetwork"),
    "ipoib_networks": ("mellanox.com/v1alpha1", "IPoIBNetwork"),
    "sriov_networks": ("sriovnetwork.openshift.io/v1", "SriovNetwork"),
    "sriov_ib_networks": ("sriovnetwork.openshift.io/v1", "SriovIBNetwork"),
}


def plan_reads(settings: Settings, seen: Seen) -> list[Read]:
    """The reads that are due now: those that the settings and what was seen so far ask for, less those in ``seen``.

    Call it, read, and call it again until nothing is due: some reads follow from what others brought. Address pools and
    the pods of the GPU driver are mostly needed, so they are read at once.
    """
    wanted = [*_base_reads(settings), *_following_reads(settings, seen), *extra_reads(settings)]
    if not seen:
        wanted += _likely_reads(settings)
    return [
        read for read in {read["id"]: read for read in wanted}.values() if read["id"] not in seen
    ]


def that_count(settings: Settings, seen: Seen) -> dict[str, Mapping[str, Any]]:
    """What was seen, less what was read in vain: whether that was allowed does not matter."""
    needed = {read["id"] for read in _following_reads(settings, seen)}
    in_vain = {read["id"] for read in _likely_reads(settings)} - needed
    return {read_id: outcome for read_id, outcome in seen.items() if read_id not in in_vain}


def _base_reads(settings: Settings) -> list[Read]:
    namespace = settings.operator_namespace
    reads = [
        _read("nodes", "v1", "Node", hidden=_NODE_BULK),
        _read("policies", "mellanox.com/v1alpha1", "NicClusterPolicy"),
        _read("networks", "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"),
        _read("namespace", "v1", "Namespace", name=settings.namespace),
        _read("pods", "v1", "Pod", namespace, labels=[_OF_DEPLOYMENTS], hidden=_POD_BULK),
        _read("own_pods", "v1", "Pod", settings.namespace, labels=[OWN_LABEL], hidden=_POD_BULK),
    ]
    if settings.wants_gpu:
        reads.append(_read("gpu_policies", "nvidia.com/v1", "ClusterPolicy"))
    reads += [
        _read(f"secret:{name}", "v1", "Secret", settings.namespace, name, hidden=_SECRET_BULK)
        for name in settings.image_pull_secrets
    ]
    return reads


def _likely_reads(settings: Settings) -> list[Read]:
    """Reads that mostly follow; made at once they spare a second task."""
    pools = [_POOL_READS[kind] for kind in sorted(_POOL_READS)]
    return [*pools, _DRIVER_PODS] if settings.wants_gpu else pools


def _following_reads(settings: Settings, seen: Seen) -> Iterable[Read]:
    if "policies" in seen:
        yield from _pod_reads(settings, seen)
    if _status(seen, "policies") == "ok" and not _serves_devices(_items(seen, "policies")):
        yield _read("node_policies", "mellanox.com/v1alpha1", "NicNodePolicy")
    if any(_configures_adapters(policy) for policy in _items(seen, "policies")):
        yield _read("nic_devices", "configuration.net.nvidia.com/v1alpha1", "NicDevice")
    if _status(seen, "networks") == "ok":
        yield from _network_reads(settings, _items(seen, "networks"))


def _pod_reads(settings: Settings, seen: Seen) -> Iterable[Read]:
    if not _ready(_items(seen, "policies")):
        namespace, labels = settings.operator_namespace, [f"!{_OF_DEPLOYMENTS}"]
        yield _read("daemon_pods", "v1", "Pod", namespace, labels=labels, hidden=_POD_BULK)
    if any(_wants_peermem(policy) for policy in _items(seen, "gpu_policies")):
        yield _DRIVER_PODS
    if _status(seen, "pods") == "ok" and not any(map(is_operator_pod, _items(seen, "pods"))):
        for number, selector in enumerate(OPERATOR_LABEL_SELECTORS):
            yield _read(
                f"operator_elsewhere_{number}", "v1", "Pod", labels=[selector], hidden=_POD_BULK
            )


def _serves_devices(policies: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a policy of the cluster is ready and has a device plugin; if not, policies of nodes may have one."""
    return any(
        status.get("state") == "ready"
        and any(
            state.get("name") in _DEVICE_PLUGINS and state.get("state") == "ready"
            for state in status.get("appliedStates") or []
        )
        for policy in policies
        if (status := policy.get("status") or {})
    )


def _ready(policies: Iterable[Mapping[str, Any]]) -> bool:
    return any((policy.get("status") or {}).get("state") == "ready" for policy in policies)


def _configures_adapters(policy: Mapping[str, Any]) -> bool:
    return bool((policy.get("spec") or {}).get("nicConfigurationOperator"))


def _network_reads(settings: Settings, networks: list[Mapping[str, Any]]) -> Iterable[Read]:
    facts = nad_facts(networks)
    chosen = [facts.get(key) for key in network_names(settings)]
    kinds = {fact["ipam_kind"] for fact in chosen if fact}
    yield from (read for kind, read in _POOL_READS.items() if kind in kinds)
    if any(fact is None or DEVICE_TYPES.intersection(fact["types"]) for fact in chosen):
        yield _read("sriov_states", "sriovnetwork.openshift.io/v1", "SriovNetworkNodeState")
    if None in chosen:
        for read_id, (api_version, kind) in NETWORK_KINDS.items():
            yield _read(read_id, api_version, kind)


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
    return _EXTRA + json.dumps([resource.get(key) for key in keys])


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


_DRIVER_PODS = _read("driver_pods", "v1", "Pod", labels=[DRIVER_LABEL], hidden=_POD_BULK)
#: The lists of address pools, by the kind that a network names.
_POOL_READS = {
    "IPPool": _read("ip_pools", "nv-ipam.nvidia.com/v1alpha1", "IPPool"),
    "CIDRPool": _read("cidr_pools", "nv-ipam.nvidia.com/v1alpha1", "CIDRPool"),
}


def _status(seen: Seen, read_id: str) -> str:
    return str((seen.get(read_id) or {}).get("status", "not_read"))


def _items(seen: Seen, read_id: str) -> list[Mapping[str, Any]]:
    return list((seen.get(read_id) or {}).get("items") or [])


_FORBIDDEN = re.compile(r"\b403\b|[Ff]orbidden")


def read_outcomes(results: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What ``k8si.fabric.k8s_read`` returned, as id → ``{status, items, message}``.

    Nodes and pods come cut down (``readiness_slim``), except those that the user's own checks read.
    """
    return {result["item"]["id"]: _outcome(result) for result in results if "item" in result}


def _outcome(result: Mapping[str, Any]) -> dict[str, Any]:
    read = result["item"]
    message = str(result.get("msg") or result.get("exception") or "")
    if "resources" in result:
        if result.get("api_found") is False:
            return {"status": "no_kind", "items": [], "message": message}
        items = result["resources"] or []
        # the user's expressions see whole objects
        if not read["id"].startswith(_EXTRA):
            items = slim(str(read.get("kind")), items)
        return {"status": "ok", "items": plain(items), "message": ""}
    status = "forbidden" if _FORBIDDEN.search(message) else "failed"
    return {"status": status, "items": [], "message": message}
