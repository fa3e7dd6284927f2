# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges the GPU Operator and the way that network adapters reach GPU memory.

The API alone can show that nvidia-peermem is loaded (its sidecar is ready). For DMA-BUF it shows only that nothing
speaks against it; the measurement itself is the proof, and the words say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .readiness_findings import Context, Finding, Judgement, meta, names, status_of
from .readiness_nodes import all_nodes, ready_names
from .readiness_operator import pod_problem
from .readiness_policy import stale_generation
from .readiness_quantity import version_tuple

Item = Mapping[str, Any]

_KIND = "ClusterPolicy"
_PEERMEM = "nvidia-peermem-ctr"
#: Reasons with which the operator says "ready" though it deployed nothing (controllers/clusterpolicy_controller.go).
_IDLE = {"NFDLabelsMissing", "NoGPUNodes"}
#: DMA-BUF for RDMA came with this kernel; from this driver branch on, "auto" means the open kernel modules.
_DMABUF_KERNEL = (5, 12)
_OPEN_BY_DEFAULT = (560,)
#: The first driver branch with open kernel modules at all.
_OPEN_EXISTS = (515,)


def judge_gpu_operator(context: Context) -> Judgement:
    """The GPU Operator's ClusterPolicy is ready, and not because it found nothing to do."""
    if context.status("gpu_policies") == "no_kind":
        seen = "the API server does not know the kind ClusterPolicy"
        return Judgement([Finding("gpu_operator_absent", seen, kind=_KIND)])
    policies = context.items("gpu_policies")
    if not policies:
        return Judgement([Finding("gpu_operator_absent", "no ClusterPolicy", kind=_KIND)])
    acting = [item for item in policies if status_of(item).get("state") != "ignored"]
    return judge_gpu_policy((acting or policies)[0])


def judge_gpu_policy(policy: Item) -> Judgement:
    """Judges one ClusterPolicy of the GPU Operator."""
    name = str(meta(policy).get("name"))
    where: dict[str, Any] = {"kind": _KIND, "name": name}
    status = status_of(policy)
    state = status.get("state")
    conditions = [item for item in status.get("conditions") or [] if item.get("status") == "True"]
    stale = stale_generation(policy)
    if stale:
        return Judgement([Finding("stale_status", f"{name}: {stale}", **where)])
    idle = [item for item in conditions if item.get("reason") in _IDLE]
    if idle:
        seen = f"{name} is {state}, {idle[0].get('reason')}: {idle[0].get('message') or 'nothing deployed'}"
        return Judgement([Finding("gpu_operator_idle", seen, "GPU nodes found", **where)])
    if state == "ready":
        return Judgement(seen=f"{name} is ready")
    messages = [str(item["message"]) for item in conditions if item.get("message")]
    seen = f"{name} is {state or 'without status'}" + (f": {names(messages)}" if messages else "")
    return Judgement([Finding("gpu_operator_not_ready", seen, "ready", **where)])


def memory_path(policy: Item | None) -> str:
    """How adapters reach GPU memory as far as the ClusterPolicy tells: ``peermem``, ``dmabuf`` or ``unknown``."""
    driver = ((policy or {}).get("spec") or {}).get("driver") or {}
    # a driver of the host, or one described by an NVIDIADriver object, is not described here
    if not policy or not driver.get("enabled", True) or driver.get("useNvidiaDriverCRD"):
        return "unknown"
    if (driver.get("rdma") or {}).get("enabled"):
        return "peermem"
    return "dmabuf" if _open_modules(driver) else "unknown"


def _open_modules(driver: Item) -> bool:
    module_type = driver.get("kernelModuleType") or "auto"
    if module_type == "proprietary":
        return False
    version = version_tuple(driver.get("version"))
    if module_type == "open" or driver.get("useOpenKernelModules"):
        return not version or version >= _OPEN_EXISTS
    return version >= _OPEN_BY_DEFAULT


def first_policy(context: Context) -> Item | None:
    """The ClusterPolicy that acts, None without one."""
    policies = context.items("gpu_policies")
    acting = [item for item in policies if status_of(item).get("state") != "ignored"]
    return next(iter(acting or policies), None)


def judge_memory_path(context: Context) -> Judgement:
    """Something lets the adapter reach GPU memory: nvidia-peermem on every GPU node, or plausibly DMA-BUF."""
    policy = first_policy(context)
    if policy is None:
        return Judgement(skipped="no ClusterPolicy")
    mode = memory_path(policy)
    if mode == "peermem":
        ready = ready_names(context.items("nodes")) if context.status("nodes") == "ok" else None
        return judge_peermem(context.items("driver_pods"), ready)
    if mode == "dmabuf":
        kernels = {node.name: node.kernel for node in all_nodes(context) if node.gpu}
        old = tuple(n for n, kernel in kernels.items() if version_tuple(kernel) < _DMABUF_KERNEL)
        if old:
            seen = f"{names(old)}: kernel {kernels[old[0]] or 'not told'}"
            return Judgement(
                [Finding("dmabuf_kernel", seen, "5.12", kind="Node", nodes=old, severity="advice")]
            )
        seen = "DMA-BUF is plausible (open kernel modules, kernel 5.12 or newer); only the test proves it"
        return Judgement(seen=seen, evidence={"mode": mode, "kernels": kernels})
    seen = "the ClusterPolicy does not tell how adapters reach GPU memory"
    return Judgement(
        [Finding("gpu_memory_path_unknown", seen, kind=_KIND, severity="advice")],
        evidence={"mode": mode},
    )


def judge_peermem(pods: Iterable[Item], ready_nodes: set[str] | None = None) -> Judgement:
    """The peermem sidecar is ready in the driver pod of every GPU node.

    ``ready_nodes`` leaves out pods of other nodes; None means that nothing is known about nodes.
    """
    findings = []
    fine = []
    driver_pods = list(pods)
    for pod in driver_pods:
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        if meta(pod).get("deletionTimestamp") or (
            ready_nodes is not None and node not in ready_nodes
        ):
            continue
        statuses = {c.get("name"): c for c in status_of(pod).get("containerStatuses") or []}
        sidecar = statuses.get(_PEERMEM)
        where: dict[str, Any] = {
            "kind": "Pod",
            "namespace": meta(pod).get("namespace"),
            "name": meta(pod).get("name"),
            "nodes": (node,),
        }
        if sidecar is None:
            seen = f"{node}: the driver pod has no container {_PEERMEM}"
            findings.append(Finding("peermem_absent", seen, **where))
        elif sidecar.get("ready"):
            fine.append(node)
        else:
            sort, words = pod_problem(pod) or ("not_ready", f"container {_PEERMEM} not ready")
            code = "peermem_not_ready" if sort == "not_ready" else "peermem_failed"
            findings.append(Finding(code, f"{node}: {words}", "ready", **where))
    if not driver_pods:
        seen = "no driver pod (label app=nvidia-driver-daemonset)"
        findings.append(Finding("peermem_absent", seen, kind="Pod"))
    seen = f"{_PEERMEM} is ready on {names(fine)}"
    return Judgement(findings, seen=seen, evidence={"mode": "peermem", "nodes": fine})
