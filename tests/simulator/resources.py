"""The resource types that are served: built-in ones, and those that CustomResourceDefinitions add."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .errors import ApiError, no_such_path

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Resource:
    """One type under one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    subresources: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    custom: bool = False
    verbs: tuple[str, ...] = VERBS
    schema: Any = field(default=None, compare=False, hash=False)

    @property
    def api_version(self) -> str:
        """group/version, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> tuple[str, str]:
        """All versions of a type share their objects."""
        return (self.group, self.plural)


def _builtin() -> list[Resource]:
    table: list[tuple[str, str, list[tuple[Any, ...]]]] = [
        (
            "",
            "v1",
            [
                ("configmaps", "ConfigMap", True, (), ("cm",)),
                ("endpoints", "Endpoints", True, (), ("ep",)),
                ("events", "Event", True, (), ("ev",)),
                ("limitranges", "LimitRange", True, (), ("limits",)),
                ("namespaces", "Namespace", False, ("status",), ("ns",)),
                ("nodes", "Node", False, ("status",), ("no",)),
                ("persistentvolumeclaims", "PersistentVolumeClaim", True, ("status",), ("pvc",)),
                ("pods", "Pod", True, ("status", "exec", "log", "binding"), ("po",)),
                ("resourcequotas", "ResourceQuota", True, ("status",), ("quota",)),
                ("secrets", "Secret", True, (), ()),
                ("serviceaccounts", "ServiceAccount", True, (), ("sa",)),
                ("services", "Service", True, ("status",), ("svc",)),
            ],
        ),
        (
            "apps",
            "v1",
            [
                ("daemonsets", "DaemonSet", True, ("status",), ("ds",)),
                ("deployments", "Deployment", True, ("status",), ("deploy",)),
                ("replicasets", "ReplicaSet", True, ("status",), ("rs",)),
                ("statefulsets", "StatefulSet", True, ("status",), ("sts",)),
            ],
        ),
        (
            "batch",
            "v1",
            [
                ("cronjobs", "CronJob", True, ("status",), ("cj",)),
                ("jobs", "Job", True, ("status",), ()),
            ],
        ),
        ("coordination.k8s.io", "v1", [("leases", "Lease", True, (), ())]),
        (
            "rbac.authorization.k8s.io",
            "v1",
            [
                ("clusterrolebindings", "ClusterRoleBinding", False, (), ()),
                ("clusterroles", "ClusterRole", False, (), ()),
                ("rolebindings", "RoleBinding", True, (), ()),
                ("roles", "Role", True, (), ()),
            ],
        ),
        (
            "apiextensions.k8s.io",
            "v1",
            [
                (
                    "customresourcedefinitions",
                    "CustomResourceDefinition",
                    False,
                    ("status",),
                    ("crd", "crds"),
                ),
            ],
        ),
    ]
    rows = [
        Resource(group, version, plural, kind, namespaced, subs, short)
        for group, version, resources in table
        for plural, kind, namespaced, subs, short in resources
    ]
    for plural, kind in (
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ):
        rows.append(
            Resource("authorization.k8s.io", "v1", plural, kind, False, verbs=("create",)),
        )
    rows.append(
        Resource(
            "authentication.k8s.io",
            "v1",
            "selfsubjectreviews",
            "SelfSubjectReview",
            False,
            verbs=("create",),
        ),
    )
    return rows


class Registry:
    """Finds a type by group, version and plural; serves the discovery documents' data."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_key: dict[tuple[str, str], Resource] = {}
        for resource in _builtin():
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serves a type."""
        self._by_path[(resource.group, resource.version, resource.plural)] = resource
        self._by_key.setdefault(resource.key, resource)

    def remove(self, group: str, plural: str) -> None:
        """Stops serving all versions of a type."""
        self._by_key.pop((group, plural), None)
        for path in [p for p in self._by_path if p[0] == group and p[2] == plural]:
            del self._by_path[path]

    def find(self, group: str, version: str, plural: str) -> Resource:
        """The type of a path; raises 404."""
        resource = self._by_path.get((group, version, plural))
        if resource is None:
            raise no_such_path()
        return resource

    def of_key(self, key: tuple[str, str]) -> Resource:
        """Some version of a type, by group and plural."""
        return self._by_key[key]

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The type with an apiVersion and a kind; None when there is none."""
        for resource in self._by_path.values():
            if resource.kind == kind and resource.api_version == api_version:
                return resource
        return None

    def all_keys(self) -> list[tuple[str, str]]:
        """Group and plural of every type."""
        return list(self._by_key)

    def group_versions(self) -> list[tuple[str, str]]:
        """All groups with their versions, in order."""
        return sorted({(g, v) for g, v, _unused in self._by_path})

    def of_group_version(self, group: str, version: str) -> list[Resource]:
        """The types of one group and version; raises 404."""
        found = [
            r for (g, v, _unused), r in sorted(self._by_path.items()) if (g, v) == (group, version)
        ]
        if not found:
            raise no_such_path()
        return found


def resources_of_crd(crd: dict[str, Any]) -> list[Resource]:
    """The types, one a served version, that a CustomResourceDefinition declares."""
    spec = crd["spec"]
    names = spec["names"]
    out = []
    for version in spec.get("versions") or []:
        if not version.get("served", True):
            continue
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None and not spec.get("preserveUnknownFields"):
            raise ApiError(422, "Invalid", f"version {version['name']} has no schema")
        out.append(
            Resource(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                spec["scope"] == "Namespaced",
                ("status",) if "status" in (version.get("subresources") or {}) else (),
                tuple(names.get("shortNames") or ()),
                custom=True,
                schema=schema,
            ),
        )
    return out
