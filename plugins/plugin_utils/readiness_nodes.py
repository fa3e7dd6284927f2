# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges nodes: labels, readiness, taints, and what RDMA and GPU resources they really offer.

A device plugin announces as many shares as it was told to, whatever the hardware; so only "more than zero" means
something, and only on **allocatable**: capacity stays when the plugin is gone. The key may exist with ``"0"``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from .readiness_findings import Context, Finding, Judgement, by_code, meta, names, status_of
from .readiness_quantity import adapter_generation, count
from .readiness_settings import Settings

Item = Mapping[str, Any]

#: What the operator's DaemonSets select. NFD writes it only when told to name devices by vendor alone …
NFD_LABEL = "feature.node.kubernetes.io/pci-15b3.present"
#: … with its own defaults it writes class and vendor (and device, when told so), which nobody selects.
_NFD_OTHER_FORM = re.compile(
    r"feature\.node\.kubernetes\.io/pci-(?:[0-9a-f]{4}_)?15b3(?:_([0-9a-f]{4}))?\.present"
)
_NFD_PREFIX = "feature.node.kubernetes.io/"
_MOFED_WAIT = "network.nvidia.com/operator.mofed.wait"
_MIG = "nvidia.com/mig-"
#: Prefixes under which device plugins announce RDMA devices in public manifests.
_RDMA_PREFIXES = ("rdma/", "openshift.io/", "nvidia.com/", "mellanox.com/")
_NOT_RDMA = re.compile(r"nvidia\.com/(gpu|mig-|pgpu|vgpu|GA|GH|TU|AD|GV)")
#: Taints that the node controller itself sets with the cause that is told anyway.
_TOLD_OTHERWISE = {
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/not-ready",
}


@dataclass(frozen=True)
class Node:
    """What readiness knows about one node. ``rdma`` and ``gpu`` are (capacity, allocatable), None if not announced."""

    name: str
    ready: bool
    not_ready_because: str
    cordoned: bool
    untolerated: tuple[str, ...]
    tolerated: tuple[str, ...]
    label: str | None
    other_labels: tuple[str, ...]
    has_nfd: bool
    driver_pending: bool
    rdma: Mapping[str, tuple[int, int] | None]
    gpu: tuple[int, int] | None
    offered: tuple[str, ...]
    mig: tuple[str, ...]
    kernel: str

    @property
    def usable(self) -> bool:
        """Whether the scheduler may put a test pod there."""
        return self.ready and not self.cordoned and not self.untolerated

    @property
    def serves_rdma(self) -> bool:
        """Whether every RDMA resource that the tests ask for is there."""
        return all(pair is not None and pair[1] > 0 for pair in self.rdma.values())

    @property
    def serves_gpu(self) -> bool:
        """Whether a GPU can be had."""
        return self.gpu is not None and self.gpu[1] > 0


def is_labelled(item: Item) -> bool:
    """Whether the node carries the label that the operator's DaemonSets select, with the value that they select."""
    return (meta(item).get("labels") or {}).get(NFD_LABEL) == "true"


def ready_names(items: Iterable[Item]) -> set[str]:
    """Names of the nodes whose condition Ready is True."""
    return {str(meta(item).get("name")) for item in items if _ready(item)[0]}


def describe_node(item: Item, settings: Settings) -> Node:
    """The facts of one Node object under the given settings."""
    labels = meta(item).get("labels") or {}
    spec = item.get("spec") or {}
    allocatable = status_of(item).get("allocatable") or {}
    capacity = status_of(item).get("capacity") or {}
    ready, because = _ready(item)
    tolerated, untolerated = _taints(spec.get("taints") or [], settings.tolerations)
    return Node(
        name=str(meta(item).get("name")),
        ready=ready,
        not_ready_because=because,
        cordoned=bool(spec.get("unschedulable")),
        untolerated=tuple(untolerated),
        tolerated=tuple(tolerated),
        label=labels.get(NFD_LABEL),
        other_labels=tuple(
            sorted(
                key
                for key, value in labels.items()
                if key != NFD_LABEL and value == "true" and _NFD_OTHER_FORM.fullmatch(key)
            )
        ),
        has_nfd=any(key.startswith(_NFD_PREFIX) for key in labels),
        driver_pending=labels.get(_MOFED_WAIT) == "true",
        rdma={name: _pair(capacity, allocatable, name) for name in settings.rdma_resources},
        gpu=_pair(capacity, allocatable, settings.gpu_resource),
        offered=tuple(sorted(filter(_may_be_rdma, {*capacity, *allocatable}))),
        mig=_mig(labels, allocatable),
        kernel=str((status_of(item).get("nodeInfo") or {}).get("kernelVersion") or ""),
    )


def chosen_nodes(context: Context) -> list[Node]:
    """The nodes that are meant to have RDMA: those the user names, else those with any sign of a Mellanox adapter.

    Signs are the NFD label in either form and with any value, and an RDMA resource under any known name.
    """
    nodes = all_nodes(context)
    if context.settings.nodes:
        wanted = set(context.settings.nodes)
        return [node for node in nodes if node.name in wanted]
    return [node for node in nodes if node.label is not None or node.other_labels or node.offered]


def all_nodes(context: Context) -> list[Node]:
    """The facts of every node of the cluster."""
    if "nodes" not in context.memory:
        context.memory["nodes"] = [
            describe_node(item, context.settings) for item in context.items("nodes")
        ]
    nodes: list[Node] = context.memory["nodes"]
    return nodes


def _ready(item: Item) -> tuple[bool, str]:
    for condition in status_of(item).get("conditions") or []:
        if condition.get("type") == "Ready":
            words = condition.get("message") or condition.get("reason") or ""
            return condition.get("status") == "True", f"Ready is {condition.get('status')}: {words}"
    return False, "no condition Ready"


def _pair(capacity: Item, allocatable: Item, name: str) -> tuple[int, int] | None:
    if name not in capacity and name not in allocatable:
        return None
    return count(capacity.get(name)), count(allocatable.get(name))


def _may_be_rdma(name: str) -> bool:
    return name.startswith(_RDMA_PREFIXES) and not _NOT_RDMA.match(name)


def _mig(labels: Item, allocatable: Item) -> tuple[str, ...]:
    """Signs of partitioned GPUs: with strategy ``mixed`` own resources, with ``single`` only the product's name."""
    resources = sorted(name for name in allocatable if name.startswith(_MIG))
    product = str(labels.get("nvidia.com/gpu.product") or "")
    return (*resources, product) if "-MIG-" in product else tuple(resources)


def _taints(taints: Iterable[Item], tolerations: Iterable[Item]) -> tuple[list[str], list[str]]:
    tolerated, untolerated = [], []
    tolerations = list(tolerations)
    for taint in taints:
        if taint.get("effect") not in ("NoSchedule", "NoExecute"):
            continue
        if taint.get("key") in _TOLD_OTHERWISE:
            continue
        fits = any(_tolerates(toleration, taint) for toleration in tolerations)
        (tolerated if fits else untolerated).append(str(taint.get("key")))
    return tolerated, untolerated


def _tolerates(toleration: Item, taint: Item) -> bool:
    """The scheduler's rule: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key = toleration.get("key")
    if not key:
        return toleration.get("operator") == "Exists"
    if key != taint.get("key"):
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (
        taint.get("value") or ""
    )


def _told(code: str, nodes: list[Node], seen: str, **more: Any) -> Finding:
    node_names = tuple(node.name for node in nodes)
    return Finding(code, f"{names(node_names)}: {seen}", kind="Node", nodes=node_names, **more)


def judge_nodes_present(context: Context) -> Judgement:
    """Every node that the user named exists."""
    wanted = context.settings.nodes
    if not wanted:
        return Judgement(skipped="no nodes were named")
    present = {meta(item).get("name") for item in context.items("nodes")}
    missing = [name for name in wanted if name not in present]
    if missing:
        seen = f"not in the cluster: {names(missing)}"
        return Judgement([Finding("node_absent", seen, kind="Node", nodes=tuple(missing))])
    return Judgement(seen=f"{len(wanted)} nodes named, all there")


def judge_labels(context: Context) -> Judgement:
    """Nodes with an RDMA adapter carry the label that the operator's DaemonSets select, with the value "true"."""
    nodes = chosen_nodes(context)
    every = all_nodes(context)
    serving = [node for node in nodes if node.serves_rdma]
    if not any(node.has_nfd for node in every):
        # where all nodes serve RDMA already, by whatever means, the label is no condition any more
        severity = "advice" if nodes and len(serving) == len(nodes) else None
        seen = "no label of Node Feature Discovery on any node"
        return Judgement([Finding("nfd_absent", seen, NFD_LABEL, kind="Node", severity=severity)])
    findings = []
    wrong_value = [node for node in nodes if node.label not in (None, "true")]
    other_form = [node for node in nodes if node.label is None and node.other_labels]
    without = [node for node in nodes if node.label is None and not node.other_labels]
    required = f'{NFD_LABEL}: "true"'
    if wrong_value:
        seen = f'the label has the value "{wrong_value[0].label}"'
        findings.append(_told("nfd_label_value", wrong_value, seen, required=required))
    if other_form:
        seen = f"only {names(other_form[0].other_labels)}"
        findings.append(
            _told(
                "nfd_label_form",
                other_form,
                seen,
                required=required,
                severity=_unless_serving(other_form),
            )
        )
    if without:
        findings.append(
            _told(
                "nfd_label_missing",
                without,
                "no such label",
                required=required,
                severity=_unless_serving(without),
            )
        )
    bare = _gpu_nodes_without_rdma(context, every)
    if bare and nodes:
        seen = "GPUs, but no sign of an RDMA adapter; left out of the tests"
        findings.append(
            _told("nfd_label_missing", bare, seen, required=required, severity="advice")
        )
    if not nodes:
        seen = f"none of {len(every)} nodes has a label for vendor 15b3"
        findings.append(Finding("nfd_label_missing", seen, required, kind="Node"))
    labelled = sum(node.label == "true" for node in nodes)
    return Judgement(findings, seen=f"{labelled} of {len(every)} nodes carry {NFD_LABEL}=true")


def _gpu_nodes_without_rdma(context: Context, nodes: list[Node]) -> list[Node]:
    """Nodes that are probably meant to be in the fabric, and show nothing of it."""
    if context.settings.nodes:
        return []
    chosen = {node.name for node in chosen_nodes(context)}
    return [node for node in nodes if node.gpu and node.gpu[0] > 0 and node.name not in chosen]


def _unless_serving(nodes: list[Node]) -> str | None:
    return "advice" if all(node.serves_rdma for node in nodes) else None


def judge_usable(context: Context) -> Judgement:
    """Nodes with RDMA are ready, schedulable and not tainted; others are left out of the tests, which is told."""
    nodes = chosen_nodes(context)
    severity = None if context.settings.nodes else "advice"
    findings = []
    lost = [node for node in nodes if not node.ready]
    cordoned = [node for node in nodes if node.ready and node.cordoned]
    tainted = [node for node in nodes if node.ready and not node.cordoned and node.untolerated]
    if lost:
        findings.append(_told("node_not_ready", lost, lost[0].not_ready_because, severity=severity))
    if cordoned:
        findings.append(_told("node_cordoned", cordoned, "cordoned", severity=severity))
    if tainted:
        keys = sorted({key for node in tainted for key in node.untolerated})
        findings.append(
            _told(
                "node_tainted", tainted, f"taints {names(keys)}", severity=severity, evidence=keys
            )
        )
    tolerated = sorted({key for node in nodes for key in node.tolerated})
    seen = f"{sum(node.usable for node in nodes)} of {len(nodes)} can take test pods"
    seen += f", with a toleration of {names(tolerated)}" if tolerated else ""
    return Judgement(findings, seen=seen, evidence={"tolerated": tolerated})


def judge_rdma(context: Context) -> Judgement:
    """Every node that is meant to have RDMA and can take pods has each RDMA resource allocatable."""
    nodes = [node for node in chosen_nodes(context) if node.usable]
    if not nodes:
        return Judgement(skipped="no node with an RDMA adapter can take pods")
    findings: list[Finding] = []
    for resource in context.settings.rdma_resources:
        findings += _judge_resource(resource, nodes)
    shares = {
        node.name: {name: pair[1] if pair else 0 for name, pair in node.rdma.items()}
        for node in nodes
    }
    good = sum(node.serves_rdma for node in nodes)
    seen = f"{names(context.settings.rdma_resources)} allocatable on {good} of {len(nodes)} nodes"
    return Judgement(findings, seen=seen, evidence=shares)


def _judge_resource(resource: str, nodes: list[Node]) -> list[Finding]:
    findings: list[Finding] = []
    absent = [node for node in nodes if node.rdma[resource] is None]
    pending = [node for node in absent if node.driver_pending]
    absent = [node for node in absent if not node.driver_pending]
    present = [(node, node.rdma[resource] or (0, 0)) for node in nodes if node.rdma[resource]]
    zero = [node for node, (capacity, _free) in present if capacity == 0]
    gone = [node for node, (capacity, free) in present if capacity > 0 and free == 0]
    fewer = [node for node, (capacity, free) in present if 0 < free < capacity]
    required = f"{resource} > 0"
    if pending:
        seen = f"{resource} not announced; the network driver is not ready yet"
        findings.append(_told("mofed_wait", pending, seen, required=required))
    if absent:
        offered = sorted({name for node in absent for name in node.offered} - {resource})
        if offered and len(absent) == len(nodes):
            nearest = get_close_matches(resource, offered, n=1, cutoff=0.0)[0]
            seen = (
                f"{resource} is announced nowhere; there is {names(offered)} (nearest: {nearest})"
            )
            findings.append(
                _told("wrong_resource_name", absent, seen, required=required, evidence=offered)
            )
        else:
            seen = f"{resource} not announced" + (f"; there is {names(offered)}" if offered else "")
            # without any other name, the plugin may be on its way
            retry = not offered
            findings.append(
                _told(
                    "rdma_resource_absent",
                    absent,
                    seen,
                    required=required,
                    evidence=offered,
                    retry=retry,
                )
            )
    if zero:
        seen = f"{resource}: capacity 0, allocatable 0"
        findings.append(_told("rdma_capacity_zero", zero, seen, required=required))
    if gone:
        pair = gone[0].rdma[resource] or (0, 0)
        seen = f"{resource}: capacity {pair[0]}, allocatable 0"
        # a plugin that has gone does not come back by itself
        findings.append(_told("rdma_allocatable_zero", gone, seen, required=required, retry=False))
    if fewer:
        pair = fewer[0].rdma[resource] or (0, 0)
        seen = f"{resource}: {pair[1]} of {pair[0]} allocatable"
        findings.append(_told("rdma_devices_unhealthy", fewer, seen, severity="advice"))
    return findings


def judge_enough(context: Context) -> Judgement:
    """Enough nodes can take a test pod: a test of the network needs two."""
    nodes = chosen_nodes(context)
    fit = [node for node in nodes if node.usable and node.serves_rdma]
    minimum = context.settings.minimum_nodes
    seen = f"{len(fit)} fit" + (f": {names(node.name for node in fit)}" if fit else "")
    if len(fit) < minimum:
        # what keeps the others out is told by other checks, and may pass; where all are fit there are too few
        retry = len(fit) < len(nodes)
        finding = Finding(
            "not_enough_nodes", seen, f"at least {minimum} nodes", kind="Node", retry=retry
        )
        return Judgement([finding])
    return Judgement(seen=seen)


def judge_gpu_nodes(context: Context) -> Judgement:
    """Enough of the nodes that are fit for RDMA also have a GPU allocatable."""
    resource = context.settings.gpu_resource
    minimum = context.settings.minimum_nodes
    nodes = [node for node in chosen_nodes(context) if node.usable and node.serves_rdma]
    if len(nodes) < minimum:
        return Judgement(skipped="too few nodes are fit for RDMA, which is told")
    served = [node for node in nodes if node.serves_gpu]
    findings = []
    if len(served) < minimum:
        seen = (
            f"{resource} allocatable on {len(served)} of {len(nodes)} nodes that are fit for RDMA"
        )
        findings.append(Finding("gpu_not_enough_nodes", seen, f"at least {minimum}", kind="Node"))
    gone = [node for node in nodes if node.gpu and node.gpu[0] > 0 and node.gpu[1] == 0]
    if gone:
        severity = "advice" if not by_code(findings, "gpu_not_enough_nodes") else None
        pair = gone[0].gpu or (0, 0)
        seen = f"{resource}: capacity {pair[0]}, allocatable 0"
        findings.append(_told("gpu_allocatable_zero", gone, seen, severity=severity))
    gpus = {node.name: node.gpu[1] if node.gpu else 0 for node in nodes}
    return Judgement(findings, seen=f"{resource} allocatable on {names(gpus)}", evidence=gpus)


def judge_mig(context: Context) -> Judgement:
    """No GPU is partitioned (MIG): nothing is known to say that GPUDirect RDMA works in an instance."""
    nodes = [node for node in chosen_nodes(context) if node.mig]
    if not nodes:
        return Judgement(seen="no node offers MIG instances")
    signs = sorted({sign for node in nodes for sign in node.mig})
    return Judgement([_told("mig_enabled", nodes, names(signs), evidence=signs)])


def judge_adapters(context: Context) -> Judgement:
    """Adapters are ConnectX-5 or newer, where NFD's labels or NicDevice objects tell the device at all."""
    seen: dict[str, set[str]] = {}
    for item in context.items("nic_devices"):
        status = status_of(item)
        seen.setdefault(str(status.get("node")), set()).add(str(status.get("type")))
    for item in context.items("nodes"):
        for key, value in (meta(item).get("labels") or {}).items():
            match = _NFD_OTHER_FORM.fullmatch(key)
            if match and match[1] and value == "true":
                seen.setdefault(str(meta(item).get("name")), set()).add(match[1])
    known = {
        node: [generation for device in devices if (generation := adapter_generation(device))]
        for node, devices in seen.items()
    }
    known = {node: generations for node, generations in known.items() if generations}
    if not known:
        return Judgement(
            skipped="neither NFD labels nor NicDevice objects tell the adapter's device id"
        )
    old = {
        node: sorted(name for name, generation in generations if generation < 5)
        for node, generations in known.items()
        if all(generation < 5 for _name, generation in generations)
    }
    models = sorted({name for generations in known.values() for name, _generation in generations})
    if old:
        told = f"{names(old)}: {names(sorted({name for found in old.values() for name in found}))}"
        return Judgement(
            [Finding("adapter_too_old", told, "ConnectX-5", kind="Node", nodes=tuple(old))]
        )
    return Judgement(seen=names(models), evidence={node: sorted(d) for node, d in seen.items()})


def node_rows(context: Context) -> list[dict[str, Any]]:
    """The list ``nodes`` of the result: what each chosen node offers and whether test pods may go there."""
    rows = []
    for node in chosen_nodes(context):
        reasons = []
        if not node.ready:
            reasons.append("node_not_ready")
        if node.cordoned:
            reasons.append("node_cordoned")
        if node.untolerated:
            reasons.append("node_tainted")
        for pair in node.rdma.values():
            if pair is None:
                reasons.append("mofed_wait" if node.driver_pending else "rdma_resource_absent")
            elif pair[1] == 0:
                reasons.append("rdma_allocatable_zero" if pair[0] else "rdma_capacity_zero")
        rows.append(
            {
                "name": node.name,
                "fit": node.usable and node.serves_rdma,
                "reasons": sorted(set(reasons)),
                "rdma": {name: pair[1] if pair else 0 for name, pair in node.rdma.items()},
                "gpu": node.gpu[1] if node.gpu else 0,
            }
        )
    return rows
