# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges secondary networks: NetworkAttachmentDefinitions, address pools, SR-IOV."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping
from typing import Any

from .readiness_findings import Context, Finding, Judgement, meta, names, status_of
from .readiness_nodes import chosen_nodes
from .readiness_settings import Settings

Item = Mapping[str, Any]
Key = tuple[str, str]
_NAD = "NetworkAttachmentDefinition"
_RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
#: CNI types that hand a device of a device plugin to the pod, so the definition must name its resource.
DEVICE_TYPES = {"sriov", "ib-sriov", "ib-sriov-cni", "host-device"}
_POOL_KINDS = {"ippool": "IPPool", "cidrpool": "CIDRPool"}


def network_names(settings: Settings) -> list[Key]:
    """The chosen networks as (namespace, name). Each may be written as Multus takes it: ``[namespace/]name[@if]``."""
    keys = []
    for text in settings.networks:
        namespace, slash, name = text.split("@", 1)[0].rpartition("/")
        keys.append((namespace if slash else settings.namespace, name))
    return keys


def nad_facts(items: Iterable[Item]) -> dict[Key, dict[str, Any]]:
    """What each NetworkAttachmentDefinition says, by (namespace, name).

    ``{error, types, ipam, ipam_kind, pool, resource, on_disk}``: ``error`` tells why the configuration is no
    JSON; ``types`` are the CNI plugins in their order; ``ipam`` is the type of address management, None without;
    ``ipam_kind`` and ``pool`` name the NVIDIA IPAM pool; ``on_disk`` means that the object holds no configuration
    and Multus takes a file of the node instead.
    """
    return {_key(item): _nad_fact(item) for item in items}


def _key(item: Item) -> Key:
    return str(meta(item).get("namespace")), str(meta(item).get("name"))


def _nad_fact(item: Item) -> dict[str, Any]:
    fact: dict[str, Any] = {
        "error": None,
        "types": [],
        "ipam": None,
        "ipam_kind": None,
        "pool": None,
        "resource": (meta(item).get("annotations") or {}).get(_RESOURCE),
        "on_disk": False,
    }
    text = (item.get("spec") or {}).get("config")
    if not text:
        return {**fact, "on_disk": True}
    try:
        config = json.loads(text)
        if not isinstance(config, Mapping):
            raise ValueError("not a JSON object")
        plugins = config.get("plugins") if "plugins" in config else [config]
        if not isinstance(plugins, list) or not all(isinstance(p, Mapping) for p in plugins):
            raise ValueError("'plugins' is not a list of objects")
    except ValueError as error:
        return {**fact, "error": str(error)}
    fact["types"] = [str(plugin.get("type")) for plugin in plugins]
    for plugin in plugins:
        ipam = plugin.get("ipam")
        if isinstance(ipam, Mapping) and ipam.get("type"):
            fact["ipam"] = str(ipam["type"])
            if ipam["type"] == "nv-ipam":
                fact["pool"] = str(ipam.get("poolName") or "")
                pool_type = str(ipam.get("poolType") or "ippool").lower()
                fact["ipam_kind"] = _POOL_KINDS.get(pool_type, "IPPool")
            break
    return fact


def judge_networks(context: Context) -> Judgement:
    """Each chosen network is there, in the namespace where pods look for it, and can be used as it is."""
    if context.status("networks") == "no_kind":
        seen = "the API server does not know the kind NetworkAttachmentDefinition"
        return Judgement([Finding("multus_absent", seen, kind=_NAD)])
    facts = nad_facts(context.items("networks"))
    findings: list[Finding] = []
    evidence = {}
    for key in network_names(context.settings):
        fact = facts.get(key)
        if fact is None:
            findings.append(_missing(key, facts, context))
        else:
            evidence["/".join(key)] = fact
            findings += _judge_definition(key, fact, context.settings)
    seen = "; ".join(
        f"{key}: {' + '.join(fact['types']) or 'configuration on the nodes'}, addresses by {fact['ipam']}"
        for key, fact in evidence.items()
    )
    return Judgement(findings, seen=seen, evidence=evidence)


def _missing(key: Key, facts: Mapping[Key, Any], context: Context) -> Finding:
    namespace, name = key
    where = {"kind": _NAD, "namespace": namespace, "name": name}
    required = f"{name} in namespace {namespace}"
    elsewhere = sorted(other for other, found in facts if found == name)
    if elsewhere:
        seen = f"{name} is in namespace {names(elsewhere)}, not in {namespace}"
        return Finding("nad_elsewhere", seen, required, **where, evidence=elsewhere)
    reasons = [
        f"{item.get('kind')} {name} is {status_of(item).get('state') or 'without status'}"
        + (f": {status_of(item)['reason']}" if status_of(item).get("reason") else "")
        + f" (for namespace {(item.get('spec') or {}).get('networkNamespace') or 'default'})"
        for item in _network_objects(context)
        if meta(item).get("name") == name
    ]
    present = [found for space, found in sorted(facts) if space == namespace]
    seen = f"{name} does not exist in namespace {namespace}"
    seen += f"; there is {names(present)}" if present else ""
    seen += f"; {'; '.join(reasons)}" if reasons else ""
    # an operator that has the network in hand may still bring the definition
    return Finding("nad_missing", seen, required, **where, retry=bool(reasons), evidence=present)


def _network_objects(context: Context) -> list[Item]:
    reads = ("macvlan_networks", "host_device_networks", "ipoib_networks")
    return [
        item
        for read_id in (*reads, "sriov_networks", "sriov_ib_networks")
        for item in context.items(read_id)
    ]


def _judge_definition(key: Key, fact: Mapping[str, Any], settings: Settings) -> list[Finding]:
    where: dict[str, Any] = {"kind": _NAD, "namespace": key[0], "name": key[1]}
    if fact["error"]:
        seen = f"spec.config of {key[1]} is no valid JSON: {fact['error']}"
        return [Finding("nad_broken_json", seen, **where)]
    if fact["on_disk"]:
        seen = f"{key[1]} holds no configuration; Multus takes a file of the same name on each node"
        return [Finding("nad_on_disk", seen, **where, severity="advice")]
    findings = []
    if not fact["ipam"]:
        seen = f"{key[1]} has no address management (ipam)"
        findings.append(Finding("nad_without_ipam", seen, **where))
    if fact["ipam"] == "host-local":
        seen = f"{key[1]} uses host-local on every node"
        findings.append(Finding("ipam_host_local", seen, **where, severity="advice"))
    resource = fact["resource"]
    if resource and resource not in settings.rdma_resources:
        seen = f"{key[1]} is for {resource}; the test pods ask for {names(settings.rdma_resources)}"
        findings.append(Finding("nad_resource_mismatch", seen, resource, **where))
    device_types = sorted(DEVICE_TYPES.intersection(fact["types"]))
    if device_types and not resource:
        seen = f"{key[1]} is of type {names(device_types)} and has no annotation {_RESOURCE}"
        findings.append(Finding("nad_without_resource", seen, **where, severity="advice"))
    return findings


def judge_pools(context: Context) -> Judgement:
    """Every node that takes test pods has a block of addresses in the pool of the network (NVIDIA IPAM)."""
    facts = nad_facts(context.items("networks"))
    wanted = {
        (fact["ipam_kind"], fact["pool"])
        for key in network_names(context.settings)
        if (fact := facts.get(key)) and fact["ipam_kind"]
    }
    if not wanted:
        return Judgement(skipped="no chosen network takes addresses from an NVIDIA IPAM pool")
    pools: dict[tuple[str, str], list[Item]] = {}
    for kind, read_id in (("IPPool", "ip_pools"), ("CIDRPool", "cidr_pools")):
        for item in context.items(read_id):
            pools.setdefault((kind, str(meta(item).get("name"))), []).append(item)
    usable = [node.name for node in chosen_nodes(context) if node.usable]
    findings = []
    for kind, pool in sorted(wanted):
        if (kind, pool) not in pools:
            present = sorted(name for other, name in pools if other == kind)
            seen = f"no {kind} {pool}" + (f"; there is {names(present)}" if present else "")
            findings.append(Finding("ipam_pool_missing", seen, kind=kind, name=pool))
        else:
            findings += judge_pool(pools[kind, pool], usable)
    told = names(f"{kind} {pool}" for kind, pool in sorted(wanted))
    return Judgement(findings, seen=f"{told}: a block for each of {len(usable)} nodes")


def judge_pool(pools: list[Item], nodes: Iterable[str]) -> list[Finding]:
    """The nodes without a block in any of the pools (of one name, in whatever namespaces)."""
    have = {
        allocation.get("nodeName")
        for pool in pools
        for allocation in status_of(pool).get("allocations") or []
    }
    without = tuple(node for node in nodes if node not in have)
    if not without:
        return []
    pool = pools[0]
    spec = pool.get("spec") or {}
    subnet, size = spec.get("subnet"), spec.get("perNodeBlockSize")
    seen = f"{meta(pool).get('name')} has no block for {names(without)}"
    if subnet and size:
        seen += f" (subnet {subnet} in blocks of {size} addresses)"
    return [
        Finding(
            "ipam_node_without_block",
            seen,
            "a block for every node",
            kind=str(pool.get("kind")),
            namespace=meta(pool).get("namespace"),
            name=meta(pool).get("name"),
            nodes=without,
            # a full subnet stays full; otherwise the controller may still be at it
            retry=not all(map(_is_full, pools)),
        )
    ]


def _is_full(pool: Item) -> bool:
    spec = pool.get("spec") or {}
    try:
        addresses = ipaddress.ip_network(str(spec.get("subnet")), strict=False).num_addresses
        size = int(spec.get("perNodeBlockSize") or 0)
    except ValueError:
        return False
    # network and broadcast address are not handed out
    return size > 0 and (addresses - 2) // size <= len(status_of(pool).get("allocations") or [])


def judge_sriov(context: Context) -> Judgement:
    """Where the SR-IOV operator configures nodes: it has finished, and the virtual functions asked for are there."""
    states = context.items("sriov_states")
    configured = [state for state in states if (state.get("spec") or {}).get("interfaces")]
    if not configured:
        return Judgement(skipped="the SR-IOV operator configures no node")
    findings = [finding for state in configured for finding in judge_sriov_state(state)]
    modes = sorted(
        {
            str(mode)
            for state in configured
            if (mode := (status_of(state).get("system") or {}).get("rdmaMode"))
        }
    )
    seen = f"{len(configured)} nodes in sync, RDMA namespace mode {names(modes) or 'not told'}"
    return Judgement(findings, seen=seen, evidence={"rdma_mode": modes})


def judge_sriov_state(state: Item) -> list[Finding]:
    """Judges one SriovNetworkNodeState. ``Succeeded`` alone proves nothing: a policy may have matched no device."""
    node = str(meta(state).get("name"))
    status = status_of(state)
    where: dict[str, Any] = {
        "kind": "SriovNetworkNodeState",
        "namespace": meta(state).get("namespace"),
        "name": node,
        "nodes": (node,),
    }
    sync = status.get("syncStatus")
    if sync == "Failed":
        seen = f"{node}: {status.get('lastSyncError') or 'no message'}"
        return [Finding("sriov_sync_failed", seen, "Succeeded", **where)]
    if sync != "Succeeded":
        seen = f"{node}: syncStatus {sync or 'not set'}"
        return [Finding("sriov_in_progress", seen, "Succeeded", **where)]
    real = {item.get("pciAddress"): item for item in status.get("interfaces") or []}
    findings = []
    for wanted in (state.get("spec") or {}).get("interfaces") or []:
        number = wanted.get("numVfs") or 0
        found = (real.get(wanted.get("pciAddress")) or {}).get("numVfs") or 0
        if found < number:
            seen = f"{node}: {wanted.get('name')} has {found} of {number} virtual functions"
            findings.append(Finding("sriov_vfs_missing", seen, str(number), **where))
    return findings
