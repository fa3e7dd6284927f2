"""RBAC objects, out of a manifest."""

from __future__ import annotations

import yaml

from ..api import Api

# What every caller may do.
EVERYBODY = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:basic-user", labels: {kubernetes.io/bootstrapping: rbac-defaults}}
rules:
  - apiGroups: [authorization.k8s.io]
    resources: [selfsubjectaccessreviews, selfsubjectrulesreviews]
    verbs: [create]
  - {apiGroups: [authentication.k8s.io], resources: [selfsubjectreviews], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:basic-user", labels: {kubernetes.io/bootstrapping: rbac-defaults}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:basic-user"}
subjects: [{kind: Group, name: "system:authenticated", apiGroup: rbac.authorization.k8s.io}]
"""

# What the collection is to get by with, when no manifest with its own is at hand.
BUILTIN_RBAC = """
apiVersion: v1
kind: Namespace
metadata: {name: k8si-fabric}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: fabric, namespace: k8si-fabric}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: k8si-fabric-read}
rules:
  - {apiGroups: [""], resources: [nodes, pods, namespaces, events], verbs: [get, list, watch]}
  - {apiGroups: [apps], resources: [daemonsets, deployments], verbs: [get, list, watch]}
  - {apiGroups: [mellanox.com], resources: ["*"], verbs: [get, list, watch]}
  - {apiGroups: [nvidia.com], resources: [clusterpolicies], verbs: [get, list, watch]}
  - {apiGroups: [nv-ipam.nvidia.com], resources: [ippools, cidrpools], verbs: [get, list, watch]}
  - {apiGroups: [k8s.cni.cncf.io], resources: [network-attachment-definitions], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: k8si-fabric-read}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: k8si-fabric-read}
subjects: [{kind: ServiceAccount, name: fabric, namespace: k8si-fabric}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: k8si-fabric-test, namespace: default}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [get, list, watch, create, patch, delete, deletecollection]}
  - {apiGroups: [""], resources: [pods/exec], verbs: [get, create]}
  - {apiGroups: [""], resources: [pods/log], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: k8si-fabric-test, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: k8si-fabric-test}
subjects: [{kind: ServiceAccount, name: fabric, namespace: k8si-fabric}]
"""


def permissions(api: Api, manifest: str) -> tuple[str, str]:
    """Stores the objects of a manifest; returns namespace and name of the service account that it binds."""
    account = ("k8si-fabric", "fabric")
    for obj in yaml.safe_load_all(manifest):
        if not obj:
            continue
        for item in obj.get("items") or [obj] if obj.get("kind", "").endswith("List") else [obj]:
            resource = api.registry.of_kind(item["apiVersion"], item["kind"])
            if resource is None:
                continue
            meta = item["metadata"]
            namespace = (meta.get("namespace") or "default") if resource.namespaced else None
            if resource.key == ("", "serviceaccounts"):
                account = (namespace or "default", meta["name"])
            if api.store.find(resource.key, namespace, meta["name"]) is None:
                if namespace and api.store.find(("", "namespaces"), None, namespace) is None:
                    api.create(
                        api.registry.find("", "v1", "namespaces"),
                        None,
                        {"metadata": {"name": namespace}},
                    )
                api.create(resource, namespace, item)
    return account
