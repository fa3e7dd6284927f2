"""The simulated cluster whose pods are guests: execs over the API, perftest with -R between two pods."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pair import gids, row
from rdma_vm import GuestError, Node

pytest.importorskip("aiohttp", reason="the simulated cluster needs aiohttp")
pytest.importorskip("kubernetes", reason="this test talks to the cluster as the collection does")

from kubernetes import client, config
from kubernetes.stream import stream
from simulator.wrapper import scripts
from simulator_rdma import server
from simulator_rdma.__main__ import guest_config

RDMA = "rdma/rdma_shared_device_a"
PERFTEST = ["stdbuf", "-oL", "ib_write_bw", "-d", "mlx5_0", "-F", "--report_gbits", "-R"]


@dataclass
class Cluster:
    """A running cluster: its API, and the guests behind its nodes."""

    api: client.CoreV1Api
    nodes: dict[str, Node]
    pid: int
    kubeconfig: str

    def pod(self, name: str, node: str, capabilities: list[str]) -> dict:
        """Makes a test pod on a node and returns it when it runs."""
        limits = {RDMA: "1"}
        container = {
            "name": "rdma-test-ctr",
            "image": "mellanox/rping-test",
            "command": ["sleep", "infinity"],
            "securityContext": {"capabilities": {"add": capabilities}},
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
                return pod
            time.sleep(0.05)
        raise TimeoutError(f"pod {name} does not run")

    def exec(self, pod: str, *command: str) -> Exec:
        # A client of its own for each, because stream() changes the one it is given.
        api = client.CoreV1Api(config.new_client_from_config(self.kubeconfig))
        return Exec(
            stream(
                api.connect_get_namespaced_pod_exec,
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
    def pid(self) -> int:
        """The pid that the wrapper tells."""
        self.read(lambda: self.err.count("\1") >= 2, 20)
        return int(self.err.split("\1")[1].removeprefix("pid:"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = server.start(tmp_path, guest_config(nodes=2))
    yield Cluster(
        client.CoreV1Api(config.new_client_from_config(started["kubeconfig"])),
        server.nodes(tmp_path),
        started["pid"],
        started["kubeconfig"],
    )
    server.stop(tmp_path)


def test_perftest_between_two_pods(cluster: Cluster) -> None:
    networks = []
    for number, node in enumerate(cluster.nodes, 1):
        pod = cluster.pod(f"pod-{number}", node, ["IPC_LOCK"])
        status = pod.metadata.annotations["k8s.v1.cni.cncf.io/network-status"]
        networks.append(json.loads(status)[1])
    first, second = cluster.nodes.values()
    assert [network["ips"] for network in networks] == [[first.address], [second.address]]
    assert [network["mac"] for network in networks] == [first.rails[0].mac, second.rails[0].mac]

    probe = cluster.wrapped(
        "pod-2",
        "sh",
        "-c",
        "cat /sys/class/infiniband/mlx5_0/ports/1/gids/1 /sys/class/net/net1/address; command -v stdbuf",
    )
    assert probe.finish() == 0
    gid, mac, stdbuf = probe.out.split()
    assert (gid, mac) == ("0000:0000:0000:0000:0000:ffff:0a09:0002", networks[1]["mac"])
    assert stdbuf == "/usr/bin/stdbuf"

    serving = cluster.wrapped("pod-1", *PERFTEST, "-n", "50")
    serving.read(lambda: "Waiting for client" in serving.out, 20)
    measuring = cluster.wrapped("pod-2", *PERFTEST, "-n", "50", networks[0]["ips"][0])
    assert (measuring.finish(), serving.finish()) == (0, 0)
    assert gids(measuring.out) == [second.gid, first.gid]
    assert row(measuring.out, 65536)[1] == 50

    missing = cluster.wrapped("pod-1", "no-such-program")
    assert missing.finish() == 127
    assert missing.err == "\1nofile\1"


def test_ends_of_processes(cluster: Cluster) -> None:
    name, node = next(iter(cluster.nodes.items()))
    cluster.pod("pod", name, ["IPC_LOCK"])
    server_a = cluster.wrapped("pod", *PERFTEST)
    assert list(node.processes()) == [server_a.pid]
    killing = cluster.exec("pod", "sh", "-c", scripts()[1], "sh", "TERM", str(server_a.pid))
    assert killing.finish() == 0
    assert server_a.finish() == 128 + signal.SIGTERM
    assert node.processes() == {}

    lost = cluster.wrapped("pod", *PERFTEST)
    assert lost.pid
    lost.socket.close()
    time.sleep(0.5)
    assert list(node.processes()) == [lost.pid], "a lost connection ends no process"
    cluster.api.delete_namespaced_pod("pod", "default", grace_period_seconds=0)
    deadline = time.monotonic() + 10
    while node.processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert node.processes() == {}, "the end of the pod does"


def test_pod_without_ipc_lock_cannot_register_memory(cluster: Cluster) -> None:
    names = list(cluster.nodes)
    cluster.pod("server", names[0], ["IPC_LOCK"])
    cluster.pod("client", names[1], [])
    serving = cluster.wrapped("server", *PERFTEST)
    serving.read(lambda: "Waiting for client" in serving.out, 20)
    size = ["-s", "8388608"]  # both buffers together exceed the 8 MiB that a kubelet grants
    measuring = cluster.wrapped("client", *PERFTEST, *size, cluster.nodes[names[0]].address)
    # With -R, 6.06 fails in an orderly way or crashes while it cleans up.
    assert measuring.finish() in (1, 128 + signal.SIGSEGV)
    assert "Couldn't allocate MR" in measuring.err


def test_guests_end_with_the_simulator_even_if_it_is_killed(cluster: Cluster) -> None:
    node = next(iter(cluster.nodes.values()))
    assert node.run(["true"]).returncode == 0
    os.kill(cluster.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while _answers(node) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _answers(node)


def _answers(node: Node) -> bool:
    try:
        return node.run(["true"], timeout=2).returncode == 0
    except (GuestError, TimeoutError):
        return False
