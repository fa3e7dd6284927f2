"""What NVIDIA Network Operator, nv-ipam and the SR-IOV operator do with objects that somebody applies.

The content of a new cluster is as if they had been at work already; here they react to what changes after that: a policy becomes ready
after a while and device plugins then serve their resources on the nodes; a network object becomes a NetworkAttachmentDefinition; a
pool gets a block for each node; SR-IOV policies make virtual functions.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Callable, Iterator
from typing import Any

from .api import Api
from .config import Config
from .store import Event, thaw

Obj = dict[str, Any]
POLICY = "nic-cluster-policy"
POLICIES = ("mellanox.com", "nicclusterpolicies")
POOLS = ("nv-ipam.nvidia.com", "ippools")
NADS = ("k8s.cni.cncf.io", "network-attachment-definitions")
NODES = ("", "nodes")
SRIOV = "sriovnetwork.openshift.io"
STATES = (SRIOV, "sriovnetworknodestates")
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
NFD_LABEL = "feature.node.kubernetes.io/pci-15b3.present"
VENDOR, DEVICE_ID = "15b3", "1021"
# Where a component is in the policy, its name in the status, and how many times the usual delay it takes to be ready.
_COMPONENTS = (
    (("secondaryNetwork", "multus"), "state-multus-cni", 1),
    (("secondaryNetwork", "cniPlugins"), "state-container-networking-plugins", 1),
    (("secondaryNetwork", "ipoib"), "state-ipoib-cni", 1),
    (("ofedDriver",), "state-OFED", 4),
    (("sriovDevicePlugin",), "state-SRIOV-device-plugin", 2),
    (("rdmaSharedDevicePlugin",), "state-RDMA-device-plugin", 2),
    (("ibKubernetes",), "state-ib-kubernetes", 1),
    (("nvIpam",), "state-nv-ipam-cni", 1),
    (("nicFeatureDiscovery",), "state-nic-feature-discovery", 1),
    (("docaTelemetryService",), "state-doca-telemetry-service", 1),
    (("nicConfigurationOperator",), "state-nic-configuration-operator", 1),
    (("spectrumXOperator",), "state-spectrum-x-operator", 1),
)
_MESSAGES = {
    "state-OFED": "driver is being built on the nodes",
}
_CNI_TYPES = {
    "MacvlanNetwork": "macvlan",
    "IPoIBNetwork": "ipoib",
    "HostDeviceNetwork": "host-device",
    "SriovNetwork": "sriov",
    "SriovIBNetwork": "ib-sriov",
}
_STATUS_FIELD = {
    "MacvlanNetwork": "macvlanNetworkAttachmentDef",
    "IPoIBNetwork": "ipoibNetworkAttachmentDef",
    "HostDeviceNetwork": "hostDeviceNetworkAttachmentDef",
}


def interface(config: Config, rail: int) -> str:
    """The interface of a rail, on every node."""
    return f"ibs{rail + 1}" if config.link == "infiniband" else f"ens{rail + 1}f0np0"


def pci_address(rail: int) -> str:
    return f"0000:{0x1a + rail:02x}:00.0"


class Operators:
    """Reacts to changes of the store.

    by_fault: whether an object is as a fault has made it, so that nobody is to react. hit: whether a fault is on. delay_s: how long one thing takes.
    """

    def __init__(
        self,
        api: Api,
        config: Config,
        by_fault: Callable[[tuple[str, str], str | None, str], bool],
        hit: Callable[[str], Any],
        delay_s: float = 0.5,
    ) -> None:
        self._api, self._config, self._by_fault, self._delay = api, config, by_fault, delay_s
        self._hit = hit
        self._find = api.registry.find
        #: What policies and SR-IOV policies serve: source -> {resource: {rail: count}}.
        self._at_start = {config.rdma_resource(k): {k: 63} for k in range(config.rails)}
        self._served: dict[str, dict[str, dict[int, int]]] = {f"policy/{POLICY}": self._at_start}
        store = api.store
        store.listen(POLICIES, self._on_policy)
        store.listen(POOLS, self._on_pool)
        for group, plural in (
            ("mellanox.com", "macvlannetworks"),
            ("mellanox.com", "ipoibnetworks"),
            ("mellanox.com", "hostdevicenetworks"),
            (SRIOV, "sriovnetworks"),
            (SRIOV, "sriovibnetworks"),
        ):
            store.listen((group, plural), self._on_network)
        store.listen((SRIOV, "sriovnetworknodepolicies"), self._on_sriov_policy)

    # ---- what kubelets ask
    def rails_of_resource(self, resource: str) -> set[int]:
        """The rails that a resource gives a pod, as deployed; empty for one that nothing deployed serves."""
        return {
            rail
            for served in self._served.values()
            for name, rails in served.items()
            if name == resource
            for rail in rails
        }

    def rail_of_network(self, nad: Obj) -> int | None:
        """The rail that a network is on, by its resource or its master interface; None when neither says so."""
        resource = (nad["metadata"].get("annotations") or {}).get(RESOURCE)
        rails = self.rails_of_resource(resource) if resource else set()
        if len(rails) == 1:
            return rails.pop()
        master = _plugin(nad).get("master")
        for rail in range(self._config.rails):
            if master == interface(self._config, rail):
                return rail
        return None

    def address(self, nad: Obj, node: str, slot: int) -> str | None:
        """The address of a pod in the node's block of the network's pool; None where no pool has one."""
        ipam = _plugin(nad).get("ipam") or {}
        if ipam.get("type") != "nv-ipam":
            return None
        for pool in self._api.store.all(POOLS):
            if pool["metadata"]["name"] != ipam.get("poolName"):
                continue
            for block in (pool.get("status") or {}).get("allocations") or []:
                first = ipaddress.ip_address(block["startIP"])
                if block["nodeName"] == node and first + slot <= ipaddress.ip_address(
                    block["endIP"]
                ):
                    return str(first + slot)
        return None

    # ---- helpers
    def _after(self, seconds: float, what: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, what)

    def _now(self, key: tuple[str, str], like: Obj) -> Obj | None:
        """The object as it is now; None when it is gone or another spec has come."""
        meta = like["metadata"]
        found = self._api.store.find(key, meta.get("namespace"), meta["name"])
        if found is None or found["metadata"]["uid"] != meta["uid"]:
            return None
        return found if found.get("spec") == like.get("spec") else None

    def _set_status(self, key: tuple[str, str], obj: Obj, status: Obj) -> None:
        resource = self._api.registry.of_key(key)
        self._api.put(resource, {**obj, "metadata": dict(obj["metadata"]), "status": status})

    def _nodes(self, labels: Obj | None = None) -> Iterator[Obj]:
        wanted = {NFD_LABEL: "true"} if labels is None else labels
        for node in self._api.store.all(NODES):
            have = node["metadata"].get("labels") or {}
            if all(have.get(k) == v for k, v in wanted.items()):
                yield node

    def _changed(self, event: Event) -> bool:
        """Whether it is about a spec: not a status, and not a fault that comes or goes."""
        obj, meta = event.entry.obj, event.entry.obj["metadata"]
        if self._hit("operator_absent") or self._by_fault(
            event.key, meta.get("namespace"), meta["name"]
        ):
            return False
        return event.before is None or event.before.obj.get("spec") != obj.get("spec")

    # ---- NicClusterPolicy
    def _on_policy(self, event: Event) -> None:
        obj = event.entry.obj
        if event.kind == "DELETED":
            if not self._by_fault(event.key, None, obj["metadata"]["name"]):
                self._serve("policy", obj, {})
            return
        if event.before is None and obj.get("status"):
            # put back as it was at the start
            self._serve("policy", obj, self._at_start)
        elif self._changed(event):
            if obj["metadata"]["name"] != POLICY:
                self._after(0, lambda: self._ignore(obj))
                return
            self._after(self._delay / 2, lambda: self._policy(obj, 0))

    def _ignore(self, obj: Obj) -> None:
        name = obj["metadata"]["name"]
        policy = self._now(POLICIES, obj)
        if policy is not None:
            reason = f"Unsupported NicClusterPolicy instance {name}. Only instance with name {POLICY} is supported"
            self._set_status(POLICIES, policy, {"state": "ignore", "reason": reason})

    def _policy(self, obj: Obj, step: int) -> None:
        policy = self._now(POLICIES, obj)
        if policy is None:
            return
        status = thaw(policy.get("status") or {})
        states = {s["name"]: s for s in status.get("appliedStates") or []}
        waiting = 0
        for path, name, takes in _COMPONENTS:
            entry: Obj = {"name": name, "state": "ignore"}
            if _at(policy["spec"], path) is not None:
                ready = step >= takes and not self._stuck(name)
                entry["state"] = "ready" if ready else "notReady"
                if not ready and name in _MESSAGES:
                    entry["message"] = _MESSAGES[name]
                waiting += not ready
            states[name] = entry
        status |= {
            "appliedStates": list(states.values()),
            "state": "notReady" if waiting else "ready",
        }
        self._set_status(POLICIES, policy, status)
        if waiting:
            self._after(self._delay, lambda: self._policy(obj, step + 1))
        else:
            self._serve("policy", policy, _policy_resources(policy, self._config))

    def _stuck(self, component: str) -> bool:
        fault = self._hit("policy_not_ready")
        return bool(fault) and fault["component"] == component

    # ---- resources of nodes
    def _serve(self, kind: str, obj: Obj, resources: dict[str, dict[int, int]]) -> None:
        """Puts what an object serves on the nodes, in place of what it served before."""
        source = f"{kind}/{obj['metadata']['name']}"
        gone = set(self._served.get(source, {})) - set(resources)
        self._served[source] = resources
        labels = (obj.get("spec") or {}).get("nodeSelector") if kind == "sriov" else None
        for node in list(self._nodes(labels)):
            new = thaw(node)
            for table in ("capacity", "allocatable"):
                for name in gone:
                    new["status"][table].pop(name, None)
                for name, rails in resources.items():
                    new["status"][table][name] = str(max(rails.values()) if rails else 0)
            if new != node:
                self._api.put(self._find("", "v1", "nodes"), new)

    # ---- pools
    def _on_pool(self, event: Event) -> None:
        obj = event.entry.obj
        if event.kind != "DELETED" and self._changed(event) and not obj.get("status"):
            self._after(self._delay, lambda: self._allocate(obj))

    def _allocate(self, obj: Obj) -> None:
        pool = self._now(POOLS, obj)
        if pool is None:
            return
        spec = pool["spec"]
        subnet = ipaddress.ip_network(spec["subnet"])
        size = spec["perNodeBlockSize"]
        terms = (spec.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
        labels = {e["key"]: e["values"][0] for t in terms for e in t.get("matchExpressions") or []}
        first, last = int(subnet[0]) + 2, int(subnet[-1]) - 1
        allocations = []
        for index, node in enumerate(self._nodes(labels)):
            start = first + index * size
            if start + size - 1 > last:
                break
            allocations.append(
                {
                    "nodeName": node["metadata"]["name"],
                    "startIP": str(ipaddress.ip_address(start)),
                    "endIP": str(ipaddress.ip_address(start + size - 1)),
                }
            )
        self._set_status(POOLS, pool, {"allocations": allocations})

    # ---- networks
    def _on_network(self, event: Event) -> None:
        obj = event.entry.obj
        if event.kind == "DELETED":
            meta = obj["metadata"]
            if obj["kind"].startswith("Sriov") and not self._by_fault(
                event.key, meta.get("namespace"), meta["name"]
            ):
                # no owner reference crosses namespaces, so the operator removes it itself
                self._remove_nad(obj)
        elif self._changed(event) and not obj.get("status"):
            self._after(self._delay, lambda: self._attach(event.key, obj))

    def _remove_nad(self, network: Obj) -> None:
        namespace = (network.get("spec") or {}).get("networkNamespace") or "default"
        name = network["metadata"]["name"]
        if self._api.store.find(NADS, namespace, name) is not None:
            self._api.remove(self._api.registry.of_key(NADS), namespace, name)

    def _attach(self, key: tuple[str, str], obj: Obj) -> None:
        network = self._now(key, obj)
        if network is None:
            return
        kind, spec = network["kind"], network["spec"]
        name, namespace = network["metadata"]["name"], spec.get("networkNamespace") or "default"
        plugin: Obj = {"type": _CNI_TYPES[kind]}
        for field in ("master", "mode", "mtu"):
            if spec.get(field):
                plugin[field] = spec[field]
        try:
            plugin["ipam"] = json.loads(spec.get("ipam") or "{}")
            more = json.loads(f"[{spec.get('metaPlugins') or ''}]")
        except ValueError as error:
            self._set_status(key, network, {"state": "error", "reason": str(error)})
            return
        head = {"cniVersion": "1.0.0", "name": name}
        config = {**head, "plugins": [plugin, *more]} if more else {**head, **plugin}
        meta: Obj = {"name": name, "namespace": namespace}
        if spec.get("resourceName"):
            meta["annotations"] = {RESOURCE: f"nvidia.com/{spec['resourceName']}"}
        if not kind.startswith("Sriov"):
            meta["ownerReferences"] = [
                {
                    "apiVersion": network["apiVersion"],
                    "kind": kind,
                    "name": name,
                    "uid": network["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ]
        known = self._api.store.find(NADS, namespace, name)
        if known is not None:
            meta = {**dict(known["metadata"]), **meta}
        nad = {"metadata": meta, "spec": {"config": json.dumps(config)}}
        self._api.put(self._api.registry.of_key(NADS), nad)
        if kind in _STATUS_FIELD:
            made = f"k8s.cni.cncf.io/v1, Kind=NetworkAttachmentDefinition, {namespace}/{name}"
            self._set_status(key, network, {"state": "ready", _STATUS_FIELD[kind]: made})

    # ---- SR-IOV
    def _on_sriov_policy(self, event: Event) -> None:
        obj = event.entry.obj
        if event.kind == "DELETED":
            self._serve("sriov", obj, {})
            self._sriov_states("Succeeded")
        elif self._changed(event):
            self._after(self._delay, lambda: self._sriov(obj, False))

    def _sriov(self, obj: Obj, done: bool) -> None:
        policy = self._now((SRIOV, "sriovnetworknodepolicies"), obj)
        if policy is None:
            return
        self._sriov_states("Succeeded" if done else "InProgress")
        if not done:
            self._after(self._delay * 2, lambda: self._sriov(obj, True))
            return
        spec = policy["spec"]
        rails = self._sriov_rails(spec)
        self._serve(
            "sriov",
            policy,
            {f"nvidia.com/{spec['resourceName']}": dict.fromkeys(rails, spec["numVfs"])},
        )

    def _sriov_rails(self, spec: Obj) -> list[int]:
        nic = spec["nicSelector"]
        link = "IB" if self._config.link == "infiniband" else "ETH"
        if (spec.get("linkType") or link).upper() != link or nic.get("vendor", VENDOR) != VENDOR:
            return []
        return [
            rail
            for rail in range(self._config.rails)
            if (not nic.get("pfNames") or interface(self._config, rail) in nic["pfNames"])
            and (not nic.get("rootDevices") or pci_address(rail) in nic["rootDevices"])
            and nic.get("deviceID", DEVICE_ID) == DEVICE_ID
        ]

    def _sriov_states(self, sync: str) -> None:
        """One SriovNetworkNodeState a node, from all policies together."""
        policies = list(self._api.store.all((SRIOV, "sriovnetworknodepolicies")))
        for node in list(self._nodes()):
            wanted, real = [], []
            for policy in policies:
                spec = policy["spec"]
                for rail in self._sriov_rails(spec):
                    base = {"name": interface(self._config, rail), "pciAddress": pci_address(rail)}
                    group = {
                        "resourceName": spec["resourceName"],
                        "policyName": policy["metadata"]["name"],
                        "isRdma": True,
                        "deviceType": "netdevice",
                    }
                    wanted.append({**base, "numVfs": spec["numVfs"], "vfGroups": [group]})
                    made = spec["numVfs"] if sync == "Succeeded" else 0
                    real.append({**base, "vendor": VENDOR, "numVfs": made, "totalvfs": 16})
            namespace = (
                policies[0]["metadata"]["namespace"] if policies else "nvidia-network-operator"
            )
            name = node["metadata"]["name"]
            known = self._api.store.find(STATES, namespace, name)
            meta = dict(known["metadata"]) if known else {"name": name, "namespace": namespace}
            meta["annotations"] = {"sriovnetwork.openshift.io/current-state": "Idle"}
            self._api.put(
                self._api.registry.of_key(STATES),
                {
                    "metadata": meta,
                    "spec": {"interfaces": wanted},
                    "status": {"syncStatus": sync, "lastSyncError": "", "interfaces": real},
                },
            )


def _plugin(nad: Obj) -> Obj:
    """The first plugin of a network's configuration; {} when it is none."""
    try:
        config = json.loads((nad.get("spec") or {}).get("config") or "{}")
    except ValueError:
        return {}
    plugins = config.get("plugins")
    return plugins[0] if plugins else config


def _at(spec: Obj, path: tuple[str, ...]) -> Any:
    found: Any = spec
    for key in path:
        found = (found or {}).get(key)
    return found


def _policy_resources(policy: Obj, config: Config) -> dict[str, dict[int, int]]:
    """What the device plugins of a policy serve: {resource: {rail: count}}; a resource without a match has no rails."""
    spec = policy.get("spec") or {}
    out: dict[str, dict[int, int]] = {}
    shared = json.loads((spec.get("rdmaSharedDevicePlugin") or {}).get("config") or "{}")
    for entry in shared.get("configList") or []:
        name = f"{entry.get('resourcePrefix', 'rdma')}/{entry['resourceName']}"
        rails = _selected(entry.get("selectors") or {}, config)
        out[name] = dict.fromkeys(rails, entry["rdmaHcaMax"])
    devices = json.loads((spec.get("sriovDevicePlugin") or {}).get("config") or "{}")
    for entry in devices.get("resourceList") or []:
        name = f"{entry.get('resourcePrefix', 'nvidia.com')}/{entry['resourceName']}"
        rails = _selected(entry.get("selectors") or {}, config)
        out[name] = dict.fromkeys(rails, len(rails))
    return out


def _selected(selectors: Obj, config: Config) -> list[int]:
    """The rails whose adapter all selectors fit."""
    link = "infiniband" if config.link == "infiniband" else "ether"

    def fits(rail: int) -> bool:
        facts = {
            "vendors": VENDOR,
            "deviceIDs": DEVICE_ID,
            "devices": DEVICE_ID,
            "ifNames": interface(config, rail),
            "pfNames": interface(config, rail),
            "pciAddresses": pci_address(rail),
            "linkTypes": link,
        }
        return all(fact in selectors[key] for key, fact in facts.items() if selectors.get(key))

    return [rail for rail in range(config.rails) if fits(rail)]
