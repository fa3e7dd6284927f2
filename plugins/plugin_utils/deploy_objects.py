# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All objects of a deployment, in the order in which they are to be made, and how those of this role are told from others. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import deploy_networks as networks
from .deploy_policy import policy_spec

POLICY_NAME = "nic-cluster-policy"  # the operator ignores any other
LABELS = {"app.kubernetes.io/managed-by": "k8si.fabric", "fabric.k8si.io/part-of": "deploy"}
SELECTOR = [f"{key}={value}" for key, value in LABELS.items()]
MELLANOX = "mellanox.com/v1alpha1"
SRIOV = "sriovnetwork.openshift.io/v1"
NV_IPAM = "nv-ipam.nvidia.com/v1alpha1"
Object = dict[str, Any]
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Kind:
    """api_version, kind; brings: what has to be installed for the API server to know it."""

    api_version: str
    kind: str
    brings: str


_OPERATOR = "NVIDIA Network Operator"
_SRIOV_OPERATOR = "the SR-IOV Network Operator (sriovNetworkOperator.enabled of the chart)"
#: Every kind that this role may make, in the order of making; removal goes backwards.
KINDS = (
    Kind(MELLANOX, "NicClusterPolicy", _OPERATOR),
    Kind(NV_IPAM, "IPPool", "nv-ipam, a component of NVIDIA Network Operator"),
    Kind(SRIOV, "SriovNetworkPoolConfig", _SRIOV_OPERATOR),
    Kind(SRIOV, "SriovNetworkNodePolicy", _SRIOV_OPERATOR),
    Kind(MELLANOX, "MacvlanNetwork", _OPERATOR),
    Kind(MELLANOX, "IPoIBNetwork", _OPERATOR),
    Kind(MELLANOX, "HostDeviceNetwork", _OPERATOR),
    Kind(SRIOV, "SriovNetwork", _SRIOV_OPERATOR),
    Kind(SRIOV, "SriovIBNetwork", _SRIOV_OPERATOR),
)
BY_KIND = {kind.kind: kind for kind in KINDS}


def render(settings: Mapping[str, Any]) -> list[Object]:
    """The objects of the deployment, labelled, in the order of making."""
    out = []
    spec = policy_spec(settings)
    if spec:
        out.append(_object("NicClusterPolicy", POLICY_NAME, "", spec))
    for name, pool in networks.pools(settings):
        # nv-ipam reads pools of its own namespace only
        out.append(_object("IPPool", name, settings["operator_namespace"], pool))
    namespace = settings["sriov_namespace"]
    if settings["rdma_mode"]:
        spec = networks.sriov_pool_config_spec(settings)
        out.append(_object("SriovNetworkPoolConfig", networks.POOL_CONFIG_NAME, namespace, spec))
    if settings["network_type"] == "sriov":
        for rail in settings["rails"]:
            spec = networks.sriov_policy_spec(rail, settings)
            out.append(_object("SriovNetworkNodePolicy", rail["network"], namespace, spec))
    kind = networks.network_kind(settings)
    for rail in settings["rails"] if kind else ():
        where = namespace if kind.startswith("Sriov") else ""
        out.append(_object(kind, rail["network"], where, networks.network_spec(rail, settings)))
    return out


def _object(kind: str, name: str, namespace: str, spec: Mapping[str, Any]) -> Object:
    metadata: dict[str, Any] = {"name": name, "labels": dict(LABELS)}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": BY_KIND[kind].api_version,
        "kind": kind,
        "metadata": metadata,
        "spec": dict(spec),
    }


def is_ours(item: Mapping[str, Any]) -> bool:
    """Whether this role made the object."""
    labels = (item.get("metadata") or {}).get("labels") or {}
    return all(labels.get(key) == value for key, value in LABELS.items())


def key_of(item: Mapping[str, Any]) -> Key:
    """(kind, namespace or "", name)."""
    metadata = item.get("metadata") or {}
    return str(item.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name"))


def told(item: Mapping[str, Any]) -> str:
    """`IPPool nvidia-network-operator/rdma-net-ipam-pool`."""
    kind, namespace, name = key_of(item)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
