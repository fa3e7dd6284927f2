# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes are tested, and how their test pods fare. Pure: Kubernetes objects in, plain dictionaries out."""

from __future__ import annotations

import re

from ansible_collections.k8si.fabric.plugins.plugin_utils import diagnosis, selectors, units

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


def needed_resources(settings: dict) -> dict[str, int]:
    """Extended resources of one test pod: one of each rail's RDMA resource, and the GPUs."""
    needed: dict[str, int] = {}
    for rail in settings["rails"]:
        if rail["resource"]:
            needed[rail["resource"]] = needed.get(rail["resource"], 0) + 1
    if settings.get("gpu_resource"):
        needed[settings["gpu_resource"]] = settings["gpu_count"]
    return needed


def choose_nodes(nodes: list[dict], pods: list[dict] | None, settings: dict) -> dict:
    """Chooses the nodes to test: ready, schedulable, with every needed resource free.

    Args:
        nodes: Node objects.
        pods: all pods of the cluster (what they request is not free), or None where they may not be listed:
            then allocatable counts as free, and the scheduler has the last word.
        settings: `nodes` (a number, `all`, a list of names, or {`label`: selector}), `rails`, `gpu_resource`, `gpu_count`, `tolerations`.

    Returns:
        {`chosen`: [name], `skipped`: [{node, code, reason}], `findings`: [...]}. Skipped are unfit nodes: of those that were
        named or selected, else of all. A node asked for by name that is unfit or
        unknown is a finding; so are fewer than two fit nodes.
    """
    needed = needed_resources(settings)
    wanted = settings["nodes"]
    total = len(nodes)
    if isinstance(wanted, dict):
        selector = selectors.parse(wanted["label"])
        nodes = [n for n in nodes if selectors.matches(selector, n["metadata"].get("labels") or {})]
    used = _requested(pods or [], set(needed))
    fit, skipped = [], []
    for node in sorted(nodes, key=lambda n: _natural(n["metadata"]["name"])):
        name = node["metadata"]["name"]
        problem = _unfit(node, needed, used.get(name, {}), settings.get("tolerations") or [])
        if problem:
            skipped.append({"node": name, "code": problem[0], "reason": problem[1]})
        else:
            fit.append(name)
    findings = []
    if isinstance(wanted, list):
        reasons = {s["node"]: s for s in skipped}
        known = {n["metadata"]["name"] for n in nodes}
        for name in wanted:
            if name not in known:
                findings.append(
                    diagnosis.finding(
                        "node_not_found",
                        where={"node": name},
                        seen=f"there is no node {name}; there are: {', '.join(sorted(known, key=_natural)[:20])}",
                    )
                )
            elif name in reasons:
                findings.append(
                    diagnosis.finding(
                        reasons[name]["code"], where={"node": name}, seen=reasons[name]["reason"]
                    )
                )
        chosen = [n for n in fit if n in wanted]
        skipped = [s for s in skipped if s["node"] in wanted]
    else:
        chosen = fit[: int(wanted)] if isinstance(wanted, int) else fit
    if len(chosen) < 2:
        of = (
            f"{len(nodes)} of {total} nodes match {wanted['label']}; "
            if isinstance(wanted, dict)
            else ""
        )
        why = "; ".join(f"{s['node']}: {s['reason']}" for s in skipped[:10]) or "no other node"
        more = f"; and {len(skipped) - 10} more" if len(skipped) > 10 else ""
        findings.append(
            diagnosis.finding(
                "not_enough_nodes",
                where={"nodes": chosen},
                seen=f"{of}{len(chosen)} of {len(nodes)} nodes can run the test, it takes two. {why}{more}",
            )
        )
    elif isinstance(wanted, int) and len(chosen) < wanted:
        skipped_names = ", ".join(s["node"] for s in skipped[:10])
        findings.append(
            diagnosis.finding(
                "not_enough_nodes",
                where={"nodes": chosen},
                seen=f"{wanted} nodes were asked for, {len(chosen)} can run the test; unfit: {skipped_names}",
            )
        )
    return {"chosen": chosen, "skipped": skipped, "findings": findings}


def _natural(name: str) -> list:
    """gpu-node-2 before gpu-node-10."""
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.split(r"(\d+)", name) if p]


def _requested(pods: list[dict], resources: set[str]) -> dict[str, dict[str, int]]:
    """node -> resource -> what the pods there request. Extended resources: limits equal requests (Kubernetes API)."""
    used: dict[str, dict[str, int]] = {}
    for pod in pods:
        node = pod.get("spec", {}).get("nodeName")
        if not node or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        spec = pod["spec"]
        main = [_asked(c) for c in spec.get("containers") or []]
        init = [_asked(c) for c in spec.get("initContainers") or []]
        for resource in resources:
            # init containers run one after another and before the others: the larger need counts
            total = max(
                sum(a.get(resource, 0) for a in main),
                max((a.get(resource, 0) for a in init), default=0),
            )
            if total:
                on_node = used.setdefault(node, {})
                on_node[resource] = on_node.get(resource, 0) + total
    return used


def _asked(container: dict) -> dict[str, int]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {k: int(units.quantity(v)) for k, v in asked.items() if "/" in k}


def _unfit(node: dict, needed: dict, used: dict, tolerations: list) -> tuple[str, str] | None:
    status, spec = node.get("status") or {}, node.get("spec") or {}
    ready = next((c for c in status.get("conditions") or [] if c.get("type") == "Ready"), {})
    if ready.get("status") != "True":
        return "node_not_ready", f"not Ready: {ready.get('reason') or 'no condition'}"
    if spec.get("unschedulable"):
        return "node_cordoned", "cordoned (unschedulable)"
    for taint in spec.get("taints") or []:
        if taint.get("effect") in BLOCKING_EFFECTS and not _tolerated(taint, tolerations):
            return "node_tainted", f"taint {taint.get('key')}:{taint['effect']} is not tolerated"
    allocatable = status.get("allocatable") or {}
    for resource, count in needed.items():
        if resource not in allocatable:
            return "rdma_resource_absent", f"{resource} is not offered"
        total = int(units.quantity(allocatable[resource]))
        if total == 0:
            return "rdma_allocatable_zero", f"{resource}: allocatable is 0"
        free = total - used.get(resource, 0)
        if free < count:
            return "insufficient_resource", f"{resource}: {free} of {total} free, {count} needed"
    return None


def _tolerated(taint: dict, tolerations: list[dict]) -> bool:
    """Kubernetes' own rule: operator Exists or Equal (default), an empty key with Exists tolerates everything."""
    for t in tolerations:
        if t.get("effect") and t["effect"] != taint.get("effect"):
            continue
        if not t.get("key"):
            if t.get("operator") == "Exists":
                return True
            continue
        if t["key"] == taint.get("key") and (
            t.get("operator") == "Exists" or (t.get("value") or "") == (taint.get("value") or "")
        ):
            return True
    return False


def pod_states(pods: list[dict], events: list[dict], names: list[str]) -> dict:
    """How the test pods stand.

    Args:
        pods: the test pods that the API lists.
        events: events of their namespace (empty while none were read).
        names: the pods that were asked for; one that is not listed is gone.

    Returns:
        {`running`: [pod object], `waiting`: [finding of each pod that a wait may help: starting, or a trouble that may
        clear], `findings`: [finding of each pod that will not run], `settled`: bool (no pod is waiting)}.
    """
    by_name = {p["metadata"]["name"]: p for p in pods}
    running, waiting, findings = [], [], []
    for name in names:
        pod = by_name.get(name)
        if pod is None:
            found = diagnosis.finding("pod_gone", where={"pod": name}, seen=f"pod {name} is gone")
        elif _ready(pod):
            running.append(pod)
            continue
        else:
            found = diagnosis.diagnose_pod(pod, [e for e in events if _about(e, name)])
            if found is None or found["code"] == "pod_not_started":
                found = diagnosis.finding("pod_not_started", seen=f"pod {name}: {_reason(pod)}")
            where = {"node": _node_of(pod), "pod": name}
            found = {**found, "where": {**where, **found["where"]}}
        (waiting if found["retry"] and pod else findings).append(found)
    return {
        "running": running,
        "waiting": waiting,
        "findings": findings,
        "settled": not waiting,
    }


def not_running(states: dict, timeout_s: float) -> list[dict]:
    """Findings for every pod that did not run in time, with how long it was waited for."""
    late = [
        {**w, "seen": f"not Running after {timeout_s:g} s: {w['seen']}"} for w in states["waiting"]
    ]
    return states["findings"] + late


def _ready(pod: dict) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return (
        pod.get("status", {}).get("phase") == "Running"
        and not pod["metadata"].get("deletionTimestamp")
        and bool(statuses)
        and all(s.get("ready") for s in statuses)
    )


def _node_of(pod: dict) -> str | None:
    """The node that a pod runs on; of one that was never scheduled, the node that it was made for."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return spec["nodeName"]
    required = (spec.get("affinity") or {}).get("nodeAffinity", {})
    required = required.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            if field.get("key") == "metadata.name":
                return (field.get("values") or [None])[0]
    return None


def _about(event: dict, name: str) -> bool:
    return (event.get("involvedObject") or event.get("regarding") or {}).get("name") == name


def _reason(pod: dict) -> str:
    for status in pod.get("status", {}).get("containerStatuses") or []:
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting:
            return ": ".join(t for t in (waiting.get("reason"), waiting.get("message")) if t)
    return pod.get("status", {}).get("phase") or "no status yet"
