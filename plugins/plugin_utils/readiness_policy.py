# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges the NicClusterPolicy and the NicNodePolicies.

What the states mean, from the operator's sources (api/v1alpha1/nicclusterpolicy_types.go, pkg/state/manager.go,
controllers/nic_policy_helpers.go): a component that is not asked for is ``ignore`` and blocks nothing; the whole
object is ``ignore`` when its name is not the one the operator acts on, and then nothing is deployed; entries of
``appliedStates`` are never pruned, so names that newer versions dropped stay with their last value, and only the
top level decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .readiness_findings import Context, Finding, Judgement, meta, names, status_of
from .readiness_nodes import is_labelled
from .readiness_settings import POLICY_NAME

Policy = Mapping[str, Any]
_KIND = "NicClusterPolicy"


def judge_policy(context: Context) -> Judgement:
    """The cluster's policy exists, is current and is ``ready``."""
    if context.status("policies") == "no_kind":
        seen = "the API server does not know the kind NicClusterPolicy"
        return Judgement([Finding("policy_kind_absent", seen, kind=_KIND)])
    policies = {meta(item).get("name"): item for item in context.items("policies")}
    if not policies:
        return Judgement([Finding("policy_absent", "no NicClusterPolicy", kind=_KIND)])
    policy = policies.get(POLICY_NAME)
    if policy is None:
        found = names(sorted(map(str, policies)))
        reason = status_of(next(iter(policies.values()))).get("reason")
        return Judgement(
            [
                Finding(
                    "unsupported_name",
                    f"only {found}" + (f": {reason}" if reason else ""),
                    f"a NicClusterPolicy named {POLICY_NAME}",
                    kind=_KIND,
                    name=next(iter(policies)),
                )
            ]
        )
    no_nodes = context.status("nodes") == "ok" and not any(map(is_labelled, context.items("nodes")))
    return judge_policy_object(policy, context.settings.required_components, no_nodes)


def judge_policy_object(
    policy: Policy, required_components: tuple[str, ...] = (), no_nodes: bool = False
) -> Judgement:
    """Judges one policy, of the cluster or of nodes.

    ``no_nodes`` says that no node carries the label that the operator's DaemonSets select: then they have nothing
    to run, which the operator calls ``notReady`` for as long as that stays so.
    """
    name = str(meta(policy).get("name"))
    kind = str(policy.get("kind") or _KIND)
    status = status_of(policy)
    state = status.get("state")
    where = {"kind": kind, "name": name}
    if meta(policy).get("deletionTimestamp"):
        return Judgement([Finding("policy_deleting", f"{name} is being deleted", **where)])
    if not state:
        return Judgement([Finding("policy_no_status", f"{name} has no status yet", **where)])
    stale = stale_generation(policy)
    if stale:
        return Judgement([Finding("stale_status", f"{name}: {stale}", **where, evidence=stale)])
    components = {
        str(item.get("name")): item
        for item in status.get("appliedStates") or []
        if isinstance(item, Mapping)
    }
    states = {component: item.get("state") for component, item in components.items()}
    if state == "ready":
        missing = [name for name in required_components if states.get(name) != "ready"]
        findings = [
            Finding(
                "component_missing",
                f"{component} is {states.get(component) or 'not listed'}",
                "ready",
                **where,
                evidence=states,
            )
            for component in missing
        ]
        ready = sum(value == "ready" for value in states.values())
        seen = f"{name} is ready: {ready} components ready, the others not asked for"
        return Judgement(findings, seen=seen, evidence=states)
    if state == "ignore":
        seen = f"{name} is ignored by the operator: {status.get('reason') or 'no reason given'}"
        return Judgement([Finding("unsupported_name", seen, "ready", **where)])
    return Judgement(_blocking(policy, state, components, no_nodes, where))


def _blocking(
    policy: Policy,
    state: str,
    components: Mapping[str, Mapping[str, Any]],
    no_nodes: bool,
    where: Mapping[str, str],
) -> list[Finding]:
    name = meta(policy).get("name")
    findings = []
    for wanted, code in (("error", "component_error"), ("notReady", "component_not_ready")):
        found = [item for item in components.values() if item.get("state") == wanted]
        if found:
            told = names((_component_words(item) for item in found), 20)
            findings.append(
                Finding(
                    code,
                    f"{name} is {state}; {wanted}: {told}",
                    "ready",
                    **where,
                    evidence={
                        str(item.get("name")): item.get("message") or wanted for item in found
                    },
                )
            )
    # the object as a whole can be in error without any component being so (overlapping node policies)
    if state == "error" and not any(finding.code == "component_error" for finding in findings):
        reason = status_of(policy).get("reason") or _ready_condition(policy).get("message")
        seen = f"{name} is error: {reason or 'no reason given'}"
        findings.insert(0, Finding("policy_error", seen, "ready", **where))
    if not findings:
        reason = status_of(policy).get("reason") or _ready_condition(policy).get("message")
        seen = f"{name} is {state}" + (f": {reason}" if reason else "")
        findings.append(Finding("component_not_ready", seen, "ready", **where, evidence={}))
    if no_nodes and all(finding.code == "component_not_ready" for finding in findings):
        seen = f"{findings[0].seen}; no node carries the label that its DaemonSets select"
        return [Finding("policy_no_nodes", seen, "ready", **where, evidence=findings[0].evidence)]
    return findings


def _component_words(item: Mapping[str, Any]) -> str:
    message = item.get("message")
    return f"{item.get('name')}" + (f" ({message})" if message else "")


def stale_generation(item: Mapping[str, Any]) -> str | None:
    """Says so when a status describes an older spec: a condition observed a generation before the present one.

    Operators before 26.7 write no conditions; nothing can be told then.
    """
    generation = meta(item).get("generation")
    observed = [
        condition["observedGeneration"]
        for condition in status_of(item).get("conditions") or []
        if isinstance(condition.get("observedGeneration"), int)
    ]
    if isinstance(generation, int) and observed and max(observed) < generation:
        return (
            f"the status describes generation {max(observed)}, the spec is generation {generation}"
        )
    return None


def _ready_condition(item: Mapping[str, Any]) -> Mapping[str, Any]:
    conditions = status_of(item).get("conditions") or []
    return next((entry for entry in conditions if entry.get("type") == "Ready"), {})


def judge_node_policies(context: Context) -> Judgement:
    """Every NicNodePolicy (drivers and device plugins for a group of nodes, operator 26.4 and later) is ready."""
    policies = context.items("node_policies")
    if not policies:
        return Judgement(skipped="no NicNodePolicy")
    findings = [finding for policy in policies for finding in judge_policy_object(policy).findings]
    return Judgement(findings, seen=f"ready: {names(meta(item).get('name') for item in policies)}")
