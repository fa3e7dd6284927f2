# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the identity that runs the tests may do, and what the test namespace lets in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .readiness_findings import Context, Finding, Judgement, meta, names
from .readiness_settings import Settings

#: Pod Security levels under which IPC_LOCK may not be added: their lists of capabilities do not have it
#: (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
_REFUSING_LEVELS = ("baseline", "restricted")
_ENFORCE = "pod-security.kubernetes.io/enforce"
_ACCESS_REVIEW = "SelfSubjectAccessReview"
_SCC_REVIEW = "PodSecurityPolicySelfSubjectReview"
_PULL_SECRET_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")


class Right(NamedTuple):
    """One thing that must be allowed. ``namespace`` is None for cluster-wide; ``why`` is told when it is missing."""

    verb: str
    group: str
    resource: str
    namespace: str | None
    why: str
    severity: str = "required"
    name: str = ""

    def words(self) -> str:
        """The right as ``kubectl auth can-i`` takes it, in words."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        resource += f"/{self.name}" if self.name else ""
        return f"{self.verb} {resource} " + (
            f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        )


#: Verbs on pods and their subresources that the chosen tests use in the test namespace.
#: ``get`` on pods/exec is what a WebSocket is authorised by, ``create`` what newer API servers ask for in addition.
_TEST_RIGHTS = (
    ("pods", ("create", "get", "list", "patch", "delete", "deletecollection"), "run the test pods"),
    ("pods/exec", ("create", "get"), "run commands in the test pods"),
)
#: What each read takes: (verb, API group, resource, severity).
READ_RIGHTS = {
    "nodes": ("list", "", "nodes", "required"),
    "pods": ("list", "", "pods", "required"),
    "daemon_pods": ("list", "", "pods", "required"),
    "driver_pods": ("list", "", "pods", "required"),
    "namespace": ("get", "", "namespaces", "required"),
    "policies": ("list", "mellanox.com", "nicclusterpolicies", "required"),
    "networks": ("list", "k8s.cni.cncf.io", "network-attachment-definitions", "required"),
    "gpu_policies": ("list", "nvidia.com", "clusterpolicies", "required"),
    "node_policies": ("list", "mellanox.com", "nicnodepolicies", "required"),
    "ip_pools": ("list", "nv-ipam.nvidia.com", "ippools", "required"),
    "cidr_pools": ("list", "nv-ipam.nvidia.com", "cidrpools", "required"),
    "sriov_states": ("list", "sriovnetwork.openshift.io", "sriovnetworknodestates", "required"),
    "nic_devices": ("list", "configuration.net.nvidia.com", "nicdevices", "advice"),
}
#: Reads that are always made; the others show by themselves whether they are allowed.
_ALWAYS_READ = ("nodes", "pods", "namespace", "policies", "networks")


def needed_rights(settings: Settings) -> list[Right]:
    """Everything that readiness and the chosen tests will do, as rights."""
    reads = [*_ALWAYS_READ, "gpu_policies"] if settings.wants_gpu else list(_ALWAYS_READ)
    rights = [read_right(read_id, settings) for read_id in reads]
    for resource, verbs, why in _TEST_RIGHTS:
        rights += [Right(verb, "", resource, settings.namespace, why) for verb in verbs]
    rights.append(
        Right("list", "", "events", settings.namespace, "say why a pod does not start", "advice")
    )
    rights += [
        Right("get", "", "secrets", settings.namespace, "see that it exists", "advice", secret)
        for secret in settings.image_pull_secrets
    ]
    return rights


def read_right(read_id: str, settings: Settings) -> Right:
    """The right that a read takes."""
    verb, group, resource, severity = READ_RIGHTS[read_id]
    name = settings.namespace if resource == "namespaces" else ""
    return Right(verb, group, resource, None, "look at the cluster", severity, name)


def reviews(settings: Settings) -> list[dict[str, Any]]:
    """The questions to the API server: a SelfSubjectAccessReview for each right, in the order of :func:`needed_rights`,
    then OpenShift's question whether a pod may lock memory.

    One review asks for one verb, but all of them go through one task; a SelfSubjectRulesReview would be a single
    object, yet its list may be incomplete (authorizers that cannot enumerate), and then says no where yes is right.
    """
    return [*map(_access_review, needed_rights(settings)), _scc_review(settings.namespace)]


def _access_review(right: Right) -> dict[str, Any]:
    resource, _slash, subresource = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource}
    if subresource:
        attributes["subresource"] = subresource
    if right.namespace:
        attributes["namespace"] = right.namespace
    if right.name:
        attributes["name"] = right.name
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": _ACCESS_REVIEW,
        "spec": {"resourceAttributes": attributes},
    }


def _scc_review(namespace: str) -> dict[str, Any]:
    """May this identity create a pod in the namespace that adds IPC_LOCK, as the test pods do?"""
    capabilities = {"capabilities": {"add": ["IPC_LOCK"]}}
    container = {"name": "probe", "image": "none", "securityContext": capabilities}
    return {
        "apiVersion": "security.openshift.io/v1",
        "kind": _SCC_REVIEW,
        "metadata": {"namespace": namespace},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def _answers(context: Context, kind: str) -> list[Mapping[str, Any]]:
    return [answer for answer in context.reviews if answer["item"]["kind"] == kind]


def is_openshift(context: Context) -> bool:
    """Whether the API server knows OpenShift's review."""
    return any(answer.get("api_found") for answer in _answers(context, _SCC_REVIEW))


def judge_permissions(context: Context) -> Judgement:
    """Everything that the chosen tests will do is allowed. One finding lists all that is not."""
    rights = needed_rights(context.settings)
    answers = _answers(context, _ACCESS_REVIEW)
    refused = [
        read_right(read_id, context.settings)
        for read_id in READ_RIGHTS
        if context.status(read_id) == "forbidden"
    ]
    # a kind that is not there needs no right to be read
    absent = {READ_RIGHTS[i][1] for i in READ_RIGHTS if context.status(i) == "no_kind"}
    unanswered = [answer for answer in answers if "resource" not in answer]
    if unanswered or len(answers) != len(rights):
        words = next((str(answer["msg"]) for answer in unanswered if answer.get("msg")), "")
        words = words or "no answer to the SelfSubjectAccessReviews"
        missing = refused
        # the tests themselves will tell; what was read was allowed
        findings = [
            Finding(
                "access_review_failed", words, kind="SelfSubjectAccessReview", severity="advice"
            )
        ]
    else:
        findings = []
        missing = [
            right
            for right, answer in zip(rights, answers, strict=True)
            if not _allowed(answer["resource"]) and right.group not in absent
        ]
        missing += refused
    for severity in ("required", "advice"):
        lacking = list(dict.fromkeys(right for right in missing if right.severity == severity))
        if lacking:
            findings.append(
                Finding(
                    "forbidden",
                    f"not allowed: {'; '.join(right.words() for right in lacking)}",
                    namespace=context.settings.namespace,
                    severity=severity if severity == "advice" else None,
                    evidence=[right._asdict() for right in lacking],
                )
            )
    return Judgement(findings, seen=f"{len(rights)} rights asked for, all allowed")


def _allowed(review: Mapping[str, Any]) -> bool:
    return bool((review.get("status") or {}).get("allowed"))


def judge_pod_security(context: Context) -> Judgement:
    """Pod Security admission of the test namespace lets a pod add the capability IPC_LOCK."""
    namespace = next(iter(context.items("namespace")), None)
    if namespace is None:
        return Judgement(skipped="the namespace does not exist")
    level = (meta(namespace).get("labels") or {}).get(_ENFORCE)
    if level in _REFUSING_LEVELS:
        seen = f"namespace {meta(namespace).get('name')} enforces {level}"
        finding = Finding(
            "pod_security", seen, "privileged", kind="Namespace", name=meta(namespace).get("name")
        )
        return Judgement([finding])
    return Judgement(
        seen=f"level {level}" if level else "no level set: the cluster's default applies"
    )


def judge_scc(context: Context) -> Judgement:
    """On OpenShift: some SecurityContextConstraints lets the test pod's service account add IPC_LOCK."""
    if not is_openshift(context):
        return Judgement(skipped="no OpenShift")
    answer = _answers(context, _SCC_REVIEW)[0]
    status = (answer.get("resource") or {}).get("status")
    if status is None:
        words = str(answer.get("msg") or "no answer")
        return Judgement([Finding("scc_unknown", words, severity="advice")])
    allowed_by = (status.get("allowedBy") or {}).get("name")
    if not allowed_by:
        seen = (
            f"no SecurityContextConstraints allows it: {status.get('reason') or 'no reason given'}"
        )
        return Judgement([Finding("scc", seen, "IPC_LOCK", namespace=context.settings.namespace)])
    return Judgement(seen=f"allowed by {allowed_by}")


def judge_pull_secrets(context: Context) -> Judgement:
    """The image pull secrets that were named exist and are such."""
    secrets = context.settings.image_pull_secrets
    if not secrets:
        return Judgement(skipped="no image pull secrets named")
    namespace = context.settings.namespace
    findings = []
    for name in secrets:
        where: dict[str, Any] = {"kind": "Secret", "namespace": namespace, "name": name}
        status = context.status(f"secret:{name}")
        found = context.items(f"secret:{name}")
        if status == "ok" and not found:
            seen = f"no secret {name} in namespace {namespace}"
            findings.append(Finding("pull_secret_missing", seen, **where))
        elif status != "ok":
            seen = f"secret {name} may not be read"
            findings.append(Finding("pull_secret_unknown", seen, severity="advice", **where))
        elif found[0].get("type") not in _PULL_SECRET_TYPES:
            seen = f"secret {name} is of type {found[0].get('type')}"
            required = names(_PULL_SECRET_TYPES)
            findings.append(Finding("pull_secret_type", seen, required, **where))
    return Judgement(findings, seen=f"{names(secrets)}: there")
