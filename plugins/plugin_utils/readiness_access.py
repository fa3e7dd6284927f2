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
    ("pods", ("create", "get", "list", "patch", "delete"), "run the test pods"),
    ("pods/exec", ("create", "get"), "run commands in the test pods"),
)
#: What each read takes: (verb, API group, resource, severity).
READ_RIGHTS = {
    "nodes": ("list", "", "nodes", "required"),
    "all_pods": ("list", "", "pods", "required"),
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
_ALWAYS_READ = ("nodes", "all_pods", "namespace", "policies", "networks")


def needed_rights(settings: Settings, apis: Mapping[str, Any] | None) -> list[Right]:
    """Everything that readiness and the chosen tests will do, as rights, less API groups that are not served."""
    reads = [*_ALWAYS_READ, "gpu_policies"] if settings.wants_gpu else list(_ALWAYS_READ)
    rights = [read_right(read_id, settings) for read_id in reads]
    # a kind that is not there needs no right to be read
    rights = [right for right in rights if not right.group or _serves(apis, right.group)]
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


def _serves(apis: Mapping[str, Any] | None, group: str) -> bool:
    return any(version.startswith(f"{group}/") for version in apis or {})


def access_reviews(settings: Settings, apis: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """SelfSubjectAccessReview objects, one for each right, in the order of :func:`needed_rights`.

    One review asks for one verb, but all of them go through one task; a SelfSubjectRulesReview would be a single
    object, yet its list may be incomplete (authorizers that cannot enumerate), and then says no where yes is right.
    """
    reviews = []
    for right in needed_rights(settings, apis):
        resource, _slash, subresource = right.resource.partition("/")
        attributes = {"verb": right.verb, "group": right.group, "resource": resource}
        if subresource:
            attributes["subresource"] = subresource
        if right.namespace:
            attributes["namespace"] = right.namespace
        if right.name:
            attributes["name"] = right.name
        reviews.append(
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            }
        )
    return reviews


def judge_permissions(context: Context) -> Judgement:
    """Everything that the chosen tests will do is allowed. One finding lists all that is not."""
    rights = needed_rights(context.settings, context.cluster.get("apis"))
    results = _review_results(context.access)
    refused = [
        read_right(read_id, context.settings)
        for read_id in READ_RIGHTS
        if context.status(read_id) == "forbidden"
    ]
    if len(results) != len(rights):
        words = str(context.access.get("msg") or "no answer to the SelfSubjectAccessReviews")
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
            right for right, result in zip(rights, results, strict=True) if not _allowed(result)
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


def _review_results(access: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The answers in order, out of what ``kubernetes.core.k8s`` registered for a list of objects."""
    result = access.get("result") or {}
    if "results" in result:
        return [entry.get("result") or {} for entry in result["results"]]
    return [result] if result else []


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
    review = context.scc
    if not review or review.get("skipped"):
        return Judgement(skipped="no OpenShift")
    status = (review.get("result") or {}).get("status")
    if status is None:
        words = str(review.get("msg") or "no answer")
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
