# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges the operator's pod and the pods that it deployed.

A pod's phase says little: a container in CrashLoopBackOff belongs to a pod that is ``Running``. So conditions and
container states count, pods that are on their way out or are left over (evicted, completed jobs) do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .readiness_findings import Context, Finding, Judgement, meta, names, status_of
from .readiness_nodes import ready_names

Pod = Mapping[str, Any]

#: Helm sets the first label; an OLM install (OpenShift) has only the second.
_HELM = ("app.kubernetes.io/name", ("network-operator", "nvidia-network-operator"))
_OLM = ("control-plane", ("nvidia-network-operator-controller", "network-operator-controller"))
OPERATOR_LABEL_SELECTORS = tuple(f"{key} in ({','.join(values)})" for key, values in (_HELM, _OLM))

#: What the operator deploys, by label, and whether RDMA pods can do without it for a while.
_OPERANDS: tuple[tuple[str, str, str, str], ...] = (
    ("nvidia.com/ofed-driver", "", "network driver", "required"),
    ("app", "rdma-shared-dp", "RDMA shared device plugin", "required"),
    ("app", "sriovdp", "SR-IOV device plugin", "required"),
    ("app", "sriov-device-plugin", "SR-IOV device plugin", "required"),
    ("app", "multus", "Multus", "required"),
    ("app", "cni-plugins", "CNI plugins", "required"),
    ("app", "nv-ipam", "NVIDIA IPAM", "required"),
    ("app", "whereabouts", "whereabouts IPAM", "required"),
    ("name", "ipoib-cni", "IPoIB CNI", "required"),
)
_BAD_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}


def is_operator_pod(pod: Pod) -> bool:
    """Whether the pod runs the operator's controller, installed by Helm or by OLM."""
    labels = meta(pod).get("labels") or {}
    if any(labels.get(key) in values for key, values in (_HELM, _OLM)):
        return not _is_job(pod)
    return str(meta(pod).get("name", "")).startswith("nvidia-network-operator-controller-manager-")


def judge_operator(context: Context) -> Judgement:
    """The controller of the Network Operator runs and is ready, in whatever namespace."""
    namespace = context.settings.operator_namespace
    pods = live_pods(filter(is_operator_pod, context.items("pods")))
    elsewhere = live_pods(_elsewhere(context))
    pods = pods or elsewhere
    if not pods:
        return Judgement(
            [
                Finding(
                    "operator_absent",
                    f"no pod of the operator in namespace {namespace}"
                    + (
                        " nor in any other"
                        if context.status("operator_elsewhere_0") == "ok"
                        else ""
                    ),
                    "a running pod of the Network Operator",
                    kind="Pod",
                    namespace=namespace,
                )
            ]
        )
    if any(pod_problem(pod) is None for pod in pods):
        ready = next(pod for pod in pods if pod_problem(pod) is None)
        found = f"{meta(ready).get('name')} in namespace {meta(ready).get('namespace')}"
        if elsewhere and meta(ready).get("namespace") != namespace:
            return Judgement(
                [
                    Finding(
                        "operator_elsewhere",
                        found,
                        f"the operator in namespace {namespace}",
                        kind="Pod",
                        namespace=meta(ready).get("namespace"),
                        name=meta(ready).get("name"),
                        severity="advice",
                    )
                ]
            )
        return Judgement(seen=f"{found} is ready")
    return Judgement([_finding(pod, {"crashloop": "operator_crashloop"}) for pod in pods])


def judge_operands(context: Context) -> Judgement:
    """The pods that the operator deployed are ready on every node that is itself ready.

    The policy's state does not tell this: the operator looks at DaemonSets only, so a Deployment that crashes
    (the IPAM controller for one) leaves the policy ``ready``.
    """
    ready_nodes = ready_names(context.items("nodes"))
    pods = [
        pod
        for pod in live_pods([*context.items("pods"), *context.items("daemon_pods")])
        if not is_operator_pod(pod)
        # a pod on a lost node is that node's trouble, and is told there
        and (context.status("nodes") != "ok" or _node(pod) in (ready_nodes | {""}))
    ]
    findings = []
    for pod in pods:
        if pod_problem(pod):
            operand, severity = _operand(pod)
            codes = {"crashloop": "operand_not_ready", "not_ready": "operand_not_ready"}
            if operand == "network driver":
                codes["not_ready"] = "ofed_slow_build"
            findings.append(_finding(pod, codes, operand, severity))
    if not pods:
        return Judgement(skipped="the operator has deployed nothing yet")
    return Judgement(_merged(findings), seen=f"{len(pods) - len(findings)} of {len(pods)} ready")


def _elsewhere(context: Context) -> list[Pod]:
    found = {}
    for number in range(len(OPERATOR_LABEL_SELECTORS)):
        for pod in context.items(f"operator_elsewhere_{number}"):
            found[meta(pod).get("uid") or meta(pod).get("name")] = pod
    return [pod for pod in found.values() if is_operator_pod(pod)]


def live_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Pods that count: not on their way out, not evicted, not of a job, not completed."""
    return [
        pod
        for pod in pods
        if not meta(pod).get("deletionTimestamp")
        and status_of(pod).get("phase") not in ("Succeeded", "Failed")
        and not _is_job(pod)
    ]


def _is_job(pod: Pod) -> bool:
    return any(owner.get("kind") == "Job" for owner in meta(pod).get("ownerReferences") or [])


def pod_problem(pod: Pod) -> tuple[str, str] | None:
    """Why the pod is not ready, as (sort, words); None if it is ready.

    Sorts: ``unschedulable``, ``image_pull``, ``crashloop`` and, for what may pass by itself, ``not_ready``.
    """
    status = status_of(pod)
    conditions = {item.get("type"): item for item in status.get("conditions") or []}
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False":
        return "unschedulable", str(scheduled.get("message") or scheduled.get("reason") or "")
    states = [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]
    for container in states:
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason")
        words = f"container {container.get('name')}: {reason}"
        if waiting.get("message"):
            words += f": {waiting['message']}"
        if reason in _BAD_IMAGE:
            return "image_pull", words
        if reason == "CrashLoopBackOff":
            return "crashloop", f"{words} after {container.get('restartCount', 0)} restarts"
    not_ready = [
        str(container.get("name"))
        for container in status.get("containerStatuses") or []
        if not container.get("ready")
    ]
    if not_ready:
        return "not_ready", f"container {names(not_ready)} not ready"
    if (conditions.get("Ready") or {}).get("status") != "True":
        return "not_ready", f"phase {status.get('phase')}, not ready"
    return None


def _finding(
    pod: Pod, codes: Mapping[str, str], operand: str = "operator", severity: str | None = None
) -> Finding:
    sort, words = pod_problem(pod) or ("not_ready", "")
    # what crashes or cannot be pulled has had its chance; what merely is not ready yet may become so
    default = {"not_ready": "operator_not_ready"}.get(sort, sort)
    return Finding(
        codes.get(sort, default),
        f"{operand}, pod {meta(pod).get('name')}: {words}",
        "every container ready",
        kind="Pod",
        namespace=meta(pod).get("namespace"),
        name=meta(pod).get("name"),
        nodes=(_node(pod),) if _node(pod) else (),
        severity=severity,
        retry=sort == "not_ready",
        evidence=[words],
    )


def _merged(findings: list[Finding]) -> list[Finding]:
    """One finding for the same trouble of the same operand on many nodes."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.code, finding.seen.split(",")[0], finding.severity, finding.retry)
        groups.setdefault(key, []).append(finding)
    merged = []
    for (code, operand, severity, retry), group in groups.items():
        if len(group) == 1:
            merged.append(group[0])
            continue
        nodes = tuple(node for finding in group for node in finding.nodes)
        merged.append(
            Finding(
                code,
                f"{operand}: {len(group)} pods: {names((f.name for f in group), 4)}: {group[0].evidence[0]}",
                group[0].required,
                kind="Pod",
                namespace=group[0].namespace,
                nodes=nodes,
                severity=severity,
                retry=retry,
                evidence=[f.seen for f in group[:20]],
            )
        )
    return merged


def _operand(pod: Pod) -> tuple[str, str]:
    labels = meta(pod).get("labels") or {}
    for key, value, title, severity in _OPERANDS:
        if key in labels and value in ("", labels[key]):
            return title, severity
    return str(labels.get("app.kubernetes.io/name") or labels.get("app") or "other pod"), "advice"


def _node(pod: Pod) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")
