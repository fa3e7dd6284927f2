# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fact deploy_result, and its words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .deploy_objects import key_of
from .deploy_plan import dropped
from .deploy_settings import variables_for_tests

Result = dict[str, Any]


def conclude(
    settings: Mapping[str, Any],
    plan: Mapping[str, Any],
    applied: Iterable[Mapping[str, Any]],
    removed: Iterable[Mapping[str, Any]],
    waits: Iterable[Mapping[str, Any]],
    run: Mapping[str, Any],
) -> Result:
    """The result of a deployment.

    Args:
        settings: from :func:`deploy_settings.make_settings`; empty when they were wrong.
        plan: from :func:`deploy_plan.plan`; empty when it was not made.
        applied: results of kubernetes.core.k8s, one an object: {item: {definition, action}, changed, result}. In check mode an object
            of a kind that does not exist yet is {item, skipped}.
        removed: results of kubernetes.core.k8s for what was removed: {item: definition, changed}.
        waits: from :func:`deploy_progress.progress`, the last of each phase.
        run: {check_mode, started, ended, operator, failure}; `operator` says what was done about the operator itself, `failure` is
            the message of the task that failed, or empty.

    Returns:
        {state, ready, failed, changed, check_mode, network_type, link_layer, ipam, objects: [{kind, namespace, name, action, changed}],
        components: {name: state}, waits: [{phase, ready, text}], problems: [sentence], warnings: [sentence], operator,
        test_variables, started, ended}. `ready` is true only when everything that was waited for is there; it is false in check
        mode and when nothing was waited for. `failed` is true with any problem.
    """
    applied, removed, waits = list(applied), list(removed), list(waits)
    objects = [
        _row(entry["item"]["definition"], entry["item"]["action"], entry) for entry in applied
    ] + [_row(entry["item"], "remove", entry) for entry in removed]
    present = settings.get("state") == "present"
    problems = list(plan.get("problems") or [])
    if run.get("failure") and not problems:
        problems.append(str(run["failure"]))
    problems += [_not_ready(wait, settings["timeout_s"]) for wait in waits if not wait["ready"]]
    return {
        "state": settings.get("state", ""),
        "ready": bool(present and waits and not problems),
        "failed": bool(problems),
        "changed": any(row["changed"] for row in objects) or run.get("operator") in _CHANGED,
        "check_mode": bool(run.get("check_mode")),
        "network_type": settings.get("network_type", ""),
        "link_layer": settings.get("link_layer", ""),
        "ipam": settings.get("ipam", ""),
        "objects": objects,
        "components": next((w["components"] for w in waits if w["phase"] == "policy"), {}),
        "waits": [{key: w[key] for key in ("phase", "ready", "text")} for w in waits],
        "problems": problems,
        "warnings": _warnings(settings, applied) if present else [],
        "operator": run.get("operator") or "not_touched",
        "test_variables": variables_for_tests(settings) if present else {},
        "started": run.get("started", ""),
        "ended": run.get("ended", ""),
    }


def _not_ready(wait: Mapping[str, Any], timeout_s: int) -> str:
    if wait["hopeless"]:
        return f"{wait['text']}: waiting does not help"
    return (
        f"not ready after {timeout_s} s (deploy_timeout): {wait['text']}. {_HINTS[wait['phase']]}"
    )


_HINTS = {
    "policy": (
        "Look at the pods of the component in the operator's namespace; a driver is built on the node for up to 20 minutes;"
        " DaemonSets without a node (label feature.node.kubernetes.io/pci-15b3.present) stay notReady for ever."
    ),
    "pools": "Look at the nv-ipam controller in the operator's namespace, and whether nodes match deploy_node_selector.",
    "sriov_nodes": "Look at the sriov-network-config-daemon of the node; new virtual functions may need a reboot.",
    "networks": "Look at the log of the operator.",
    "attachments": "The operator makes one from each network object; look at its log.",
    "resources": (
        "Look at the device plugin's pods and log: the selection of deploy_rails may match no adapter, or the name of an interface"
        " may differ on these nodes."
    ),
}
_CHANGED = ("installed", "removed")


def _row(definition: Mapping[str, Any], action: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    kind, namespace, name = key_of(definition)
    return {
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "action": action,
        "changed": bool(entry.get("changed") or entry.get("skipped")),
    }


def _warnings(settings: Mapping[str, Any], applied: list[Mapping[str, Any]]) -> list[str]:
    out = []
    for entry in applied:
        kept = entry.get("result")
        fields = dropped(entry["item"]["definition"], kept) if kept else []
        if fields:
            kind, _namespace, name = key_of(entry["item"]["definition"])
            out.append(
                f"{kind} {name}: the API server did not keep {', '.join(fields)}; the operator that is installed is older than what"
                " was asked for"
            )
    if settings["ipam"] == "static":
        out.append(
            "deploy_ipam=static gives every pod of a network the same address: two test pods would have one address between them"
        )
    if settings["ipam"] == "host-local":
        out.append(
            "deploy_ipam=host-local counts addresses on each node for itself: pods of two nodes may get the same address; use nv-ipam"
            " or whereabouts to test between nodes"
        )
    return out


def explain(result: Mapping[str, Any]) -> list[str]:
    """The result in lines for a person."""
    changed = [row for row in result["objects"] if row["changed"]]
    verb = "would change" if result["check_mode"] else "changed"
    lines = [f"{len(result['objects'])} objects, {len(changed)} {verb}"]
    lines += [f"  {row['action']:<7} {_named(row)}" for row in changed]
    lines += [
        f"  {'ready' if wait['ready'] else 'WAITING':<7} {wait['text']}" for wait in result["waits"]
    ]
    lines += [f"  warning {text}" for text in result["warnings"]]
    if result["failed"]:
        return [*lines, *(f"  FAILED  {text}" for text in result["problems"])]
    if result["test_variables"]:
        lines.append("Readiness and the tests need these variables:")
        lines += [f"  {name}: {_yaml(value)}" for name, value in result["test_variables"].items()]
    return lines


def _named(row: Mapping[str, Any]) -> str:
    name = f"{row['namespace']}/{row['name']}" if row["namespace"] else row["name"]
    return f"{row['kind']} {name}"


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(value)}]" if isinstance(value, list) else str(value)
