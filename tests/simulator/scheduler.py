"""Puts pods on nodes: node names, selectors, affinity, spreading, taints, extended resources; explains itself when it cannot."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from .api import Api
from .clock import timestamp
from .events import Recorder
from .selectors import expression_matches, structured_selector
from .store import Event
from .validation import quantity

PODS, NODES = ("", "pods"), ("", "nodes")
HOSTNAME = "kubernetes.io/hostname"
Obj = dict[str, Any]


def requests_of(spec: Obj) -> dict[str, Decimal]:
    """What a pod asks for, by resource, pods among them."""
    out: dict[str, Decimal] = {"pods": Decimal(1)}
    for container in spec.get("containers") or []:
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            out[name] = out.get(name, Decimal(0)) + quantity(text)
    return out


class Scheduler:
    """Binds pods that have no node; tries the others again when something changes."""

    def __init__(
        self,
        api: Api,
        recorder: Recorder,
        held: Callable[[str], tuple[str, ...]] = lambda _node: (),
    ) -> None:
        """held: prefixes of resources that are used up on a node although its pods do not show it."""
        self._api = api
        self._held = held
        self._recorder = recorder
        self._pods = api.registry.find("", "v1", "pods")
        self._waiting: dict[str, tuple[str, str]] = {}
        self._usage: dict[str, dict[str, Decimal]] = {}
        self._counted: dict[str, tuple[str, dict[str, Decimal]]] = {}
        self._scheduled_soon = False
        api.store.listen(PODS, self._on_pod)
        api.store.listen(NODES, lambda _event: self._soon())

    # ---- keeping count
    def _on_pod(self, event: Event) -> None:
        pod = event.entry.obj
        uid, meta = pod["metadata"]["uid"], pod["metadata"]
        finished = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        node = pod["spec"].get("nodeName")
        if event.kind == "DELETED" or finished:
            self._waiting.pop(uid, None)
            if uid in self._counted:
                self._uncount(uid)
                self._soon()
        elif node:
            self._waiting.pop(uid, None)
            if uid not in self._counted:
                self._count(uid, node, requests_of(pod["spec"]))
        elif (
            not meta.get("deletionTimestamp")
            and uid not in self._waiting
            and pod["spec"].get("schedulerName", "default-scheduler") == "default-scheduler"
        ):
            self._waiting[uid] = (meta["namespace"], meta["name"])
            self._soon()

    def _count(self, uid: str, node: str, wanted: dict[str, Decimal]) -> None:
        self._counted[uid] = (node, wanted)
        usage = self._usage.setdefault(node, {})
        for name, value in wanted.items():
            usage[name] = usage.get(name, Decimal(0)) + value

    def _uncount(self, uid: str) -> None:
        node, wanted = self._counted.pop(uid)
        usage = self._usage.get(node, {})
        for name, value in wanted.items():
            usage[name] = usage.get(name, Decimal(0)) - value

    def retry(self) -> None:
        """Tries the pods that wait again."""
        self._soon()

    def _soon(self) -> None:
        if not self._scheduled_soon and self._waiting:
            self._scheduled_soon = True
            asyncio.get_running_loop().call_later(0.01, self._run)

    # ---- deciding
    def _run(self) -> None:
        self._scheduled_soon = False
        for namespace, name in list(self._waiting.values()):
            pod = self._api.store.find(PODS, namespace, name)
            if pod is not None and not pod["spec"].get("nodeName"):
                self._schedule(pod)

    def _schedule(self, pod: Obj) -> None:
        nodes = list(self._api.store.all(NODES))
        wanted = requests_of(pod["spec"])
        reasons: Counter[str] = Counter()
        fitting = []
        spread = self._spread_counts(pod)
        for node in nodes:
            why = self._misfit(pod, node, wanted, spread)
            if why:
                reasons.update(why)
            else:
                fitting.append(node["metadata"]["name"])
        if not fitting:
            self._unschedulable(pod, len(nodes), reasons)
            return
        chosen = min(
            fitting,
            key=lambda n: (self._usage.get(n, {}).get("pods", Decimal(0)), fitting.index(n)),
        )
        self.bind(pod, chosen)

    def bind(self, pod: Obj, node: str) -> None:
        """Assigns a pod to a node."""
        meta = pod["metadata"]
        status = dict(pod["status"])
        others = [c for c in status.get("conditions") or [] if c["type"] != "PodScheduled"]
        status["conditions"] = [*others, _condition("True")]
        self._api.put(
            self._pods,
            {
                **pod,
                "metadata": dict(meta),
                "spec": {**pod["spec"], "nodeName": node},
                "status": status,
            },
        )
        self._recorder.record(
            pod,
            "Scheduled",
            f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}",
            "default-scheduler",
        )

    def _misfit(
        self, pod: Obj, node: Obj, wanted: dict[str, Decimal], spread: list[Any]
    ) -> list[str]:
        spec = pod["spec"]
        taint = _untolerated(node, spec.get("tolerations") or [])
        if node["spec"].get("unschedulable") and not _tolerates(
            spec.get("tolerations") or [],
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        ):
            return ["node(s) were unschedulable"]
        if taint:
            value = taint.get("value", "")
            return [f"node(s) had untolerated taint(s) {{{taint['key']}: {value}}}"]
        if not _node_matches(spec, node):
            return ["node(s) didn't match Pod's node affinity/selector"]
        usage = self._usage.get(node["metadata"]["name"], {})
        free = node["status"].get("allocatable") or {}
        held = self._held(node["metadata"]["name"])
        short = [f"Insufficient {n}" for n in wanted if held and n.startswith(held)]
        for name, value in wanted.items():
            if held and name.startswith(held):
                continue
            have = quantity(free.get(name, "0"))
            if usage.get(name, Decimal(0)) + value > have:
                short.append("Too many pods" if name == "pods" else f"Insufficient {name}")
        if short:
            return short
        host = node["metadata"]["labels"].get(HOSTNAME, node["metadata"]["name"])
        for counts, skew, key in spread:
            if key != HOSTNAME:
                continue
            lowest = min((counts.get(h, 0) for h in counts["__hosts__"]), default=0)
            if counts.get(host, 0) + 1 - lowest > skew:
                return ["node(s) didn't match pod topology spread constraints"]
        if self._repelled(pod, host):
            return ["node(s) didn't match pod anti-affinity rules"]
        return []

    def _spread_counts(self, pod: Obj) -> list[Any]:
        out = []
        for constraint in pod["spec"].get("topologySpreadConstraints") or []:
            if constraint.get("whenUnsatisfiable") != "DoNotSchedule":
                continue
            matches = structured_selector(constraint.get("labelSelector"))
            counts: dict[str, Any] = {"__hosts__": []}
            for node in self._api.store.all(NODES):
                if _node_matches(pod["spec"], node):
                    counts["__hosts__"].append(node["metadata"]["labels"].get(HOSTNAME, ""))
            for other in self._placed(pod["metadata"]["namespace"]):
                if matches(other["metadata"].get("labels") or {}):
                    node_name = other["spec"]["nodeName"]
                    counts[node_name] = counts.get(node_name, 0) + 1
            out.append((counts, constraint.get("maxSkew", 1), constraint["topologyKey"]))
        return out

    def _placed(self, namespace: str) -> list[Obj]:
        return [
            p
            for p in self._api.store.all(PODS, namespace)
            if p["spec"].get("nodeName") and p["status"].get("phase") not in ("Succeeded", "Failed")
        ]

    def _repelled(self, pod: Obj, host: str) -> bool:
        """Whether pods on a host keep this one away, by its own rules or by theirs."""
        own = _anti_affinity(pod["spec"])
        for other in self._placed(pod["metadata"]["namespace"]):
            if other["spec"]["nodeName"] != host:
                continue
            labels = other["metadata"].get("labels") or {}
            if any(structured_selector(t.get("labelSelector"))(labels) for t in own):
                return True
            mine = pod["metadata"].get("labels") or {}
            if any(
                structured_selector(t.get("labelSelector"))(mine)
                for t in _anti_affinity(other["spec"])
            ):
                return True
        return False

    def _unschedulable(self, pod: Obj, total: int, reasons: Counter[str]) -> None:
        texts = sorted(f"{n} {text}" for text, n in reasons.items())
        message = f"0/{total} nodes are available"
        if texts:
            message += ": " + ", ".join(texts)
        lacking = sum(
            n for text, n in reasons.items() if text.startswith(("Insufficient", "Too many"))
        )
        helps = (
            "No preemption victims found for incoming pod"
            if lacking
            else "Preemption is not helpful for scheduling"
        )
        message += f". preemption: 0/{total} nodes are available: {total} {helps}."
        previous = next(
            (c for c in pod["status"].get("conditions") or [] if c["type"] == "PodScheduled"), {}
        )
        if previous.get("message") == message:
            return
        status = dict(pod["status"])
        status["conditions"] = [_condition("False", "Unschedulable", message)]
        self._api.put(self._pods, {**pod, "metadata": dict(pod["metadata"]), "status": status})
        self._recorder.record(pod, "FailedScheduling", message, "default-scheduler", "Warning")


def _condition(status: str, reason: str = "", message: str = "") -> Obj:
    out = {
        "type": "PodScheduled",
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(),
    }
    if reason:
        out |= {"reason": reason, "message": message}
    return out


def _tolerates(tolerations: list[Obj], taint: Obj) -> bool:
    for t in tolerations:
        if t.get("effect") and t["effect"] != taint["effect"]:
            continue
        if t.get("key") and t["key"] != taint["key"]:
            continue
        if t.get("operator") == "Exists" or t.get("value", "") == taint.get("value", ""):
            return True
    return False


def _untolerated(node: Obj, tolerations: list[Obj]) -> Obj | None:
    for taint in node["spec"].get("taints") or []:
        if taint["effect"] in ("NoSchedule", "NoExecute") and not _tolerates(tolerations, taint):
            return taint
    return None


def _node_matches(spec: Obj, node: Obj) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        all(expression_matches(e, labels) for e in term.get("matchExpressions") or [])
        and all(expression_matches(e, fields) for e in term.get("matchFields") or [])
        and bool(term)
        for term in required["nodeSelectorTerms"]
    )


def _anti_affinity(spec: Obj) -> list[Obj]:
    rules = ((spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or []
    return [r for r in rules if r.get("topologyKey") == HOSTNAME]
