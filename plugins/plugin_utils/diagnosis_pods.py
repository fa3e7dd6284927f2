# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a pod is not Running, or runs without its secondary network."""

from __future__ import annotations

import json

from ansible_collections.k8si.fabric.plugins.plugin_utils.catalogue import best_match, finding

NETWORKS = "k8s.v1.cni.cncf.io/networks"
STATUS_KEYS = ("k8s.v1.cni.cncf.io/network-status", "k8s.v1.cni.cncf.io/networks-status")

_IMAGE_REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "ImageInspectError",
)
_START_REASONS = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "StartError",
    "ContainerCannotRun",
    "PreCreateHookError",
    "PostStartHookError",
)


def diagnose_pod(pod: dict, events: list[dict] | None = None) -> dict | None:
    """Return a finding that says why a pod does not run as it should, or None if it does.

    pod: the Pod object ({} if the API server refused it; then only events tell). events: Event objects,
    of any pods; those of other pods are left out. A pod that is still starting without any trouble gives
    pod_not_started, which a wait may clear.
    """
    meta, status = _dict(pod, "metadata"), _dict(pod, "status")
    where = {
        "pod": _text(meta, "name"),
        "namespace": _text(meta, "namespace"),
        "node": _text(_dict(pod, "spec"), "nodeName"),
    }
    where = {key: value for key, value in where.items() if value}
    messages = _warnings(meta, events or [])

    if meta.get("deletionTimestamp"):
        return finding(
            "pod_deleted", where=where, seen=f"deletionTimestamp {meta['deletionTimestamp']}"
        )
    phase = status.get("phase")
    if phase in ("Failed", "Succeeded"):
        return _ended(status, phase, where)
    if found := _unscheduled(status, where):
        return found
    if found := _containers(status, where):
        return found
    if phase == "Running" and all(
        c.get("ready", True) for c in _items(status, "containerStatuses")
    ):
        return _network(meta, where)
    if messages:
        return _from_text(messages, where) or finding(
            "pod_not_started", where=where, seen=messages[0][:500], line=messages[0][:500]
        )
    return finding(
        "pod_not_started", where=where, seen=f"phase {phase or 'none'}, no warning among its events"
    )


def _dict(value: object, key: str) -> dict:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _items(value: object, key: str) -> list[dict]:
    found = value.get(key) if isinstance(value, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _text(value: dict, *keys: str) -> str:
    """Return the first of some keys that holds a text."""
    return next((value[key] for key in keys if isinstance(value.get(key), str) and value[key]), "")


def _warnings(meta: dict, events: list[dict]) -> list[str]:
    """Return the messages of a pod's warnings, newest first: what happened last is what holds it now."""
    name, uid = _text(meta, "name"), _text(meta, "uid")
    own = []
    for event in events:
        about = _dict(event, "involvedObject") or _dict(event, "regarding")
        if event.get("type") == "Normal":
            continue
        if name and _text(about, "name") not in ("", name):
            continue
        if uid and _text(about, "uid") not in ("", uid):
            continue
        when = _text(event, "lastTimestamp", "eventTime", "firstTimestamp")
        own.append((when, _text(event, "message", "note", "reason")))
    own.sort(key=lambda pair: pair[0], reverse=True)
    return [message for _when, message in own if message]


def _from_text(messages: list[str], where: dict) -> dict | None:
    lines = [" ".join(message.split()) for message in messages]
    match = best_match(lines, {}, ("pod",))
    if match is None:
        return None
    return finding(match[0].code, where=where, seen=match[1][:500], line=match[1][:500])


def _ended(status: dict, phase: str, where: dict) -> dict:
    text = ": ".join(filter(None, (_text(status, "reason"), _text(status, "message"))))
    if text and (found := _from_text([text], where)):
        return found
    for container in _all_containers(status):
        ended = _dict(_dict(container, "state"), "terminated")
        if ended:
            return _crash(container, ended, where)
    return finding("pod_crash", where=where, seen=text or f"phase {phase}")


def _unscheduled(status: dict, where: dict) -> dict | None:
    for condition in _items(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            text = _text(condition, "message", "reason") or "not scheduled"
            return _from_text([text], where) or finding(
                "unschedulable", where=where, seen=text[:500], line=text[:500]
            )
    return None


def _all_containers(status: dict) -> list[dict]:
    return _items(status, "initContainerStatuses") + _items(status, "containerStatuses")


def _containers(status: dict, where: dict) -> dict | None:
    for container in _all_containers(status):
        here = {**where, "container": container.get("name", "")}
        state = _dict(container, "state")
        waiting, ended = _dict(state, "waiting"), _dict(state, "terminated")
        reason, text = _text(waiting, "reason"), _text(waiting, "message")
        seen = f"{reason}: {text}" if text else reason
        if reason in _IMAGE_REASONS:
            return finding("image_pull", where=here, seen=seen[:500], line=text[:500])
        if reason in _START_REASONS:
            return _from_text([seen], here) or finding(
                "container_start", where=here, seen=seen[:500], line=text[:500]
            )
        if reason == "CrashLoopBackOff":
            return _crash(container, _dict(_dict(container, "lastState"), "terminated"), where)
        finished_init = (
            container in _items(status, "initContainerStatuses") and ended.get("exitCode") == 0
        )
        if ended and not finished_init:
            return _crash(container, ended, where)
    return None


def _crash(container: dict, ended: dict, where: dict) -> dict:
    here = {**where, "container": container.get("name", "")}
    text = f"{_text(ended, 'reason')} {_text(ended, 'message')}".strip()
    if text and (found := _from_text([text], here)):
        return found
    seen = (
        f"exit code {ended.get('exitCode', 'unknown')}, restarts {container.get('restartCount', 0)}"
    )
    return finding(
        "pod_crash", where=here, seen=f"{seen}; {text}".rstrip("; ")[:500], line=text[:500]
    )


def _network(meta: dict, where: dict) -> dict | None:
    notes = _dict(meta, "annotations")
    if not _text(notes, NETWORKS):
        return None
    text = _text(notes, *STATUS_KEYS)
    if not text:
        return finding(
            "multus_not_active",
            where=where,
            seen=f"network {notes[NETWORKS].strip()[:200]} was requested and there is no network-status",
        )
    try:
        valid = isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        valid = False
    if not valid:
        return finding("bad_network_status", where=where, seen=text[:200], line=text[:200])
    return None
