"""The Network Operator's part of a deployment: policies become ready, networks get their attachment definitions."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from .api import Api
from .config import Config
from .faults import Faults
from .sandbox import Sandboxes
from .store import Event, thaw

Obj = dict[str, Any]
POLICY = "nic-cluster-policy"
WORK = 0.5  # seconds until what was asked for is there

# What of a policy's spec turns a component on.
_COMPONENTS = {
    "state-multus-cni": ("secondaryNetwork", "multus"),
    "state-container-networking-plugins": ("secondaryNetwork", "cniPlugins"),
    "state-ipoib-cni": ("secondaryNetwork", "ipoib"),
    "state-OFED": ("ofedDriver",),
    "state-SRIOV-device-plugin": ("sriovDevicePlugin",),
    "state-RDMA-device-plugin": ("rdmaSharedDevicePlugin",),
    "state-ib-kubernetes": ("ibKubernetes",),
    "state-nv-ipam-cni": ("nvIpam",),
    "state-nic-feature-discovery": ("nicFeatureDiscovery",),
    "state-doca-telemetry-service": ("docaTelemetryService",),
    "state-nic-configuration-operator": ("nicConfigurationOperator",),
    "state-spectrum-x-operator": ("spectrumXOperator",),
}
# Network kinds: the CNI plugin and the status field that names the attachment definition.
_NETWORKS = {
    "macvlannetworks": ("macvlan", "macvlanNetworkAttachmentDef"),
    "hostdevicenetworks": ("host-device", "hostDeviceNetworkAttachmentDef"),
    "ipoibnetworks": ("ipoib", "ipoibNetworkAttachmentDef"),
}


class NetworkOperator:
    """Acts on policies and networks that are made or changed after the start."""

    def __init__(self, config: Config, api: Api, faults: Faults, sandboxes: Sandboxes) -> None:
        self._config = config
        self._api = api
        self._faults = faults
        self._sandboxes = sandboxes
        self._done: dict[str, int] = {}  # uid: generation that was acted on
        api.store.listen(("mellanox.com", "nicclusterpolicies"), self._on_policy)
        for plural in _NETWORKS:
            api.store.listen(("mellanox.com", plural), self._on_network)

    def _new(self, event: Event) -> bool:
        """Whether an event is a spec that has not been acted on."""
        meta = event.entry.obj["metadata"]
        if event.kind == "DELETED" or meta.get("deletionTimestamp"):
            self._done.pop(meta["uid"], None)
            return False
        if self._done.get(meta["uid"]) == meta.get("generation", 1):
            return False
        self._done[meta["uid"]] = meta.get("generation", 1)
        if event.kind == "ADDED" and event.entry.obj.get("status"):
            return False  # put back as it was
        return not self._faults.hit("operator_absent")

    def _update(self, plural: str, name: str, status: Obj) -> None:
        resource = self._api.registry.find("mellanox.com", "v1alpha1", plural)
        obj = self._api.store.find(resource.key, None, name)
        if obj is not None:
            new = {**obj, "metadata": dict(obj["metadata"]), "status": status}
            self._api.put(resource, new)

    # ---- policies
    def _on_policy(self, event: Event) -> None:
        if not self._new(event):
            return
        policy = event.entry.obj
        loop = asyncio.get_running_loop()
        name = policy["metadata"]["name"]
        if name != POLICY:
            reason = f"Unsupported NicClusterPolicy instance {name}. Only instance with name {POLICY} is supported"
            ignored = {"state": "ignore", "reason": reason}
            loop.call_soon(self._update, "nicclusterpolicies", name, ignored)
            return
        spec = policy.get("spec") or {}
        loop.call_soon(self._update, "nicclusterpolicies", name, self._states(spec, "notReady"))
        loop.call_later(WORK, self._ready, spec)

    def _states(self, spec: Obj, state: str) -> Obj:
        applied = []
        for component, path in _COMPONENTS.items():
            part: Any = spec
            for step in path:
                part = (part or {}).get(step)
            applied.append({"name": component, "state": state if part else "ignore"})
        return {"appliedStates": applied, "state": state}

    def _ready(self, spec: Obj) -> None:
        if not self._faults.hit("policy_not_ready"):
            self._update("nicclusterpolicies", POLICY, self._states(spec, "ready"))
        self._serve_resources((spec.get("rdmaSharedDevicePlugin") or {}).get("config"))

    def _serve_resources(self, text: str | None) -> None:
        """What the shared device plugin is told to serve appears on the nodes."""
        try:
            rows = json.loads(text or "{}").get("configList") or []
        except ValueError:
            return
        served: dict[str, int] = {}
        for row in rows:
            name = f"{row.get('resourcePrefix', 'rdma')}/{row.get('resourceName', '')}"
            interfaces = (row.get("selectors") or {}).get("ifNames") or [""]
            found = re.search(r"\d+", interfaces[0])
            rail = max(0, int(found[0]) - 1) if found else 0
            self._sandboxes.resources[name] = min(rail, self._config.rails - 1)
            served[name] = int(row.get("rdmaHcaMax", 1000))
        nodes = self._api.registry.find("", "v1", "nodes")
        for node in list(self._api.store.all(nodes.key)):
            if "feature.node.kubernetes.io/pci-15b3.present" not in node["metadata"]["labels"]:
                continue
            if all(name in node["status"]["allocatable"] for name in served):
                continue
            new = thaw(node)
            for name, count in served.items():
                new["status"]["allocatable"].setdefault(name, str(count))
                new["status"]["capacity"].setdefault(name, str(count))
            self._api.put(nodes, new)

    # ---- networks
    def _on_network(self, event: Event) -> None:
        if not self._new(event):
            return
        network, plural = event.entry.obj, event.key[1]
        loop = asyncio.get_running_loop()
        loop.call_later(WORK, self._attach, plural, network["metadata"]["name"])

    def _attach(self, plural: str, name: str) -> None:
        network = self._api.store.find(("mellanox.com", plural), None, name)
        if network is None:
            return
        cni, field = _NETWORKS[plural]
        spec = network.get("spec") or {}
        namespace = spec.get("networkNamespace") or "default"
        ipam = json.loads(spec.get("ipam") or "{}")
        config = {"cniVersion": "0.3.1", "name": name, "type": cni, "ipam": ipam}
        config |= {k: spec[k] for k in ("master", "mode", "mtu") if k in spec}
        annotations = {}
        if resource := spec.get("resourceName"):
            annotations["k8s.v1.cni.cncf.io/resourceName"] = f"nvidia.com/{resource}"
        nads = self._api.registry.find("k8s.cni.cncf.io", "v1", "network-attachment-definitions")
        old = self._api.store.find(nads.key, namespace, name)
        meta = dict(old["metadata"]) if old else {"name": name, "namespace": namespace}
        owner = {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": network["kind"],
            "name": name,
            "uid": network["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        meta |= {"annotations": annotations, "ownerReferences": [owner]}
        self._api.put(nads, {"metadata": meta, "spec": {"config": json.dumps(config)}})
        where = f"k8s.cni.cncf.io/v1, Kind=NetworkAttachmentDefinition, {namespace}/{name}"
        self._update(plural, name, {"state": "ready", field: where})
