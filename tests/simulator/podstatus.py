"""The status of pods as a kubelet writes it."""

from __future__ import annotations

import json
from typing import Any

from .clock import timestamp
from .machine import Machine

Obj = dict[str, Any]
NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"


def names(pod: Obj) -> list[str]:
    """Names of a pod's containers."""
    return [c["name"] for c in pod["spec"]["containers"]]


def terminated(code: int, reason: str) -> Obj:
    """The state of a container that has ended."""
    now = timestamp()
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}}


def waiting(reason: str, message: str = "") -> Obj:
    """The state of a container that has not started."""
    return {"waiting": {"reason": reason} | ({"message": message} if message else {})}


def running() -> Obj:
    """The state of a container that runs."""
    return {"running": {"startedAt": timestamp()}}


def status(
    pod: Obj,
    phase: str,
    state: Obj,
    host_ip: str,
    machine: Machine | None,
    restarts: int = 0,
    last: Obj | None = None,
) -> Obj:
    """A status in which all containers are in one state; machine is None before there is a sandbox."""
    up = "running" in state
    now = timestamp()
    out: Obj = {
        "phase": phase,
        "conditions": _conditions(pod, phase, up, machine is not None, now),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": pod["status"].get("startTime") or now,
        "containerStatuses": [
            _container(c, state, up, pod["metadata"]["uid"] if machine else "", restarts, last)
            for c in pod["spec"]["containers"]
        ],
    }
    if machine is not None and machine.addresses:
        out["podIP"] = machine.addresses[0]
        out["podIPs"] = [{"ip": a} for a in machine.addresses]
    if inits := pod["spec"].get("initContainers"):
        done = terminated(0, "Completed")
        out["initContainerStatuses"] = [_container(c, done, True, "", 0, None) for c in inits]
    return out


def _container(
    container: Obj, state: Obj, up: bool, uid: str, restarts: int, last: Obj | None
) -> Obj:
    image = container.get("image", "")
    out = {
        "name": container["name"],
        "image": image,
        "imageID": f"{image}@sha256:{'0' * 64}" if uid else "",
        "ready": up,
        "started": up,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }
    if uid:
        out["containerID"] = f"containerd://{uid.replace('-', '') * 2}"
    return out


def _conditions(pod: Obj, phase: str, up: bool, sandbox: bool, now: str) -> list[Obj]:
    ready: Obj = {"status": "True"}
    if not up:
        reason = "PodCompleted" if phase == "Succeeded" else "ContainersNotReady"
        unready = " ".join(names(pod))
        ready = {
            "status": "False",
            "reason": reason,
            "message": f"containers with unready status: [{unready}]",
        }
    rows = [
        {"type": "PodReadyToStartContainers", "status": "True" if sandbox else "False"},
        {"type": "Initialized", "status": "True"},
        {"type": "Ready", **ready},
        {"type": "ContainersReady", **ready},
    ]
    return [{**row, "lastProbeTime": None, "lastTransitionTime": now} for row in rows]


def merged(old: Obj, new: Obj) -> Obj:
    """A status over the one before: what others wrote stays, conditions are joined by type."""
    kept = {k: v for k, v in old.items() if k in ("qosClass", "startTime")}
    conditions = {c["type"]: c for c in old.get("conditions") or []}
    conditions.update({c["type"]: c for c in new.get("conditions") or []})
    return {**kept, **new, "conditions": list(conditions.values())}


def network_status(machine: Machine) -> Obj | None:
    """The annotation that Multus writes; None for a pod with the cluster network only."""
    if not machine.attachments:
        return None
    entries: list[Obj] = [
        {"name": "k8s-pod-network", "ips": machine.addresses, "default": True, "dns": {}}
    ]
    for attachment in machine.attachments:
        entries.append(
            {
                "name": attachment.network,
                "interface": attachment.interface,
                "ips": attachment.addresses,
                "mac": attachment.mac,
                "dns": {},
            }
        )
    return {NETWORK_STATUS: json.dumps(entries, indent=4)}
