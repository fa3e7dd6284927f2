# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renders the spec of the NicClusterPolicy. Pure.

Sources: the custom resource definition; Mellanox/k8s-rdma-shared-dev-plugin README (configList: selectors are all to hold, the values of
one are alternatives); k8snetworkplumbingwg/sriov-network-device-plugin README (resourceList).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .deploy_addresses import match
from .deploy_settings import NFD_LABEL, merge
from .deploy_types import TYPES
from .deploy_versions import COMPONENTS

Settings = Mapping[str, Any]
#: What the device plugins call the link layers, after the kernel's ARPHRD names.
_LINK_TYPES = {"ethernet": "ether", "infiniband": "infiniband"}
#: The shared device plugin's own prefix.
_SHARED_PREFIX = "rdma"


def components(settings: Settings) -> list[str]:
    """The components asked for, names of :data:`deploy_versions.COMPONENTS`, in the order in which they start."""
    kind = TYPES[settings["network_type"]]
    wanted = {
        "driver": settings["driver"],
        kind.plugin: bool(kind.plugin),
        "nv_ipam": settings["ipam"] == "nv-ipam",
        "multus": settings["multus"],
        "cni_plugins": settings["cni_plugins"],
        "ipoib_cni": settings["network_type"] == "ipoib",
    }
    return [name for name in COMPONENTS if wanted.get(name)]


def policy_spec(settings: Settings) -> dict[str, Any]:
    """The spec: the components asked for, then the overrides, merged last."""
    spec: dict[str, Any] = {}
    for name in components(settings):
        section: dict[str, Any] = dict(settings["images"][name])
        if settings["image_pull_secrets"]:
            section["imagePullSecrets"] = list(settings["image_pull_secrets"])
        if name == "rdma_shared_device_plugin":
            section["config"] = json.dumps(_shared_config(settings), indent=2)
        elif name == "sriov_device_plugin":
            section["config"] = json.dumps(_device_config(settings), indent=2)
        elif name == "nv_ipam":
            section["enableWebhook"] = False  # the webhook needs certificates from elsewhere
        _put(spec, COMPONENTS[name].path, section)
    # The operator's DaemonSets select this label themselves; anything else has to be asked for.
    extra = {k: v for k, v in settings["node_selector"].items() if (k, v) != (NFD_LABEL, "true")}
    if extra and spec:
        terms = [{"matchExpressions": match(extra)}]
        spec["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    return merge(spec, settings["nic_cluster_policy_overrides"])


def _put(spec: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        spec = spec.setdefault(key, {})
    spec[path[-1]] = value


def _shared_config(settings: Settings) -> dict[str, Any]:
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for rail in settings["rails"]:
        key = (rail["resource_prefix"], rail["resource"])
        if key not in entries:
            prefix = {} if key[0] == _SHARED_PREFIX else {"resourcePrefix": key[0]}
            entries[key] = {
                **prefix,
                "resourceName": key[1],
                "rdmaHcaMax": settings["rdma_hca_max"],
                "selectors": {},
            }
        selectors = entries[key]["selectors"]
        _add(selectors, "vendors", rail["vendors"])
        _add(selectors, "deviceIDs", rail["device_ids"])
        _add(selectors, "ifNames", rail["interfaces"])
        if not rail["interfaces"]:
            _add(selectors, "linkTypes", [_LINK_TYPES[settings["link_layer"]]])
    return {"configList": list(entries.values())}


def _device_config(settings: Settings) -> dict[str, Any]:
    entries = []
    for rail in settings["rails"]:
        selectors: dict[str, Any] = {}
        _add(selectors, "vendors", rail["vendors"])
        _add(selectors, "devices", rail["device_ids"])
        _add(selectors, "pfNames", rail["interfaces"])
        _add(selectors, "pciAddresses", rail["pci_addresses"])
        if not rail["interfaces"] and not rail["pci_addresses"]:
            _add(selectors, "linkTypes", [_LINK_TYPES[settings["link_layer"]]])
        entries.append(
            {
                "resourcePrefix": rail["resource_prefix"],
                "resourceName": rail["resource"],
                "selectors": {**selectors, "isRdma": True},
            }
        )
    return {"resourceList": entries}


def _add(selectors: dict[str, Any], key: str, values: list[str]) -> None:
    if values:
        have = selectors.setdefault(key, [])
        have += [value for value in values if value not in have]
