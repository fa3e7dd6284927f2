"""Changes of objects that faults make, each with the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .api import Api
from .clock import timestamp
from .resources import Resource
from .store import thaw

Obj = dict[str, Any]
OPERATOR = "nvidia-network-operator"
POLICY = ("mellanox.com", "v1alpha1", "nicclusterpolicies")


class Overlay:
    """Remembers what objects were before a fault changed or removed them."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._before: dict[tuple[Any, str | None, str], tuple[Resource, Obj | None]] = {}
        self._timers: list[asyncio.TimerHandle] = []

    def later(self, timer: asyncio.TimerHandle) -> None:
        """A timer that ends with the fault."""
        self._timers.append(timer)

    def change(
        self,
        group: str,
        version: str,
        plural: str,
        namespace: str | None,
        name: str,
        how: Callable[[Obj], None],
    ) -> None:
        """Changes an object in place, when it is there."""
        resource = self._api.registry.find(group, version, plural)
        old = self._api.store.find(resource.key, namespace, name)
        if old is None:
            return
        self._before.setdefault((resource.key, namespace, name), (resource, old))
        new = thaw(old)
        how(new)
        self._api.store.put(resource.key, new)

    def delete(
        self, group: str, version: str, plural: str, namespace: str | None, name: str
    ) -> None:
        """Takes an object away without a trace; nothing that it owns goes with it."""
        resource = self._api.registry.find(group, version, plural)
        old = self._api.store.find(resource.key, namespace, name)
        if old is not None:
            self._before.setdefault((resource.key, namespace, name), (resource, old))
            self._api.store.remove(resource.key, namespace, name)

    def add(self, group: str, version: str, plural: str, obj: Obj) -> None:
        """Adds an object that goes away with the fault."""
        resource = self._api.registry.find(group, version, plural)
        meta = obj["metadata"]
        self._before.setdefault(
            (resource.key, meta.get("namespace"), meta["name"]), (resource, None)
        )
        self._api.put(resource, obj)

    def has(self, key: tuple[str, str], namespace: str | None, name: str) -> bool:
        """Whether a fault has changed or removed an object."""
        return (key, namespace, name) in self._before

    def restore(self) -> None:
        """Puts everything back."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        before, self._before = self._before, {}
        for (key, namespace, name), (_resource, old) in reversed(before.items()):
            if old is None:
                self._api.store.remove(key, namespace, name)
            else:
                self._api.store.put(key, thaw(old))

    # ---- what faults want
    def policy(self, state: str, component: str, message: str) -> None:
        """The state of NicClusterPolicy and of one of its components."""

        def how(policy: Obj) -> None:
            policy["status"]["state"] = state
            found = False
            for item in policy["status"]["appliedStates"]:
                if item["name"] == component:
                    item["state"] = state
                    found = True
                    if message:
                        item["message"] = message
            if not found:
                policy["status"]["appliedStates"].append({"name": component, "state": state})

        self.change(*POLICY, None, "nic-cluster-policy", how)

    def restore_policy(self) -> None:
        """The policy becomes what it was, before the other changes do."""
        key = (("mellanox.com", "nicclusterpolicies"), None, "nic-cluster-policy")
        saved = self._before.pop(key, None)
        if saved is not None and saved[1] is not None:
            self._api.store.put(key[0], thaw(saved[1]))

    def policy_ignored(self) -> None:
        """NicClusterPolicy as the operator leaves one with another name."""

        def how(policy: Obj) -> None:
            policy["status"] = {
                "state": "ignore",
                "reason": "Unsupported NicClusterPolicy instance "
                f"{policy['metadata']['name']}. Only instance with name nic-cluster-policy is supported",
            }

        self.change(*POLICY, None, "nic-cluster-policy", how)

    def remove_operator(self) -> None:
        """Everything in the operator's namespace, and its policy."""
        store = self._api.store
        for version, plural in (("v1", "pods"),):
            for obj in list(store.all(("", plural), OPERATOR)):
                self.delete("", version, plural, OPERATOR, obj["metadata"]["name"])
        for plural in ("daemonsets", "deployments", "replicasets"):
            for obj in list(store.all(("apps", plural), OPERATOR)):
                self.delete("apps", "v1", plural, OPERATOR, obj["metadata"]["name"])
        self.delete(*POLICY, None, "nic-cluster-policy")

    def delete_networks(self) -> None:
        """All attachment definitions."""
        nads = ("k8s.cni.cncf.io", "network-attachment-definitions")
        for obj in list(self._api.store.all(nads)):
            meta = obj["metadata"]
            self.delete("k8s.cni.cncf.io", "v1", nads[1], meta["namespace"], meta["name"])

    def allocatable(self, node: str, prefix: str, value: str | None) -> None:
        """Sets, or with None removes, allocatable resources with a prefix on a node."""

        def how(obj: Obj) -> None:
            for name in list(obj["status"]["allocatable"]):
                if name.startswith(prefix):
                    if value is None:
                        del obj["status"]["allocatable"][name]
                        obj["status"]["capacity"].pop(name, None)
                    else:
                        obj["status"]["allocatable"][name] = value

        self.change("", "v1", "nodes", None, node, how)

    def unlabel(self, node: str, label: str) -> None:
        """Takes a label off a node."""
        self.change(
            "", "v1", "nodes", None, node, lambda obj: obj["metadata"]["labels"].pop(label, None)
        )

    def not_ready(self, node: str) -> None:
        """A node whose kubelet does not report."""

        def how(obj: Obj) -> None:
            for condition in obj["status"]["conditions"]:
                if condition["type"] == "Ready":
                    condition |= {
                        "status": "Unknown",
                        "reason": "NodeStatusUnknown",
                        "message": "Kubelet stopped posting node status.",
                        "lastTransitionTime": timestamp(),
                    }
            obj["spec"]["taints"] = [
                {
                    "key": "node.kubernetes.io/unreachable",
                    "effect": effect,
                    "timeAdded": timestamp(),
                }
                for effect in ("NoSchedule", "NoExecute")
            ]

        self.change("", "v1", "nodes", None, node, how)
