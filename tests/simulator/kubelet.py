"""The kubelets of all nodes: pods that are bound become Running, get addresses and devices, and end."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Coroutine
from typing import Any

from . import addressing
from .api import Api
from .clock import timestamp
from .config import Config
from .events import Recorder
from .faults import Faults
from .machine import Attachment, Machine
from .podtree import PodTrees
from .processes import Backend, Process
from .store import Event
from .wire import Wire

PODS = ("", "pods")
NADS = ("k8s.cni.cncf.io", "network-attachment-definitions")
NETWORKS = "k8s.v1.cni.cncf.io/networks"
NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
Obj = dict[str, Any]


class Sandbox(Exception):
    """The pod's sandbox cannot be made: the text of the event."""


class Kubelet:
    """Runs pods. A pod that is already Running when it is first seen belongs to the content and stays as it is."""

    def __init__(
        self,
        config: Config,
        api: Api,
        recorder: Recorder,
        wire: Wire,
        addresses: addressing.Addresses,
        rng: random.Random,
    ) -> None:
        self._config = config
        self._api = api
        self._recorder = recorder
        self._wire = wire
        self._addresses = addresses
        self._rng = rng
        self._pods = api.registry.find("", "v1", "pods")
        self._index = {name: i for i, name in enumerate(config.node_names(), 1)}
        self.faults: Faults
        self.backend: Backend
        self.trees: PodTrees
        self.machines: dict[str, Machine] = {}
        self._slots: dict[str, list[tuple[str, int, int]]] = {}
        self._seen: dict[str, str] = {}  # uid -> starting, running, stopping, done
        self._logs: dict[str, bytearray] = {}
        self._mains: dict[str, Process] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        api.store.listen(PODS, self._on_pod)

    # ---- life of a pod
    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)

        def done(finished: asyncio.Task[None]) -> None:
            self._tasks.discard(finished)
            if not finished.cancelled() and finished.exception() is not None:
                print(f"kubelet: {finished.exception()!r}", flush=True)

        task.add_done_callback(done)

    def _on_pod(self, event: Event) -> None:
        pod = event.entry.obj
        meta, uid = pod["metadata"], pod["metadata"]["uid"]
        if event.kind == "DELETED":
            self._forget(uid)
            return
        node = pod["spec"].get("nodeName")
        if not node:
            return
        state = self._seen.get(uid)
        if meta.get("deletionTimestamp"):
            if state != "stopping":
                self._seen[uid] = "stopping"
                self._spawn(self._stop(pod))
        elif state is None:
            if pod["status"].get("phase") == "Pending":
                self._seen[uid] = "starting"
                self._spawn(self._start(meta["namespace"], meta["name"], uid))
            else:
                self._seen[uid] = "running"

    def _current(self, namespace: str, name: str, uid: str) -> Obj | None:
        pod = self._api.store.find(PODS, namespace, name)
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    def _set_status(self, pod: Obj, status: Obj, annotations: Obj | None = None) -> Obj:
        """Writes a status over the newest state of the pod."""
        meta = pod["metadata"]
        current = self._current(meta["namespace"], meta["name"], meta["uid"])
        if current is None:
            return pod
        new_meta = dict(current["metadata"])
        if annotations:
            new_meta["annotations"] = {**(new_meta.get("annotations") or {}), **annotations}
        kept = {
            k: v
            for k, v in current["status"].items()
            if k in ("qosClass", "startTime", "conditions")
        }
        conditions = {c["type"]: c for c in kept.get("conditions") or []}
        conditions.update({c["type"]: c for c in status.get("conditions") or []})
        merged = {**kept, **status, "conditions": list(conditions.values())}
        return self._api.put(self._pods, {**current, "metadata": new_meta, "status": merged})

    async def _start(self, namespace: str, name: str, uid: str) -> None:
        pod = self._current(namespace, name, uid)
        if pod is None:
            return
        node = pod["spec"]["nodeName"]
        deadline = pod["spec"].get("activeDeadlineSeconds")
        self._set_status(pod, self._waiting(pod, "ContainerCreating", start=True))
        if deadline is not None:
            asyncio.get_running_loop().call_later(deadline, self._deadline, namespace, name, uid)
        await asyncio.sleep(self._config.start_delay)
        machine = await self._sandbox(namespace, name, uid)
        if machine is None:
            return
        pod = self._current(namespace, name, uid)
        if pod is None or self._seen.get(uid) != "starting":
            self._release(machine)
            return
        if await self._fails(pod, node, machine):
            return
        status = self._running(pod, machine)
        annotations = self._network_status(pod, machine)
        self._seen[uid] = "running"
        pod = self._set_status(pod, status, annotations)
        for container in pod["spec"]["containers"]:
            path = f"spec.containers{{{container['name']}}}"
            for reason, text in (
                ("Pulled", f'Container image "{container["image"]}" already present on machine'),
                ("Created", f"Created container: {container['name']}"),
                ("Started", f"Started container {container['name']}"),
            ):
                self._recorder.record(pod, reason, text, "kubelet", path=path)
        await self._main(pod, machine)

    async def _sandbox(self, namespace: str, name: str, uid: str) -> Machine | None:
        """Makes the pod's network and devices; keeps trying, as a kubelet does, while it cannot."""
        wait = 1.0
        while True:
            pod = self._current(namespace, name, uid)
            if pod is None or self._seen.get(uid) != "starting":
                return None
            try:
                return self._make_machine(pod)
            except Sandbox as problem:
                self._recorder.record(
                    pod, "FailedCreatePodSandBox", str(problem), "kubelet", "Warning"
                )
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, 10)

    def _make_machine(self, pod: Obj) -> Machine:
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
            if not self.faults.hit("no_network_status", node):
                for number, (full, interface) in enumerate(wanted, 1):
                    machine.attachments.append(
                        self._attach(pod, full, interface or f"net{number}", index, slots)
                    )
        except Sandbox:
            for network, at, slot in slots:
                self._addresses.give_back(network, at, slot)
            raise
        container = spec["containers"][0]
        machine.image, machine.container = container.get("image", ""), container["name"]
        self._equip(machine, spec)
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
                raise Sandbox(
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
            full, _, interface = word.partition("@")
            out.append((full if "/" in full else f"{own}/{full}", interface))
        return out

    def _attach(
        self, pod: Obj, full: str, interface: str, index: int, slots: list[tuple[str, int, int]]
    ) -> Attachment:
        namespace, name = full.split("/", 1)
        nad = self._api.store.find(NADS, namespace, name)
        if nad is None:
            raise Sandbox(
                _multus(
                    pod,
                    f"error getting k8s client network: getKubernetesDelegate: cannot find a network-attachment-definition"
                    f' ({name}) in namespace ({namespace}): network-attachment-definitions.k8s.cni.cncf.io "{name}" not found',
                )
            )
        rail = self._rail_of(nad)
        if self.faults.hit("ipam_exhausted", pod["spec"]["nodeName"]):
            raise Sandbox(
                _multus(
                    pod,
                    f'error adding pod to CNI network "{name}": allocate failed: no free addresses in the pool',
                )
            )
        try:
            found, slot = self._addresses.secondary(rail, index)
        except LookupError as error:
            raise Sandbox(
                _multus(pod, f'error adding pod to CNI network "{name}": allocate failed: {error}')
            ) from error
        slots.append((f"rail-{rail}", index, slot))
        infiniband = self._config.link == "infiniband"
        return Attachment(full, interface, rail, found, addressing.mac(self._rng, infiniband))

    def _rail_of(self, nad: Obj) -> int:
        """The rail a network is on: by the master interface in its configuration, else 0."""
        for network, rail in self._config.rail_networks():
            if nad["metadata"]["name"] == network:
                return rail
        try:
            master = str(json.loads(nad["spec"]["config"]).get("master", ""))
        except (KeyError, ValueError):
            return 0
        digits = [int(c) for c in master if c.isdigit()]
        return min(digits[-1], self._config.rails - 1) if digits else 0

    def _equip(self, machine: Machine, spec: Obj) -> None:
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
        if (limit := self.faults.hit("memlock", node)) is not None:
            machine.memlock_kib, machine.ipc_lock = limit["kib"], False
        for device in machine.devices:
            rail = device.port.rail
            resource = self._config.rdma_resource(rail) if rail is not None else ""
            device.granted = privileged or bool(rail is not None and limits.get(resource))
            attachment = next((a for a in machine.attachments if a.rail == rail), None)
            if attachment is not None and not self.faults.hit("no_gid", node):
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

    def refresh(self, is_down: Any) -> None:
        """Fits the machines to the faults that are on now; their trees are written anew when next wanted."""
        for machine in self.machines.values():
            pod = self._current(machine.namespace, machine.name, machine.uid)
            if pod is None:
                continue
            self._equip(machine, pod["spec"])
            for device in machine.devices:
                device.up = not is_down(device.port)
            self.trees.forget(machine)

    async def _fails(self, pod: Obj, node: str, machine: Machine) -> bool:
        """The faults that keep a pod from running; they concern pods that ask for RDMA."""
        asks = any(
            name.startswith("rdma/")
            for c in pod["spec"]["containers"]
            for name in ((c.get("resources") or {}).get("limits") or {})
        )
        if not asks:
            return False
        if self.faults.hit("image_pull", node):
            image = pod["spec"]["containers"][0]["image"]
            text = (
                f'Failed to pull image "{image}": failed to pull and unpack image "{image}": failed to resolve reference'
                f' "{image}": not found'
            )
            self._recorder.record(pod, "Failed", text, "kubelet", "Warning")
            self._recorder.record(pod, "Failed", "Error: ErrImagePull", "kubelet", "Warning")
            self._set_status(pod, self._waiting(pod, "ErrImagePull", text))
            await asyncio.sleep(0.3)
            self._recorder.record(pod, "BackOff", f'Back-off pulling image "{image}"', "kubelet")
            self._recorder.record(pod, "Failed", "Error: ImagePullBackOff", "kubelet", "Warning")
            self._set_status(
                pod, self._waiting(pod, "ImagePullBackOff", f'Back-off pulling image "{image}"')
            )
            return True
        if (crash := self.faults.hit("pod_crash", node)) is not None:
            self._crashed(pod, machine, crash["code"])
            return True
        return False

    def _crashed(self, pod: Obj, machine: Machine, code: int) -> None:
        ended = self._terminated(code, "Error")
        names = [c["name"] for c in pod["spec"]["containers"]]
        self._seen[pod["metadata"]["uid"]] = "done"
        if pod["spec"]["restartPolicy"] == "Never":
            self._set_status(pod, self._status(pod, "Failed", dict.fromkeys(names, ended), machine))
            return
        waiting = {
            "waiting": {
                "reason": "CrashLoopBackOff",
                "message": f"back-off 10s restarting failed container={names[0]} pod={pod['metadata']['name']}_"
                f"{pod['metadata']['namespace']}({pod['metadata']['uid']})",
            }
        }
        status = self._status(
            pod, "Running", dict.fromkeys(names, waiting), machine, restarts=3, last=ended
        )
        self._set_status(pod, status, self._network_status(pod, machine))
        self._recorder.record(
            pod,
            "BackOff",
            f"Back-off restarting failed container {names[0]} in pod {pod['metadata']['name']}_"
            f"{pod['metadata']['namespace']}({pod['metadata']['uid']})",
            "kubelet",
            "Warning",
        )

    async def _main(self, pod: Obj, machine: Machine) -> None:
        """Runs the first container's own command; an image without one is taken to sleep."""
        container = pod["spec"]["containers"][0]
        argv = list(container.get("command") or []) + list(container.get("args") or [])
        if not argv or _sleeps(argv):
            return
        uid = pod["metadata"]["uid"]
        if not self.backend.knows(machine, argv[0]):
            text = (
                "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create"
                f' failed: unable to start container process: exec: "{argv[0]}": executable file not found in $PATH: unknown'
            )
            self._recorder.record(pod, "Failed", f"Error: {text}", "kubelet", "Warning")
            self._crashed(pod, machine, 128)
            return
        process = self.backend.start(machine, argv, self.environment(pod, container["name"]))
        process.stdin.close()
        self._mains[uid] = process
        log = self._logs.setdefault(uid, bytearray())

        async def keep(read: Any) -> None:
            while data := await read():
                log.extend(data)

        await asyncio.gather(keep(process.stdout.read), keep(process.stderr.read))
        code = await process.wait()
        current = self._current(machine.namespace, machine.name, uid)
        if current is None or self._seen.get(uid) != "running":
            return
        policy = current["spec"]["restartPolicy"]
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            self._seen[uid] = "done"
            names = [c["name"] for c in current["spec"]["containers"]]
            ended = self._terminated(code, "Error" if code else "Completed")
            phase = "Failed" if code else "Succeeded"
            self._set_status(
                current, self._status(current, phase, dict.fromkeys(names, ended), machine)
            )
        else:
            self._crashed(current, machine, code)

    def _deadline(self, namespace: str, name: str, uid: str) -> None:
        pod = self._current(namespace, name, uid)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            return
        self._seen[uid] = "done"
        machine = self.machines.get(uid)
        if machine is not None:
            machine.processes.kill_all()
        ended = self._terminated(137, "Error")
        names = [c["name"] for c in pod["spec"]["containers"]]
        status = self._status(pod, "Failed", dict.fromkeys(names, ended), machine)
        status |= {
            "reason": "DeadlineExceeded",
            "message": "Pod was active on the node longer than the specified deadline",
        }
        self._set_status(pod, status)
        self._recorder.record(
            pod,
            "DeadlineExceeded",
            "Pod was active on the node longer than the specified deadline",
            "kubelet",
        )

    async def _stop(self, pod: Obj) -> None:
        meta = pod["metadata"]
        machine = self.machines.get(meta["uid"])
        if machine is not None:
            self._recorder.record(
                pod,
                "Killing",
                f"Stopping container {pod['spec']['containers'][0]['name']}",
                "kubelet",
                path=f"spec.containers{{{pod['spec']['containers'][0]['name']}}}",
            )
        await asyncio.sleep(
            min(self._config.stop_delay, meta.get("deletionGracePeriodSeconds") or 0)
        )
        current = self._current(meta["namespace"], meta["name"], meta["uid"])
        if current is not None:
            if current["metadata"].get("finalizers"):
                return
            self._api.remove(self._pods, meta["namespace"], meta["name"])

    def _forget(self, uid: str) -> None:
        self._seen.pop(uid, None)
        self._logs.pop(uid, None)
        self._mains.pop(uid, None)
        machine = self.machines.pop(uid, None)
        if machine is not None:
            self._release(machine)

    def _release(self, machine: Machine) -> None:
        machine.processes.kill_all()
        self._wire.unplug(machine)
        self.machines.pop(machine.uid, None)
        for network, index, slot in self._slots.pop(machine.uid, ()):
            self._addresses.give_back(network, index, slot)
        self.trees.forget(machine)

    # ---- what others ask
    def machine_of(self, pod: Obj) -> Machine:
        """The machine of a running pod; one of the content gets its own when it is first wanted."""
        uid = pod["metadata"]["uid"]
        machine = self.machines.get(uid)
        if machine is None:
            machine = Machine(
                uid, pod["metadata"]["namespace"], pod["metadata"]["name"], pod["spec"]["nodeName"]
            )
            machine.image = pod["spec"]["containers"][0].get("image", "")
            machine.addresses = [x["ip"] for x in pod["status"].get("podIPs") or []]
            self._equip(machine, pod["spec"])
            self.machines[uid] = machine
        return machine

    def environment(self, pod: Obj, container: str) -> dict[str, str]:
        """The environment of a container's processes."""
        env = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "HOSTNAME": pod["metadata"]["name"],
            "KUBERNETES_SERVICE_HOST": "10.96.0.1",
            "KUBERNETES_SERVICE_PORT": "443",
        }
        spec = next((c for c in pod["spec"]["containers"] if c["name"] == container), {})
        for item in spec.get("env") or []:
            if "value" in item:
                env[item["name"]] = item["value"]
        return env

    def log_of(self, uid: str) -> bytes:
        return bytes(self._logs.get(uid, b""))

    # ---- status
    def _status(
        self,
        pod: Obj,
        phase: str,
        states: dict[str, Obj],
        machine: Machine | None,
        restarts: int = 0,
        last: Obj | None = None,
    ) -> Obj:
        running = {n for n, s in states.items() if "running" in s}
        containers = []
        for container in pod["spec"]["containers"]:
            name = container["name"]
            up = name in running
            containers.append(
                {
                    "name": name,
                    "image": container.get("image", ""),
                    "imageID": f"{container.get('image', '')}@sha256:{'0' * 64}" if machine else "",
                    "ready": up,
                    "started": up,
                    "restartCount": restarts,
                    "state": states[name],
                    "lastState": last or {},
                }
            )
            if machine:
                containers[-1][
                    "containerID"
                ] = f"containerd://{pod['metadata']['uid'].replace('-', '') * 2}"
        ready = "True" if running == set(states) else "False"
        now = timestamp()
        extra = {}
        if ready == "False":
            extra = {
                "reason": "PodCompleted" if phase == "Succeeded" else "ContainersNotReady",
                "message": f"containers with unready status: [{' '.join(sorted(set(states) - running))}]",
            }
        conditions = [
            {"type": "PodReadyToStartContainers", "status": "True" if machine else "False"},
            {"type": "Initialized", "status": "True"},
            {"type": "Ready", "status": ready, **extra},
            {"type": "ContainersReady", "status": ready, **extra},
        ]
        for condition in conditions:
            condition |= {"lastProbeTime": None, "lastTransitionTime": now}
        status: Obj = {
            "phase": phase,
            "conditions": conditions,
            "hostIP": addressing.node_ip(self._index.get(pod["spec"]["nodeName"], 0)),
            "startTime": pod["status"].get("startTime") or now,
            "containerStatuses": containers,
        }
        status["hostIPs"] = [{"ip": status["hostIP"]}]
        if machine is not None and machine.addresses:
            status["podIP"] = machine.addresses[0]
            status["podIPs"] = [{"ip": a} for a in machine.addresses]
        if inits := pod["spec"].get("initContainers"):
            done = self._terminated(0, "Completed")
            status["initContainerStatuses"] = [
                {
                    "name": c["name"],
                    "image": c.get("image", ""),
                    "imageID": "",
                    "ready": True,
                    "restartCount": 0,
                    "state": done,
                    "lastState": {},
                }
                for c in inits
            ]
        return status

    def _waiting(self, pod: Obj, reason: str, message: str = "", start: bool = False) -> Obj:
        state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}
        machine = None if start else self.machines.get(pod["metadata"]["uid"])
        return self._status(
            pod, "Pending", {c["name"]: state for c in pod["spec"]["containers"]}, machine
        )

    def _running(self, pod: Obj, machine: Machine) -> Obj:
        state = {"running": {"startedAt": timestamp()}}
        return self._status(
            pod, "Running", {c["name"]: state for c in pod["spec"]["containers"]}, machine
        )

    def _terminated(self, code: int, reason: str) -> Obj:
        now = timestamp()
        return {
            "terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}
        }

    def _network_status(self, pod: Obj, machine: Machine) -> Obj | None:
        if not machine.attachments:
            return None
        entries: list[Obj] = [
            {"name": "k8s-pod-network", "ips": machine.addresses, "default": True, "dns": {}}
        ]
        for attachment in machine.attachments:
            entries.append(
                {
                    "name": attachment.network,
                    "interface": attachment.interface,
                    "ips": attachment.addresses,
                    "mac": attachment.mac,
                    "dns": {},
                }
            )
            networks = f"Add {attachment.interface} [{'/16 '.join(attachment.addresses)}/16] from {attachment.network}"
            self._recorder.record(pod, "AddedInterface", networks, "multus")
        return {NETWORK_STATUS: json.dumps(entries, indent=4)}


def _multus(pod: Obj, why: str) -> str:
    meta = pod["metadata"]
    return (
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox"
        f' "{meta["uid"].replace("-", "")}": plugin type="multus" name="multus-cni-network" failed (add):'
        f" Multus: [{meta['namespace']}/{meta['name']}/{meta['uid']}]: {why}"
    )


def _sleeps(argv: list[str]) -> bool:
    """Whether a container's command only waits, in one of the usual ways."""
    text = (
        argv[2]
        if argv[:2] in (["sh", "-c"], ["/bin/sh", "-c"], ["bash", "-c"], ["/bin/bash", "-c"])
        and len(argv) > 2
        else " ".join(argv)
    )
    words = text.replace(";", " ").split()
    plain = {
        "sleep",
        "exec",
        "infinity",
        "inf",
        "trap",
        "wait",
        "&",
        "tail",
        "-f",
        "/dev/null",
        "TERM",
        "INT",
        "'exit",
        "0'",
        "exit",
    }
    return (
        bool(words)
        and all(w in plain or w.strip("'\"&").isdigit() for w in words)
        and (
            "infinity" in words
            or "inf" in words
            or "tail" in words
            or any(w.isdigit() and int(w) >= 60 for w in words)
        )
    )


def _port_gid(guid: str) -> str:
    return "fe80::" + guid
