# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renders the network objects: pools, SR-IOV policies, networks. Pure.

The operators turn each network object into a NetworkAttachmentDefinition of the same name in `networkNamespace`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .deploy_addresses import cni_ipam, ip_pool_spec
from .deploy_types import TYPES

Settings = Mapping[str, Any]
Rail = Mapping[str, Any]
Spec = dict[str, Any]
POOL_CONFIG_NAME = "fabric-rdma-mode"
# Of several policies for one adapter the SR-IOV operator takes the lowest number; the vendor's examples have 90.
_PRIORITY = 90
# Several interfaces in one pod: without this, replies may leave by another rail and ARP is answered on the wrong one
# (README of Mellanox/k8s-rdma-shared-dev-plugin). Needs spec.metaPlugins, which older operators' definitions drop.
_SOURCE_ROUTING = (
    {
        "type": "tuning",
        "sysctl": {
            "net.ipv4.conf.IFNAME.arp_announce": "2",
            "net.ipv4.conf.IFNAME.arp_ignore": "1",
            "net.ipv4.conf.IFNAME.rp_filter": "0",
        },
    },
    {"type": "sbr"},
)


def pools(settings: Settings) -> list[tuple[str, Spec]]:
    """(name, spec) of each IPPool; rails that share a pool give one."""
    return list(
        {
            rail["pool"]["name"]: ip_pool_spec(rail["pool"], settings["node_selector"])
            for rail in settings["rails"]
            if rail["pool"] and rail["pool"]["ipam"] == "nv-ipam"
        }.items()
    )


def network_kind(settings: Settings) -> str:
    """The kind of the network objects, "" where pods get no network."""
    if settings["network_type"] == "sriov":
        return "SriovIBNetwork" if settings["link_layer"] == "infiniband" else "SriovNetwork"
    return {
        "macvlan": "MacvlanNetwork",
        "ipoib": "IPoIBNetwork",
        "host_device": "HostDeviceNetwork",
    }.get(settings["network_type"], "")


def network_spec(rail: Rail, settings: Settings) -> Spec:
    """The spec of the rail's network object."""
    kind = network_kind(settings)
    spec: Spec = {
        "networkNamespace": rail["network_namespace"],
        # compact: the operator takes out all white space anyway
        "ipam": json.dumps(cni_ipam(rail["pool"]), separators=(",", ":")),
    }
    if TYPES[settings["network_type"]].master:
        spec["master"] = rail["interfaces"][0]
    if kind == "MacvlanNetwork":
        spec["mode"] = "bridge"
        if rail["mtu"]:
            spec["mtu"] = rail["mtu"]
    if kind in ("HostDeviceNetwork", "SriovNetwork", "SriovIBNetwork"):
        spec["resourceName"] = rail["resource"]
    if kind == "SriovIBNetwork":
        spec["linkState"] = "enable"
    plugins = _meta_plugins(rail, settings)
    if plugins:
        spec["metaPlugins"] = ",".join(json.dumps(p, separators=(",", ":")) for p in plugins)
    return spec


def _meta_plugins(rail: Rail, settings: Settings) -> list[Mapping[str, Any]]:
    if network_kind(settings) == "IPoIBNetwork":
        return []
    plugins = rail["meta_plugins"]
    if plugins is None:
        several = len(settings["rails"]) > 1 and settings["link_layer"] == "ethernet"
        plugins = list(_SOURCE_ROUTING) if several else []
    if settings["rdma_mode"] == "exclusive" and not any(p["type"] == "rdma" for p in plugins):
        # moves the RDMA device into the pod's namespace; a device that stays outside cannot be opened
        plugins = [{"type": "rdma"}, *plugins]
    return list(plugins)


def sriov_policy_spec(rail: Rail, settings: Settings) -> Spec:
    """The spec of the rail's SriovNetworkNodePolicy."""
    selector: Spec = {"vendor": rail["vendors"][0]}
    if rail["device_ids"]:
        selector["deviceID"] = rail["device_ids"][0]
    if rail["interfaces"]:
        selector["pfNames"] = list(rail["interfaces"])
    if rail["pci_addresses"]:
        selector["rootDevices"] = list(rail["pci_addresses"])
    spec: Spec = {
        "resourceName": rail["resource"],
        "nodeSelector": dict(settings["node_selector"]),
        "nicSelector": selector,
        "numVfs": rail["num_vfs"],
        "priority": _PRIORITY,
        "deviceType": "netdevice",
        "isRdma": True,
        "linkType": "IB" if settings["link_layer"] == "infiniband" else "ETH",
    }
    if rail["mtu"]:
        spec["mtu"] = rail["mtu"]
    return spec


def sriov_pool_config_spec(settings: Settings) -> Spec:
    """The spec of the SriovNetworkPoolConfig that sets the RDMA namespace mode; changing it reboots nodes, one at a time."""
    return {
        "maxUnavailable": 1,
        "nodeSelector": {"matchLabels": dict(settings["node_selector"])},
        "rdmaMode": settings["rdma_mode"],
    }
