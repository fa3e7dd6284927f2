# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment will do to a cluster: which objects are made, changed, taken over, removed, and what stands in the way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import deploy_addresses as addresses
from .deploy_objects import BY_KIND, KINDS, NV_IPAM, SRIOV, Object, is_ours, key_of, render, told

Settings = Mapping[str, Any]


def reads(settings: Settings) -> list[dict[str, str]]:
    """What is to be read before anything is decided: [{api_version, kind, namespace}], namespace "" for everywhere.

    IPPools everywhere, because those of others must not overlap; the SR-IOV kinds only where the operator looks for them.
    """
    out = [
        {
            "api_version": kind.api_version,
            "kind": kind.kind,
            "namespace": settings["sriov_namespace"] if kind.api_version == SRIOV else "",
        }
        for kind in KINDS
    ]
    if settings["state"] == "present":
        for api_version, kind in (("v1", "Node"), ("v1", "Namespace"), (NV_IPAM, "CIDRPool")):
            out.append({"api_version": api_version, "kind": kind, "namespace": ""})
    return out


def cluster_of(reads: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """`{kind: {known, items}}` from the results of a loop over kinds with kubernetes.core.k8s_info.

    Each read is {item: {kind, …}, api_found, resources}. A kind that the API server does not know has `known` false.
    """
    return {
        read["item"]["kind"]: {
            "known": bool(read.get("api_found", True)),
            "items": list(read.get("resources") or []),
        }
        for read in reads
    }


def plan(
    settings: Settings, reads: Iterable[Mapping[str, Any]], check_mode: bool = False
) -> dict[str, Any]:
    """Compares the deployment with the cluster.

    Args:
        settings: from :func:`deploy_settings.make_settings`.
        reads: results of reading what :func:`reads` names.
        check_mode: nothing is made, so an operator that would be installed is not there yet, and that is no problem.

    Returns:
        {objects: [{definition, action, known, told}], stale: [definition], problems: [sentence], nodes: count}. An action is `create`,
        `update` or `adopt` (somebody else's object, of which only the sections rendered here are changed); `known` tells whether
        the API server knows the kind. With problems, nothing must be sent.
    """
    cluster = cluster_of(reads)
    problems = []
    desired = render(settings)
    if not (check_mode and settings["operator"]["install"]):
        problems += _missing_kinds(desired, cluster)
    nodes = [
        node for node in _items(cluster, "Node") if _has_labels(node, settings["node_selector"])
    ]
    problems += _address_problems(settings, desired, cluster, len(nodes))
    problems += _namespace_problems(settings, cluster)
    present = {key_of(item): item for kind in KINDS for item in _items(cluster, kind.kind)}
    objects = []
    for definition in desired:
        item = present.get(key_of(definition))
        if item is None:
            action = "create"
        elif is_ours(item):
            action = "update"
        else:
            action = "adopt"
            definition = _without_labels(definition)
            if not settings["adopt"]:
                problems.append(_foreign(item, definition))
        known = cluster.get(definition["kind"], {}).get("known", True)
        objects.append(
            {"definition": definition, "action": action, "known": known, "told": told(definition)}
        )
    wanted = {key_of(definition) for definition in desired}
    stale = [item for key, item in present.items() if is_ours(item) and key not in wanted]
    return {
        "objects": objects,
        "stale": removal(stale),
        "problems": problems,
        "nodes": len(nodes),
    }


def ours(reads: Iterable[Mapping[str, Any]]) -> list[Object]:
    """What is to be removed: every object that carries this role's labels, in the order of removal."""
    cluster = cluster_of(reads)
    return removal(item for kind in KINDS for item in _items(cluster, kind.kind) if is_ours(item))


def removal(items: Iterable[Mapping[str, Any]]) -> list[Object]:
    """What kubernetes.core.k8s needs to delete the items, networks first and the policy last."""
    order = [kind.kind for kind in KINDS]
    listed = sorted(items, key=lambda item: order.index(str(item["kind"])), reverse=True)
    return [
        {
            "apiVersion": item["apiVersion"],
            "kind": item["kind"],
            "metadata": {
                key: item["metadata"][key]
                for key in ("name", "namespace")
                if item["metadata"].get(key)
            },
        }
        for item in listed
    ]


def dropped(sent: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
    """Fields of the spec that the API server did not keep, because the operator's definition of the kind is older."""
    return _dropped(sent.get("spec") or {}, kept.get("spec") or {}, "spec")


def _dropped(sent: Mapping[str, Any], kept: Mapping[str, Any], where: str) -> list[str]:
    out = []
    for key, value in sent.items():
        if key not in kept:
            out.append(f"{where}.{key}")
        elif isinstance(value, Mapping) and isinstance(kept[key], Mapping):
            out += _dropped(value, kept[key], f"{where}.{key}")
    return out


def _items(cluster: Mapping[str, Mapping[str, Any]], kind: str) -> list[Object]:
    """With kind and apiVersion, which some servers leave out in lists."""
    api_version = BY_KIND[kind].api_version if kind in BY_KIND else None
    return [
        {"kind": kind, **({"apiVersion": api_version} if api_version else {}), **item}
        for item in cluster.get(kind, {}).get("items", [])
    ]


def _has_labels(item: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    labels = item["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in wanted.items())


def _missing_kinds(desired: Iterable[Object], cluster: Mapping[str, Any]) -> list[str]:
    """nv-ipam brings its own kinds when the policy is applied, so those may come later."""
    later = {"IPPool"} if any(d["kind"] == "NicClusterPolicy" for d in desired) else set()
    missing: dict[str, list[str]] = {}
    for kind in dict.fromkeys(d["kind"] for d in desired):
        if not cluster.get(kind, {"known": True})["known"] and kind not in later:
            missing.setdefault(BY_KIND[kind].brings, []).append(kind)
    return [
        f"the API server does not know {', '.join(kinds)}: {brings} is not installed; install it, or set"
        f" deploy_install_operator: true"
        for brings, kinds in missing.items()
    ]


def _namespace_problems(settings: Settings, cluster: Mapping[str, Any]) -> list[str]:
    names = {item["metadata"]["name"] for item in _items(cluster, "Namespace")}
    rails = settings["rails"]
    wanted = dict.fromkeys(rail["network_namespace"] for rail in rails if rail["network"])
    return [
        f"fabric_namespace={name!r}: there is no such namespace, so the network could not be made there; create it, or name"
        f" another"
        for name in wanted
        if name not in names
    ]


def _address_problems(
    settings: Settings, desired: Iterable[Object], cluster: Mapping[str, Any], nodes: int
) -> list[str]:
    names = {key_of(d) for d in desired if d["kind"] == "IPPool"}
    taken = []
    for kind, field in (("IPPool", "subnet"), ("CIDRPool", "cidr")):
        for item in _items(cluster, kind):
            # what this role made of another name is stale and goes
            if key_of(item) not in names and not is_ours(item):
                taken.append((told(item), str((item.get("spec") or {}).get(field))))
    for node in _items(cluster, "Node"):
        name = node["metadata"]["name"]
        spec = node.get("spec") or {}
        for cidr in spec.get("podCIDRs") or [spec.get("podCIDR")]:
            taken.append((f"the pod network of node {name}", str(cidr)))
        for address in (node.get("status") or {}).get("addresses") or []:
            if address.get("type") == "InternalIP":
                host = 128 if ":" in str(address.get("address")) else 32
                taken.append((f"the address of node {name}", f"{address.get('address')}/{host}"))
    problems = [p for rail in settings["rails"] if (p := addresses.conflict(rail, taken))]
    if nodes > settings["minimum_nodes"]:
        try:
            addresses.check_sizes(
                settings["rails"], nodes, f"{nodes} nodes match deploy_node_selector"
            )
        except ValueError as error:
            problems.append(str(error))
    return problems


def _without_labels(definition: Object) -> Object:
    metadata = {k: v for k, v in definition["metadata"].items() if k != "labels"}
    return {**definition, "metadata": metadata}


def _foreign(item: Object, definition: Object) -> str:
    there = ", ".join(sorted(item.get("spec") or {})) or "nothing"
    mine = ", ".join(sorted(definition["spec"]))
    return (
        f"{told(item)} exists and was not made by this role, so it is left as it is (it holds {there}). To let the role set"
        f" {mine} in it and leave the rest alone, set deploy_adopt: true; --check --diff shows what would change"
    )
