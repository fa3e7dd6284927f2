"""Sandboxes of pods: addresses, secondary networks, devices and limits, as CNI plugins and device plugins hand them out."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from . import addressing
from .api import Api
from .config import Config
from .fabric import Port
from .faults import Faults
from .machine import Attachment, Machine
from .operators import Operators
from .podtree import PodTrees
from .wire import Wire

NADS = ("k8s.cni.cncf.io", "network-attachment-definitions")
NETWORKS = "k8s.v1.cni.cncf.io/networks"
Obj = dict[str, Any]


class SandboxFailed(Exception):
    """The pod's sandbox cannot be made: the text of the event."""


class Sandboxes:
    """Makes and releases the machines that pods are."""

    def __init__(
        self,
        config: Config,
        api: Api,
        wire: Wire,
        faults: Faults,
        trees: PodTrees,
        is_down: Callable[[Port], bool],
        addresses: addressing.Addresses,
        rng: random.Random,
    ) -> None:
        self._config = config
        self._api = api
        self._wire = wire
        self._faults = faults
        self._trees = trees
        self._is_down = is_down
        self._rng = rng
        self._addresses = addresses
        self._index = {name: i for i, name in enumerate(config.node_names(), 1)}
        self._slots: dict[str, list[tuple[str, int, int]]] = {}
        self.machines: dict[str, Machine] = {}
        self.operators: Operators

    def host_ip(self, node: str) -> str:
        """The address of a node."""
        return addressing.node_ip(self._index.get(node, 0))

    def make(self, pod: Obj) -> Machine:
        """The pod as a machine, with its addresses and devices; raises SandboxFailed."""
        meta, spec = pod["metadata"], pod["spec"]
        node, uid = spec["nodeName"], meta["uid"]
        index = self._index.get(node, 0)
        wanted = self._wanted_networks(pod)
        slots: list[tuple[str, int, int]] = []
        machine = Machine(uid, meta["namespace"], meta["name"], node)
        try:
            if spec.get("hostNetwork"):
                machine.addresses = [addressing.node_ip(index)]
            else:
                machine.addresses, slot = self._addresses.pod(index)
                slots.append(("pods", index, slot))
            if not self._faults.hit("no_network_status", node):
                for number, (full, interface) in enumerate(wanted, 1):
                    machine.attachments.append(
                        self._attach(pod, full, interface or f"net{number}", index, slots)
                    )
        except SandboxFailed:
            for network, at, slot in slots:
                self._addresses.give_back(network, at, slot)
            raise
        container = spec["containers"][0]
        machine.image, machine.container = container.get("image", ""), container["name"]
        self.equip(machine, spec)
        self._slots[uid] = slots
        self.machines[uid] = machine
        self._wire.plug(machine)
        return machine

    def _wanted_networks(self, pod: Obj) -> list[tuple[str, str]]:
        text = (pod["metadata"].get("annotations") or {}).get(NETWORKS, "").strip()
        own = pod["metadata"]["namespace"]
        if not text:
            return []
        if text.startswith("["):
            try:
                items = json.loads(text)
            except ValueError as error:
                raise SandboxFailed(
                    _multus(
                        pod,
                        f"parsePodNetworkAnnotation: failed to parse pod Network Attachment Selection Annotation JSON format: {error}",
                    )
                ) from error
            return [
                (f"{x.get('namespace') or own}/{x['name']}", x.get("interface", "")) for x in items
            ]
        out = []
        for word in text.replace(" ", "").split(","):
            full, _unused, interface = word.partition("@")
            out.append((full if "/" in full else f"{own}/{full}", interface))
        return out

    def _attach(
        self, pod: Obj, full: str, interface: str, index: int, slots: list[tuple[str, int, int]]
    ) -> Attachment:
        namespace, name = full.split("/", 1)
        nad = self._api.store.find(NADS, namespace, name)
        if nad is None:
            raise SandboxFailed(
                _multus(
                    pod,
                    f"error getting k8s client network: getKubernetesDelegate: cannot find a network-attachment-definition"
                    f' ({name}) in namespace ({namespace}): network-attachment-definitions.k8s.cni.cncf.io "{name}" not found',
                )
            )
        rail = self._rail_of(nad)
        if self._faults.hit("ipam_exhausted", pod["spec"]["nodeName"]):
            raise SandboxFailed(
                _multus(
                    pod,
                    f'error adding pod to CNI network "{name}": allocate failed: no free addresses in the pool',
                )
            )
        try:
            found, slot = self._addresses.secondary(rail, index)
        except LookupError as error:
            raise SandboxFailed(
                _multus(pod, f'error adding pod to CNI network "{name}": allocate failed: {error}')
            ) from error
        slots.append((f"rail-{rail}", index, slot))
        deployed = self.operators.address(nad, pod["spec"]["nodeName"], slot)
        found = [deployed] if deployed else found
        mac = addressing.mac(self._rng)
        if self._config.link == "infiniband":
            devices = addressing.devices(self._config, pod["spec"]["nodeName"], index)
            mac = addressing.ipoib_mac(next(d.guid for d in devices if d.port.rail == rail))
        return self._addresses.adopt(Attachment(full, interface, rail, found, mac), index)

    def _rail_of(self, nad: Obj) -> int:
        """The rail a network is on: by its resource or the master interface in its configuration, by its name, else 0."""
        rail = self.operators.rail_of_network(nad)
        names = dict(self._config.rail_networks())
        return names.get(nad["metadata"]["name"], 0) if rail is None else rail

    def equip(self, machine: Machine, spec: Obj) -> None:
        """Devices, GPUs and limits, from what the pod asks for and the faults that are on."""
        node = machine.node
        index = self._index.get(node, 0)
        limits: dict[str, int] = {}
        adds: set[str] = set()
        privileged = bool(spec.get("hostNetwork"))
        for container in spec["containers"]:
            for name, value in ((container.get("resources") or {}).get("limits") or {}).items():
                if "/" in name:
                    limits[name] = limits.get(name, 0) + int(value)
            context = container.get("securityContext") or {}
            adds |= set((context.get("capabilities") or {}).get("add") or [])
            privileged |= bool(context.get("privileged"))
        machine.gpus = limits.get("nvidia.com/gpu", 0)
        machine.gpu_driver = machine.gpus > 0
        machine.devices = addressing.devices(self._config, node, index)
        machine.ipc_lock = "IPC_LOCK" in adds or "ALL" in adds or privileged
        machine.memlock_kib = 8192
        if (limit := self._faults.hit("memlock", node)) is not None:
            machine.memlock_kib, machine.ipc_lock = limit["kib"], False
        rails = {rail for name in limits for rail in self.operators.rails_of_resource(name)}
        for device in machine.devices:
            rail = device.port.rail
            asked = rail in rails
            device.up = not self._is_down(device.port)
            device.granted = privileged or asked
            attachment = next((a for a in machine.attachments if a.rail == rail), None)
            if attachment is not None and not self._faults.hit("no_gid", node):
                device.gids = addressing.gids(attachment)
            if device.infiniband:
                device.gids = [
                    addressing.Gid(
                        0,
                        _port_gid(device.guid),
                        "IB/RoCE v1",
                        attachment.interface if attachment else "",
                    )
                ]

    def of(self, pod: Obj) -> Machine:
        """The machine of a running pod; one of the content gets its own when it is first wanted."""
        uid = pod["metadata"]["uid"]
        machine = self.machines.get(uid)
        if machine is None:
            meta = pod["metadata"]
            machine = Machine(uid, meta["namespace"], meta["name"], pod["spec"]["nodeName"])
            machine.image = pod["spec"]["containers"][0].get("image", "")
            machine.addresses = [x["ip"] for x in pod["status"].get("podIPs") or []]
            self.equip(machine, pod["spec"])
            self.machines[uid] = machine
        return machine

    def refresh(self) -> None:
        """Fits the machines to the faults that are on now; their trees are written anew when next wanted."""
        for machine in self.machines.values():
            pod = self._api.store.find(("", "pods"), machine.namespace, machine.name)
            if pod is not None and pod["metadata"]["uid"] == machine.uid:
                self.equip(machine, pod["spec"])
            self._trees.forget(machine)

    def release(self, uid: str) -> None:
        """Ends the processes of a pod and gives back what it had."""
        machine = self.machines.pop(uid, None)
        if machine is None:
            return
        machine.processes.kill_all()
        self._wire.unplug(machine)
        for network, index, slot in self._slots.pop(uid, ()):
            self._addresses.give_back(network, index, slot)
        self._trees.forget(machine)


def _multus(pod: Obj, why: str) -> str:
    meta = pod["metadata"]
    return (
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox"
        f' "{meta["uid"].replace("-", "")}": plugin type="multus" name="multus-cni-network" failed (add):'
        f" Multus: [{meta['namespace']}/{meta['name']}/{meta['uid']}]: {why}"
    )


def _port_gid(guid: str) -> str:
    return "fe80::" + guid
