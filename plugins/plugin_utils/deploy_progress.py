# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the operators are with what was deployed: what is ready, and in which words that which is not is told. Pure.

Sources: Mellanox/network-operator api/v1alpha1/nicclusterpolicy_types.go, pkg/state/manager.go (a policy is ready when no component is notReady
or in error; entries of components that are not asked for stay `ignore` or stale); SriovNetworkNodeState.status.syncStatus of the SR-IOV
operator; IPPool.status.allocations of nv-ipam.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .deploy_networks import network_kind, pools
from .deploy_objects import BY_KIND, MELLANOX, NV_IPAM, POLICY_NAME, SRIOV
from .deploy_policy import components
from .deploy_versions import COMPONENTS

Item = Mapping[str, Any]
Settings = Mapping[str, Any]
# Before operator 26.7 the status does not say which generation it describes. Until the operator has written something
# since the last change, or this time has passed, a `ready` may be that of before.
SETTLE_S = 15
_SHOWN = 6


def progress(
    items: Iterable[Item],
    phase: str,
    settings: Settings,
    applied: Item | None = None,
    elapsed_s: float = 0,
) -> dict[str, Any]:
    """How far one phase is.

    Args:
        items: what was read: the objects of the phase's kind.
        phase: `policy` (NicClusterPolicy), `pools` (IPPool), `sriov_nodes` (SriovNetworkNodeState), `networks` (the network
            objects), `attachments` (NetworkAttachmentDefinition), `resources` (Node).
        settings: from :func:`deploy_settings.make_settings`.
        applied: for `policy`, {changed, generation, resource_version} of the policy as it was applied.
        elapsed_s: seconds since then.

    Returns:
        {phase, ready, hopeless, text, components}: `hopeless` where waiting cannot help; `components` maps names to states, for
        `policy` only.
    """
    result = {"phase": phase, "ready": False, "hopeless": False, "text": "", "components": {}}
    return result | _PHASES[phase](list(items), settings, applied or {}, elapsed_s)


def _policy(
    items: list[Item], settings: Settings, applied: Item, elapsed_s: float
) -> dict[str, Any]:
    policy = next((i for i in items if i["metadata"].get("name") == POLICY_NAME), None)
    if policy is None:
        return {"text": f"NicClusterPolicy {POLICY_NAME} is not there"}
    status = policy.get("status") or {}
    state = status.get("state")
    entries = {str(e.get("name")): e for e in status.get("appliedStates") or []}
    states = {name: str(entry.get("state")) for name, entry in entries.items()}
    out: dict[str, Any] = {"components": states}
    if not state:
        return out | {
            "text": "NicClusterPolicy has no status yet: the operator has not looked at it"
        }
    stale = _stale(policy, applied, elapsed_s)
    if stale:
        return out | {"text": f"NicClusterPolicy is {state}, {stale}"}
    if state == "ignore":
        reason = status.get("reason") or "no reason given"
        return out | {
            "hopeless": True,
            "text": f"NicClusterPolicy is ignored by the operator: {reason}",
        }
    asked = [COMPONENTS[name].state for name in components(settings)]
    if state == "ready":
        # `ignore` of a component that was asked for: a NicNodePolicy has it, or the operator is not there yet
        missing = [n for n in asked if states.get(n) not in ("ready", "ignore")]
        if not missing:
            return out | {"ready": True, "text": f"NicClusterPolicy is ready: {_names(asked)}"}
        return out | {
            "text": f"NicClusterPolicy is ready, but has no word of {_names(missing)} yet"
        }
    waiting = [
        _component(name, entry)
        for name, entry in entries.items()
        if entry.get("state") in ("notReady", "error")
    ]
    reason = status.get("reason") or _ready_message(status)
    told = _names(waiting) or reason or "no component says why"
    return out | {"text": f"NicClusterPolicy is {state}: {told}"}


def _component(name: str, entry: Item) -> str:
    message = " ".join(str(entry.get("message") or "").split())
    return f"{name} {entry.get('state')}" + (f" ({message})" if message else "")


def _ready_message(status: Item) -> str:
    conditions = status.get("conditions") or []
    return next((str(c.get("message") or "") for c in conditions if c.get("type") == "Ready"), "")


def _stale(policy: Item, applied: Item, elapsed_s: float) -> str:
    """Words for a status that may describe an earlier spec; empty when it is current."""
    metadata = policy["metadata"]
    observed = [
        c["observedGeneration"]
        for c in (policy.get("status") or {}).get("conditions") or []
        if isinstance(c.get("observedGeneration"), int)
    ]
    generation = metadata.get("generation")
    if observed and isinstance(generation, int):
        if max(observed) < generation:
            return f"but that is of generation {max(observed)}, and the spec is of generation {generation}"
        return ""
    if (
        applied.get("changed")
        and metadata.get("resourceVersion") == applied.get("resource_version")
        and elapsed_s < SETTLE_S
    ):
        return "but the operator has not touched it since the change"
    return ""


def _pools(
    items: list[Item], settings: Settings, _applied: Item, _elapsed: float
) -> dict[str, Any]:
    wanted = dict(pools(settings))
    found = {
        str(i["metadata"].get("name")): i
        for i in items
        if i["metadata"].get("namespace") == settings["operator_namespace"]
    }
    waiting = []
    for name in wanted:
        status = (found.get(name) or {}).get("status") or {}
        if len(status.get("allocations") or []) < settings["minimum_nodes"]:
            waiting.append(
                f"{name} (blocks for {len(status.get('allocations') or [])} nodes of at least {settings['minimum_nodes']})"
            )
    return _all("IPPool", waiting, list(wanted))


def _sriov_nodes(
    items: list[Item], settings: Settings, _applied: Item, _elapsed: float
) -> dict[str, Any]:
    # A rail's resource must be among what the operator was told to configure, or the state is one of before.
    wanted = {rail["resource"] for rail in settings["rails"]}
    done, waiting = [], []
    for item in items:
        name = str(item["metadata"].get("name"))
        status = item.get("status") or {}
        groups = {
            str(group.get("resourceName"))
            for interface in (item.get("spec") or {}).get("interfaces") or []
            for group in interface.get("vfGroups") or []
        }
        if not groups & wanted:
            continue
        state = status.get("syncStatus") or "no syncStatus"
        error = " ".join(str(status.get("lastSyncError") or "").split())
        if state == "Succeeded" and not _missing_functions(item):
            done.append(name)
        elif state == "Succeeded":
            waiting.append(f"{name} ({_missing_functions(item)})")
        else:
            waiting.append(f"{name} {state}" + (f" ({error})" if error else ""))
    if len(done) >= settings["minimum_nodes"] and not waiting:
        return {"ready": True, "text": f"SR-IOV is configured on {_names(done)}"}
    if waiting:
        return {"text": f"SR-IOV: {_names(waiting)}"}
    return {
        "text": f"SR-IOV: {len(done)} nodes are configured, {settings['minimum_nodes']} are needed; the operator has no adapter to"
        " configure on the others (does the rail's selection match any?)"
    }


def _missing_functions(item: Item) -> str:
    real = {i.get("pciAddress"): i for i in (item.get("status") or {}).get("interfaces") or []}
    for interface in (item.get("spec") or {}).get("interfaces") or []:
        wanted = interface.get("numVfs") or 0
        have = (real.get(interface.get("pciAddress")) or {}).get("numVfs") or 0
        if have < wanted:
            return f"{interface.get('name')} has {have} of {wanted} virtual functions"
    return ""


def _networks(
    items: list[Item], settings: Settings, _applied: Item, _elapsed: float
) -> dict[str, Any]:
    kind = network_kind(settings)
    found = {str(i["metadata"].get("name")): i for i in items}
    waiting = []
    for rail in settings["rails"]:
        status = (found.get(rail["network"]) or {}).get("status") or {}
        state = status.get("state")
        # the SR-IOV kinds have no state; their attachment is what counts
        if rail["network"] not in found:
            waiting.append(f"{rail['network']} is not there")
        elif state != "ready" and not kind.startswith("Sriov"):
            reason = f" ({status['reason']})" if status.get("reason") else ""
            waiting.append(f"{rail['network']} {state or 'has no status'}{reason}")
    return _all(kind, waiting, [rail["network"] for rail in settings["rails"]])


def _attachments(
    items: list[Item], settings: Settings, _applied: Item, _elapsed: float
) -> dict[str, Any]:
    found = {(str(i["metadata"].get("namespace")), str(i["metadata"].get("name"))) for i in items}
    names = [f"{rail['network_namespace']}/{rail['network']}" for rail in settings["rails"]]
    waiting = [n for n in names if tuple(n.split("/")) not in found]
    return _all("NetworkAttachmentDefinition", waiting, names)


def _resources(
    items: list[Item], settings: Settings, _applied: Item, _elapsed: float
) -> dict[str, Any]:
    wanted = list(
        dict.fromkeys(f"{rail['resource_prefix']}/{rail['resource']}" for rail in settings["rails"])
    )
    counts = {
        name: sum(
            _positive(((node.get("status") or {}).get("allocatable") or {}).get(name))
            for node in items
        )
        for name in wanted
    }
    waiting = [
        f"{name} on {count} nodes of at least {settings['minimum_nodes']}"
        for name, count in counts.items()
        if count < settings["minimum_nodes"]
    ]
    if waiting:
        return {"text": f"allocatable: {_names(waiting)}"}
    served = [f"{name} on {count} nodes" for name, count in counts.items()]
    return {"ready": True, "text": f"allocatable: {_names(served)}"}


def _positive(quantity: Any) -> bool:
    """Whether a Kubernetes quantity is more than nothing: `63`, `1k`."""
    found = re.match(r"\d*\.?\d+", str(quantity))
    return bool(found) and float(found[0]) > 0


def _all(kind: str, waiting: list[str], names: list[str]) -> dict[str, Any]:
    if waiting:
        return {"text": f"{kind}: {_names(waiting)}"}
    return {"ready": True, "text": f"{kind}: {_names(names)} ready"}


def _names(texts: Iterable[str]) -> str:
    texts = list(texts)
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


_PHASES: dict[str, Callable[[list[Item], Settings, Item, float], dict[str, Any]]] = {
    "policy": _policy,
    "pools": _pools,
    "sriov_nodes": _sriov_nodes,
    "networks": _networks,
    "attachments": _attachments,
    "resources": _resources,
}


def phases(settings: Settings) -> list[dict[str, str]]:
    """What is waited for, in order: [{phase, api_version, kind, namespace}], namespace "" for everywhere.

    A phase without anything to wait for is not among them.
    """
    kind = network_kind(settings)
    sriov = settings["sriov_namespace"]
    out = []
    if components(settings):
        out.append(("policy", MELLANOX, "NicClusterPolicy", ""))
    if settings["ipam"] == "nv-ipam":
        out.append(("pools", NV_IPAM, "IPPool", settings["operator_namespace"]))
    if settings["network_type"] == "sriov":
        out.append(("sriov_nodes", SRIOV, "SriovNetworkNodeState", sriov))
    if kind:
        out.append(("networks", BY_KIND[kind].api_version, kind, sriov if "Sriov" in kind else ""))
        out.append(("attachments", "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", ""))
    out.append(("resources", "v1", "Node", ""))
    return [
        dict(zip(("phase", "api_version", "kind", "namespace"), row, strict=True)) for row in out
    ]
