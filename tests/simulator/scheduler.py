"""Puts pods on nodes: node names, selectors, affinity, spreading, taints, extended resources; explains itself when it cannot."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Node:
    """A node, prepared for many questions."""

    obj: Obj
    name: str
    host: str  # the value of its hostname label
    free: dict[str, Decimal]  # allocatable


@dataclass(frozen=True)
class Rules:
    """What one pod wants of a node."""

    wanted: dict[str, Decimal]
    spread: list[tuple[dict[str, int], int]]
    repelled: set[str]


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
        self._nodes: dict[str, Node] = {}
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
        nodes = [self._node(obj) for obj in self._api.store.all(NODES)]
        for namespace, name in list(self._waiting.values()):
            pod = self._api.store.find(PODS, namespace, name)
            if pod is not None and not pod["spec"].get("nodeName"):
                self._schedule(pod, nodes)

    def _node(self, obj: Obj) -> Node:
        """A node with its quantities parsed, once a state of it."""
        meta = obj["metadata"]
        known = self._nodes.get(meta["name"])
        if known is None or known.obj is not obj:
            free = {k: quantity(v) for k, v in (obj["status"].get("allocatable") or {}).items()}
            host = (meta.get("labels") or {}).get(HOSTNAME, meta["name"])
            known = self._nodes[meta["name"]] = Node(obj, meta["name"], host, free)
        return known

    def _schedule(self, pod: Obj, nodes: list[Node]) -> None:
        rules = Rules(requests_of(pod["spec"]), self._spread(pod, nodes), self._repelled_hosts(pod))
        reasons: Counter[str] = Counter()
        fitting = []
        for node in nodes:
            why = self._misfit(pod, node, rules)
            if why:
                reasons.update(why)
            else:
                fitting.append(node.name)
        if not fitting:
            self._unschedulable(pod, len(nodes), reasons)
            return
        self.bind(pod, min(fitting, key=lambda n: self._usage.get(n, {}).get("pods", 0)))

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

    def _misfit(self, pod: Obj, node: Node, rules: Rules) -> list[str]:
        """Why a pod cannot go to a node, in the words of the event; nothing when it can."""
        spec = pod["spec"]
        tolerations = spec.get("tolerations") or []
        cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if node.obj["spec"].get("unschedulable") and not _tolerates(tolerations, cordoned):
            return ["node(s) were unschedulable"]
        if taint := _untolerated(node.obj, tolerations):
            return [
                f"node(s) had untolerated taint(s) {{{taint['key']}: {taint.get('value', '')}}}"
            ]
        if not _node_matches(spec, node.obj):
            return ["node(s) didn't match Pod's node affinity/selector"]
        if short := self._short(node, rules.wanted):
            return short
        for counts, skew in rules.spread:
            if counts.get(node.host, 0) + 1 - min(counts.values(), default=0) > skew:
                return ["node(s) didn't match pod topology spread constraints"]
        if node.name in rules.repelled:
            return ["node(s) didn't match pod anti-affinity rules"]
        return []

    def _short(self, node: Node, wanted: dict[str, Decimal]) -> list[str]:
        usage = self._usage.get(node.name, {})
        held = self._held(node.name)
        out = []
        for name, value in wanted.items():
            if (held and name.startswith(held)) or usage.get(name, 0) + value > node.free.get(
                name, 0
            ):
                out.append("Too many pods" if name == "pods" else f"Insufficient {name}")
        return out

    def _spread(self, pod: Obj, nodes: list[Node]) -> list[tuple[dict[str, int], int]]:
        """For each spread constraint on hosts: how many matching pods each host has, and the skew that is allowed."""
        out = []
        for constraint in pod["spec"].get("topologySpreadConstraints") or []:
            if (
                constraint.get("whenUnsatisfiable") != "DoNotSchedule"
                or constraint["topologyKey"] != HOSTNAME
            ):
                continue
            matches = structured_selector(constraint.get("labelSelector"))
            counts = {n.host: 0 for n in nodes if _node_matches(pod["spec"], n.obj)}
            for other in self._placed(pod["metadata"]["namespace"]):
                if (
                    matches(other["metadata"].get("labels") or {})
                    and other["spec"]["nodeName"] in counts
                ):
                    counts[other["spec"]["nodeName"]] += 1
            out.append((counts, constraint.get("maxSkew", 1)))
        return out

    def _placed(self, namespace: str) -> list[Obj]:
        return [
            p
            for p in self._api.store.all(PODS, namespace)
            if p["spec"].get("nodeName") and p["status"].get("phase") not in ("Succeeded", "Failed")
        ]

    def _repelled_hosts(self, pod: Obj) -> set[str]:
        """Nodes whose pods keep this one away, by its own rules or by theirs."""
        own = [structured_selector(t.get("labelSelector")) for t in _anti_affinity(pod["spec"])]
        mine = pod["metadata"].get("labels") or {}
        out = set()
        for other in self._placed(pod["metadata"]["namespace"]):
            theirs = _anti_affinity(other["spec"])
            if not own and not theirs:
                continue
            labels = other["metadata"].get("labels") or {}
            if any(matches(labels) for matches in own) or any(
                structured_selector(t.get("labelSelector"))(mine) for t in theirs
            ):
                out.add(other["spec"]["nodeName"])
        return out

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
