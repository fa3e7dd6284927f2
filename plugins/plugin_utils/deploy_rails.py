# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rails of a deployment, from deploy_rails, deploy_networks and deploy_rdma_resources. Pure.

Names have one home for deploy, readiness and tests: fabric_networks and fabric_rdma_resources. A rail may name its network and
resource itself, but not otherwise than those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from . import deploy_addresses as addresses
from .deploy_types import INFINIBAND_MTU, NetworkType
from .values import HEX4, INTERFACE, PCI_ADDRESS, Values

#: What readiness and the tests use when nothing is set.
DEFAULT_NETWORKS = ["rdma-net-ipam"]
DEFAULT_RESOURCES = ["rdma/rdma_shared_device_a"]
MELLANOX = "15b3"
_NETWORK = re.compile(
    r"((?P<namespace>[a-z0-9][-a-z0-9]*)/)?(?P<name>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)(@[A-Za-z0-9_.-]{1,15})?"
)
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# Both device plugins refuse anything else: validResourceName in Mellanox/k8s-rdma-shared-dev-plugin
# pkg/resources/resources_manager.go, and the same in k8snetworkplumbingwg/sriov-network-device-plugin.
_RESOURCE_NAME = re.compile(r"[A-Za-z0-9_]{1,63}")
_KEYS = (
    "network",
    "resource",
    "interfaces",
    "pci_addresses",
    "vendors",
    "device_ids",
    "num_vfs",
    "mtu",
    "meta_plugins",
    *addresses.KEYS,
)
Rail = dict[str, Any]


def read_rails(
    variables: Values,
    kind: str,
    network_type: NetworkType,
    link_layer: str,
    ipam: str,
    namespace: str,
) -> list[Rail]:
    """The rails, checked one by one and against each other.

    Returns:
        [{index, network, network_namespace, resource_prefix, resource, interfaces, pci_addresses, vendors, device_ids, num_vfs,
        mtu (0: not set), meta_plugins (None: not set), pool (None without a network)}]

    Raises:
        ValueError: with a sentence that names the variable, its value and what is allowed.
    """
    given = variables.raw("rails")
    if given in (None, "", []):
        given = [{}]
    if not isinstance(given, list) or not all(isinstance(rail, Mapping) for rail in given):
        raise variables.bad(
            "rails",
            "it must be a list with a dictionary for each rail, for example [{interfaces: ens1f0np0, subnet: 192.168.4.0/24}]",
        )
    networks = _names(variables, "networks", "network", given, kind, network_type)
    resources = _names(variables, "rdma_resources", "resource", given, kind, network_type)
    rails = [
        _rail(index, values, networks, resources, kind, network_type, link_layer, ipam, namespace)
        for index, values in enumerate(given)
    ]
    _check_selectors(rails, network_type)
    _check_names(rails, network_type)
    addresses.check_pools(rails)
    return rails


def _names(
    variables: Values,
    name: str,
    key: str,
    rails: list[Mapping[str, Any]],
    kind: str,
    network_type: NetworkType,
) -> list[str]:
    """The networks or resources of all rails, as readiness and the tests take them: one a rail (resources: or one for all)."""
    shared = f"fabric_{name}"
    own = [rail.get(key) for rail in rails]
    if name == "networks" and not network_type.secondary:
        if variables.raw(name) != [] or any(own):
            raise ValueError(
                f"{shared}={variables.raw(name)!r}: {kind} makes no secondary network; set {shared}: [] so that readiness and"
                f" the tests know it, and give no rail a network"
            )
        return [""] * len(rails)
    texts = variables.texts(name)
    if not texts:
        if all(own):
            return [str(text) for text in own]
        if name == "networks" and variables.raw(name) == []:
            raise ValueError(
                f"{shared}=[]: {kind} makes a network for each rail; name {len(rails)}, or leave {shared} unset"
            )
        if network_type.exclusive and name == "rdma_resources":
            raise ValueError(
                f"{shared} is not set, and readiness and the tests would ask for {DEFAULT_RESOURCES[0]}; set it to what {kind}"
                f" is to serve, for example {shared}: [{network_type.suggested}]"
            )
        texts = DEFAULT_NETWORKS if name == "networks" else DEFAULT_RESOURCES
        if len(rails) > 1:
            raise ValueError(
                f"{shared} is not set, and there are {len(rails)} rails in deploy_rails; name one a rail in {shared}, so that"
                f" deploy, readiness and the tests agree"
            )
    one_for_all = name == "rdma_resources" and len(texts) == 1
    if len(texts) != len(rails) and not one_for_all:
        raise ValueError(
            f"{shared} has {len(texts)} entries ({', '.join(texts)}), deploy_rails has {len(rails)} rails; give one a rail"
        )
    for index, mine in enumerate(own):
        text = texts[0 if one_for_all else index]
        if mine and mine != text:
            raise ValueError(
                f"deploy_rails[{index}].{key}={mine!r}: {shared} names {text!r} for this rail; say it once, in {shared}"
            )
    return texts * len(rails) if one_for_all else texts


def _rail(
    index: int,
    values: Mapping[str, Any],
    networks: list[str],
    resources: list[str],
    kind: str,
    network_type: NetworkType,
    link_layer: str,
    ipam: str,
    namespace: str,
) -> Rail:
    rail = Values(values, f"deploy_rails[{index}].")
    rail.refuse_unknown(_KEYS)
    out: Rail = {"index": index, "network": "", "network_namespace": "", "pool": None}
    if network_type.secondary:
        found = _NETWORK.fullmatch(networks[index])
        if not found or len(found["name"]) > 63:
            raise ValueError(
                f"fabric_networks[{index}]={networks[index]!r}: it must be name, namespace/name or name@interface, of lower-case"
                " letters, digits, hyphens and dots"
            )
        out["network"], out["network_namespace"] = found["name"], found["namespace"] or namespace
        out["pool"] = addresses.read_pool(rail, ipam, out["network"])
    else:
        for key in addresses.KEYS:
            if rail.given(key):
                raise rail.bad(key, f"{kind} makes no secondary network, so there are no addresses")
    out["resource_prefix"], out["resource"] = _resource(index, resources[index], kind)
    out |= _selectors(rail, kind, network_type, link_layer)
    out["num_vfs"] = _num_vfs(rail, kind)
    out["mtu"] = _mtu(rail, kind, network_type, link_layer)
    out["meta_plugins"] = _meta_plugins(rail, kind)
    return out


def _resource(index: int, text: str, kind: str) -> tuple[str, str]:
    what = f"fabric_rdma_resources[{index}]={text!r}"
    prefix, slash, name = text.partition("/")
    if not slash or not _PREFIX.fullmatch(prefix) or not _RESOURCE_NAME.fullmatch(name):
        raise ValueError(
            f"{what}: it must be prefix/name, the prefix a DNS name and the name of letters, digits and underscores (the device"
            f" plugins refuse anything else), for example rdma/rdma_shared_device_a"
        )
    if kind == "host_device" and prefix != "nvidia.com":
        raise ValueError(
            f"{what}: the operator gives a HostDeviceNetwork's resource the prefix nvidia.com; use nvidia.com/{name}"
        )
    return prefix, name


def _selectors(
    rail: Values, kind: str, network_type: NetworkType, link_layer: str
) -> dict[str, Any]:
    if rail.given("pci_addresses") and "pci_addresses" not in network_type.selectors:
        raise rail.bad(
            "pci_addresses",
            f"the RDMA shared device plugin, which {kind} uses, cannot select by PCI address; use interfaces or device_ids",
        )
    interfaces = rail.texts(
        "interfaces", INTERFACE, "the name of an interface, at most 15 characters"
    )
    if network_type.master and len(interfaces) != 1:
        raise rail.bad(
            "interfaces",
            f"{kind} needs exactly one interface of the nodes for each rail, for example"
            f" {'ens1f0np0' if link_layer == 'ethernet' else 'ibs1f0'}",
        )
    for name in interfaces:
        # systemd's predictable names: en… and eth… for Ethernet, ib… for InfiniBand
        if link_layer == "ethernet" and name.startswith("ib"):
            advice = (
                "a macvlan cannot be made on InfiniBand; use ipoib, host_device, sriov or ib_shared"
                if kind == "macvlan"
                else "set deploy_link_layer: infiniband"
            )
            raise rail.bad("interfaces", f"{name} is an InfiniBand interface by its name: {advice}")
        if link_layer == "infiniband" and re.match(r"en[opsx]|eth[0-9]", name):
            advice = (
                "set deploy_link_layer: ethernet"
                if "ethernet" in network_type.link_layers
                else f"{kind} needs InfiniBand; use macvlan, host_device or sriov"
            )
            raise rail.bad("interfaces", f"{name} is an Ethernet interface by its name: {advice}")
    form = "four lower-case hexadecimal digits"
    return {
        "interfaces": interfaces,
        "pci_addresses": rail.texts(
            "pci_addresses", PCI_ADDRESS, "a PCI address like 0000:1a:00.0, in lower case"
        ),
        "vendors": rail.texts("vendors", HEX4, form) or [MELLANOX],
        "device_ids": rail.texts("device_ids", HEX4, form),
    }


def _num_vfs(rail: Values, kind: str) -> int:
    if kind != "sriov":
        if rail.given("num_vfs"):
            raise rail.bad("num_vfs", f"{kind} makes no virtual functions; sriov does")
        return 0
    return rail.integer("num_vfs", 1, 256) if rail.given("num_vfs") else 8


def _mtu(rail: Values, kind: str, network_type: NetworkType, link_layer: str) -> int:
    if not rail.given("mtu"):
        return 0
    if not network_type.mtu:
        raise rail.bad(
            "mtu", f"the network object of {kind} has no MTU; set it on the interfaces of the nodes"
        )
    low, high = INFINIBAND_MTU if link_layer == "infiniband" else network_type.mtu
    return rail.integer("mtu", low, high)


def _meta_plugins(rail: Values, kind: str) -> list[dict[str, Any]] | None:
    value = rail.raw("meta_plugins")
    if value is None:
        return None
    if kind in ("ipoib", "ib_shared"):
        raise rail.bad("meta_plugins", f"the network object of {kind} takes none")
    if not isinstance(value, list) or not all(
        isinstance(p, Mapping) and isinstance(p.get("type"), str) for p in value
    ):
        raise rail.bad(
            "meta_plugins", "it must be a list of CNI plugins, each a dictionary with type"
        )
    return [dict(plugin) for plugin in value]


def _check_names(rails: list[Rail], network_type: NetworkType) -> None:
    seen: dict[str, int] = {}
    for rail in rails:
        if rail["network"] in seen and rail["network"]:
            raise ValueError(
                f"fabric_networks[{rail['index']}]={rail['network']!r}: rail {seen[rail['network']]} has the same name; the network"
                " objects of the operator have no namespace, so names must differ"
            )
        seen[rail["network"]] = rail["index"]
    if network_type.exclusive:
        resources: dict[tuple[str, str], int] = {}
        for rail in rails:
            key = (rail["resource_prefix"], rail["resource"])
            if key in resources:
                raise ValueError(
                    f"fabric_rdma_resources[{rail['index']}]={'/'.join(key)!r}: rail {resources[key]} has the same resource; each"
                    " rail needs its own, or nothing tells which device goes to which network"
                )
            resources[key] = rail["index"]


def _check_selectors(rails: list[Rail], network_type: NetworkType) -> None:
    for key in ("interfaces", "pci_addresses"):
        owner: dict[str, int] = {}
        for rail in rails:
            for value in rail[key]:
                if value in owner:
                    raise ValueError(
                        f"deploy_rails[{rail['index']}].{key}={rail[key]!r}: rail {owner[value]} has {value} too"
                    )
                owner[value] = rail["index"]
    narrow = [key for key in network_type.selectors if key != "vendors"]
    for rail in rails:
        if len(rails) > 1 and not any(rail[key] for key in narrow):
            raise ValueError(
                f"deploy_rails[{rail['index']}] selects every adapter of vendor {', '.join(rail['vendors'])}, and there are"
                f" {len(rails)} rails; give each rail {' or '.join(narrow)}"
            )
        if not network_type.plugin:
            for key in ("vendors", "device_ids"):
                if len(rail[key]) > 1:
                    raise ValueError(
                        f"deploy_rails[{rail['index']}].{key}={rail[key]!r}: a SriovNetworkNodePolicy selects by one; make it one"
                    )
    if not network_type.exclusive:
        _check_shared(rails)


def _check_shared(rails: list[Rail]) -> None:
    """Rails with one resource become one entry of the shared device plugin, whose selectors all have to hold at once."""
    ways: dict[tuple[str, str], tuple[int, list[str]]] = {}
    for rail in rails:
        used = [key for key in ("interfaces", "device_ids") if rail[key]]
        first, expected = ways.setdefault(
            (rail["resource_prefix"], rail["resource"]), (rail["index"], used)
        )
        if used != expected:
            raise ValueError(
                f"deploy_rails[{rail['index']}] selects by {' and '.join(used)}, rail {first} by {' and '.join(expected)}, and both"
                f" have the resource {rail['resource_prefix']}/{rail['resource']}; select the same way, or name two resources"
            )
