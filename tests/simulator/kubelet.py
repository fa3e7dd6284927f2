"""The kubelets of all nodes: pods that are bound become Running, run their command, and end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from . import podstatus
from .api import Api
from .config import Config
from .events import Recorder
from .faults import Faults
from .machine import Machine
from .processes import Backend
from .sandbox import Sandboxes, SandboxFailed
from .store import Event

PODS = ("", "pods")
Obj = dict[str, Any]
_LATE = "Pod was active on the node longer than the specified deadline"


class Kubelet:
    """Runs pods. A pod that is already Running when it is first seen belongs to the content and stays as it is."""

    def __init__(
        self,
        config: Config,
        api: Api,
        recorder: Recorder,
        faults: Faults,
        sandboxes: Sandboxes,
        backend: Backend,
    ) -> None:
        self._config = config
        self._api = api
        self._recorder = recorder
        self._faults = faults
        self._sandboxes = sandboxes
        self._backend = backend
        self._pods = api.registry.find("", "v1", "pods")
        self._seen: dict[str, str] = {}  # uid: starting, running, stopping, done
        self._logs: dict[str, bytearray] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        api.store.listen(PODS, self._on_pod)

    # ---- what others ask
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
        env |= {i["name"]: i["value"] for i in spec.get("env") or [] if "value" in i}
        return env

    def log_of(self, uid: str) -> bytes:
        """What a pod's own command has printed."""
        return bytes(self._logs.get(uid, b""))

    # ---- reacting
    def _on_pod(self, event: Event) -> None:
        pod = event.entry.obj
        meta, uid = pod["metadata"], pod["metadata"]["uid"]
        if event.kind == "DELETED":
            self._seen.pop(uid, None)
            self._logs.pop(uid, None)
            self._sandboxes.release(uid)
        elif not pod["spec"].get("nodeName"):
            return
        elif meta.get("deletionTimestamp"):
            if self._seen.get(uid) != "stopping":
                self._seen[uid] = "stopping"
                self._spawn(self._stop(pod))
        elif uid not in self._seen:
            pending = pod["status"].get("phase") == "Pending"
            self._seen[uid] = "starting" if pending else "running"
            if pending:
                self._spawn(self._start(meta["namespace"], meta["name"], uid))

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)

        def done(finished: asyncio.Task[None]) -> None:
            self._tasks.discard(finished)
            if not finished.cancelled() and finished.exception() is not None:
                print(f"kubelet: {finished.exception()!r}", flush=True)

        task.add_done_callback(done)

    def _current(self, namespace: str, name: str, uid: str) -> Obj | None:
        """The newest state of a pod; None when it is gone or another has its name."""
        pod = self._api.store.find(PODS, namespace, name)
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    def _set(
        self,
        pod: Obj,
        phase: str,
        state: Obj,
        machine: Machine | None,
        annotations: Obj | None = None,
        extra: Obj | None = None,
        **counts: Any,
    ) -> Obj:
        """Writes a status over the newest state of the pod."""
        meta = pod["metadata"]
        current = self._current(meta["namespace"], meta["name"], meta["uid"])
        if current is None:
            return pod
        host = self._sandboxes.host_ip(pod["spec"]["nodeName"])
        status = podstatus.status(pod, phase, state, host, machine, **counts) | (extra or {})
        new_meta = dict(current["metadata"])
        if annotations:
            new_meta["annotations"] = {**(new_meta.get("annotations") or {}), **annotations}
        merged = podstatus.merged(current["status"], status)
        return self._api.put(self._pods, {**current, "metadata": new_meta, "status": merged})

    # ---- starting
    async def _start(self, namespace: str, name: str, uid: str) -> None:
        pod = self._current(namespace, name, uid)
        if pod is None:
            return
        self._set(pod, "Pending", podstatus.waiting("ContainerCreating"), None)
        deadline = pod["spec"].get("activeDeadlineSeconds")
        if deadline is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(deadline, self._deadline, namespace, name, uid)
        await asyncio.sleep(self._config.start_delay)
        machine = await self._sandbox(namespace, name, uid)
        if machine is None:
            return
        pod = self._current(namespace, name, uid)
        if pod is None or self._seen.get(uid) != "starting":
            self._sandboxes.release(uid)
            return
        if await self._fails(pod, machine):
            return
        self._seen[uid] = "running"
        self._attached(pod, machine)
        pod = self._set(
            pod, "Running", podstatus.running(), machine, podstatus.network_status(machine)
        )
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
                return self._sandboxes.make(pod)
            except SandboxFailed as problem:
                self._recorder.record(
                    pod, "FailedCreatePodSandBox", str(problem), "kubelet", "Warning"
                )
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, 10)

    def _attached(self, pod: Obj, machine: Machine) -> None:
        for attachment in machine.attachments:
            addresses = " ".join(f"{a}/{64 if ':' in a else 16}" for a in attachment.addresses)
            text = f"Add {attachment.interface} [{addresses}] from {attachment.network}"
            self._recorder.record(pod, "AddedInterface", text, "multus")

    async def _fails(self, pod: Obj, machine: Machine) -> bool:
        """The faults that keep a pod from running; they concern pods that ask for RDMA."""
        asks = any(
            name.startswith("rdma/")
            for c in pod["spec"]["containers"]
            for name in ((c.get("resources") or {}).get("limits") or {})
        )
        if asks and self._faults.hit("image_pull", machine.node):
            await self._cannot_pull(pod, machine)
            return True
        crash = self._faults.hit("pod_crash", machine.node)
        if asks and crash is not None:
            self._crashed(pod, machine, crash["code"])
            return True
        return False

    async def _cannot_pull(self, pod: Obj, machine: Machine) -> None:
        image = pod["spec"]["containers"][0]["image"]
        text = (
            f'Failed to pull image "{image}": failed to pull and unpack image "{image}": failed to'
            f' resolve reference "{image}": not found'
        )
        backing_off = f'Back-off pulling image "{image}"'
        self._recorder.record(pod, "Failed", text, "kubelet", "Warning")
        self._recorder.record(pod, "Failed", "Error: ErrImagePull", "kubelet", "Warning")
        self._set(pod, "Pending", podstatus.waiting("ErrImagePull", text), machine)
        await asyncio.sleep(0.3)
        self._recorder.record(pod, "BackOff", backing_off, "kubelet")
        self._recorder.record(pod, "Failed", "Error: ImagePullBackOff", "kubelet", "Warning")
        self._set(pod, "Pending", podstatus.waiting("ImagePullBackOff", backing_off), machine)

    # ---- running and ending
    async def _main(self, pod: Obj, machine: Machine) -> None:
        """Runs the first container's own command; an image without one is taken to sleep."""
        container = pod["spec"]["containers"][0]
        argv = list(container.get("command") or []) + list(container.get("args") or [])
        if not argv or only_waits(argv):
            return
        uid = pod["metadata"]["uid"]
        if not self._backend.knows(machine, argv[0]):
            text = (
                "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc"
                f' create failed: unable to start container process: exec: "{argv[0]}": executable file not found'
                " in $PATH: unknown"
            )
            self._recorder.record(pod, "Failed", f"Error: {text}", "kubelet", "Warning")
            self._crashed(pod, machine, 128)
            return
        process = self._backend.start(machine, argv, self.environment(pod, container["name"]))
        process.stdin.close()
        log = self._logs.setdefault(uid, bytearray())

        async def keep(read: Callable[[], Awaitable[bytes]]) -> None:
            while data := await read():
                log.extend(data)

        await asyncio.gather(keep(process.stdout.read), keep(process.stderr.read))
        self._ended(machine, uid, await process.wait())

    def _ended(self, machine: Machine, uid: str, code: int) -> None:
        pod = self._current(machine.namespace, machine.name, uid)
        if pod is None or self._seen.get(uid) != "running":
            return
        policy = pod["spec"]["restartPolicy"]
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            self._seen[uid] = "done"
            state = podstatus.terminated(code, "Error" if code else "Completed")
            self._set(pod, "Failed" if code else "Succeeded", state, machine)
        else:
            self._crashed(pod, machine, code)

    def _crashed(self, pod: Obj, machine: Machine, code: int) -> None:
        meta = pod["metadata"]
        ended = podstatus.terminated(code, "Error")
        self._seen[meta["uid"]] = "done"
        if pod["spec"]["restartPolicy"] == "Never":
            self._set(pod, "Failed", ended, machine)
            return
        first = podstatus.names(pod)[0]
        identity = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
        state = podstatus.waiting(
            "CrashLoopBackOff",
            f"back-off 10s restarting failed container={first} pod={identity}",
        )
        annotations = podstatus.network_status(machine)
        self._set(pod, "Running", state, machine, annotations, restarts=3, last=ended)
        text = f"Back-off restarting failed container {first} in pod {identity}"
        self._recorder.record(pod, "BackOff", text, "kubelet", "Warning")

    def _deadline(self, namespace: str, name: str, uid: str) -> None:
        pod = self._current(namespace, name, uid)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            return
        self._seen[uid] = "done"
        machine = self._sandboxes.machines.get(uid)
        if machine is not None:
            machine.processes.kill_all()
        late = {"reason": "DeadlineExceeded", "message": _LATE}
        self._set(pod, "Failed", podstatus.terminated(137, "Error"), machine, extra=late)
        self._recorder.record(pod, "DeadlineExceeded", _LATE, "kubelet")

    async def _stop(self, pod: Obj) -> None:
        meta = pod["metadata"]
        for container in podstatus.names(pod) if meta["uid"] in self._sandboxes.machines else ():
            path = f"spec.containers{{{container}}}"
            text = f"Stopping container {container}"
            self._recorder.record(pod, "Killing", text, "kubelet", path=path)
        grace = meta.get("deletionGracePeriodSeconds") or 0
        await asyncio.sleep(min(self._config.stop_delay, grace))
        current = self._current(meta["namespace"], meta["name"], meta["uid"])
        if current is not None and not current["metadata"].get("finalizers"):
            self._api.remove(self._pods, meta["namespace"], meta["name"])


_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")
_IDLE_WORDS = {
    *("sleep", "exec", "infinity", "inf", "trap", "wait", "&", "tail", "-f", "/dev/null"),
    *("TERM", "INT", "'exit", "0'", "exit"),
}


def only_waits(argv: list[str]) -> bool:
    """Whether a container's command does nothing but wait, in one of the usual ways; it need not be run then."""
    script = len(argv) > 2 and argv[0] in _SHELLS and argv[1] == "-c"
    words = (argv[2] if script else " ".join(argv)).replace(";", " ").split()
    if not all(w in _IDLE_WORDS or w.strip("'\"&").isdigit() for w in words):
        return False
    long_sleep = any(w.isdigit() and int(w) >= 60 for w in words)
    return long_sleep or bool({"infinity", "inf", "tail"} & set(words))
