"""Pods of a simulated cluster, and commands in them, over the API."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubernetes import client, config
from kubernetes.stream import stream
from pair import LOST_RACE
from simulator.wrapper import scripts

RDMA = "rdma/rdma_shared_device_a"


@dataclass
class Cluster:
    """A running cluster, by its kubeconfig."""

    kubeconfig: str

    @property
    def api(self) -> client.CoreV1Api:
        """A new client, because stream() changes the one it is given."""
        return client.CoreV1Api(config.new_client_from_config(self.kubeconfig))

    def pod(self, name: str, node: str, capabilities: tuple[str, ...] = ("IPC_LOCK",)) -> Any:
        """Makes a test pod on a node; returns the entry of its secondary network's status when it runs."""
        limits = {RDMA: "1"}
        container = {
            "name": "rdma-test-ctr",
            "image": "mellanox/rping-test",
            "command": ["sleep", "infinity"],
            "securityContext": {"capabilities": {"add": list(capabilities)}},
            "resources": {"limits": limits, "requests": limits},
        }
        body = {
            "metadata": {
                "name": name,
                "annotations": {"k8s.v1.cni.cncf.io/networks": "rdma-net-ipam"},
            },
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": {"kubernetes.io/hostname": node},
                "containers": [container],
            },
        }
        self.api.create_namespaced_pod("default", body)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            pod = self.api.read_namespaced_pod(name, "default")
            if pod.status.phase == "Running":
                status = pod.metadata.annotations["k8s.v1.cni.cncf.io/network-status"]
                return json.loads(status)[1]
            time.sleep(0.05)
        raise TimeoutError(f"pod {name} does not run")

    def exec(self, pod: str, *command: str) -> Exec:
        return Exec(
            stream(
                self.api.connect_get_namespaced_pod_exec,
                pod,
                "default",
                command=list(command),
                stderr=True,
                stdout=True,
                stdin=False,
                tty=False,
                _preload_content=False,
            )
        )

    def measure(
        self, server: str, client: str, command: list[str], address: str
    ) -> tuple[Exec, Exec]:
        """Runs perftest's server in one pod and its client in another, both under the wrapper, to their ends."""
        for _ in range(4):
            serving = self.wrapped(server, *command)
            serving.read(lambda serving=serving: "Waiting for client" in serving.out, 30)
            measuring = self.wrapped(client, *command, address)
            if measuring.finish() != 0:
                kill = ("sh", "-c", scripts()[1], "sh", "TERM", str(serving.pid))
                self.exec(server, *kill).finish()
            serving.finish()
            if LOST_RACE not in measuring.err:
                break
        return serving, measuring

    def wrapped(self, pod: str, *command: str) -> Exec:
        """As the collection's module sends a command."""
        return self.exec(pod, "sh", "-c", scripts()[0], "sh", *command)


class Exec:
    """A command in a pod."""

    def __init__(self, socket) -> None:
        self.socket = socket
        self.out = self.err = ""

    def read(self, until: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self.socket.is_open() and not until():
            if time.monotonic() > deadline:
                raise TimeoutError(self.out + self.err)
            self.socket.update(timeout=0.2)
            self._take()
        self._take()

    def _take(self) -> None:
        self.out += self.socket.read_stdout(timeout=0) if self.socket.peek_stdout() else ""
        self.err += self.socket.read_stderr(timeout=0) if self.socket.peek_stderr() else ""

    def finish(self, timeout: float = 120) -> int:
        """Its exit code, when it has ended."""
        self.read(lambda: False, timeout)
        return self.socket.returncode

    @property
    def code(self) -> int:
        """Its exit code once it has ended."""
        return self.socket.returncode

    @property
    def own_err(self) -> str:
        """What the command itself wrote to its standard error: without the wrapper's mark."""
        return self.err.rpartition("\1")[2]

    @property
    def pid(self) -> int:
        """The pid that the wrapper tells."""
        self.read(lambda: self.err.count("\1") >= 2, 20)
        return int(self.err.split("\1")[1].removeprefix("pid:"))
