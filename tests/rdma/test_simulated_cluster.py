"""The simulated cluster whose pods are guests: execs over the API, perftest with -R between two pods."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pair import gids, row
from rdma_vm import GuestError, Node

pytest.importorskip("aiohttp", reason="the simulated cluster needs aiohttp")
pytest.importorskip("kubernetes", reason="this test talks to the cluster as the collection does")

from pods import Cluster
from simulator.wrapper import scripts
from simulator_rdma import server
from simulator_rdma.__main__ import guest_config

PERFTEST = ["stdbuf", "-oL", "ib_write_bw", "-d", "mlx5_0", "-F", "--report_gbits", "-R"]


@dataclass
class RealCluster(Cluster):
    """With the guests behind its nodes, and the simulator's process."""

    nodes: dict[str, Node]
    pid: int


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    started = server.start(tmp_path, guest_config(nodes=2))
    yield RealCluster(started["kubeconfig"], server.nodes(tmp_path), started["pid"])
    server.stop(tmp_path)


def test_perftest_between_two_pods(cluster: RealCluster) -> None:
    networks = [cluster.pod(f"pod-{n}", node) for n, node in enumerate(cluster.nodes, 1)]
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

    command = [*PERFTEST, "-n", "50"]
    serving, measuring = cluster.measure("pod-1", "pod-2", command, networks[0]["ips"][0])
    assert (serving.code, measuring.code) == (0, 0), measuring.err
    assert gids(measuring.out) == [second.gid, first.gid]
    assert row(measuring.out, 65536)[1] == 50

    missing = cluster.wrapped("pod-1", "no-such-program")
    assert missing.finish() == 127
    assert missing.err == "\1nofile\1"


def test_ends_of_processes(cluster: RealCluster) -> None:
    name, node = next(iter(cluster.nodes.items()))
    cluster.pod("pod", name)
    ended = cluster.wrapped("pod", *PERFTEST)
    pid = ended.pid
    assert list(node.processes()) == [pid]
    killing = cluster.exec("pod", "sh", "-c", scripts()[1], "sh", "TERM", str(pid))
    assert killing.finish() == 0
    assert ended.finish() == 128 + signal.SIGTERM
    assert node.processes() == {}

    lost = cluster.wrapped("pod", *PERFTEST)
    pid = lost.pid
    lost.socket.close()
    time.sleep(0.5)
    assert list(node.processes()) == [pid], "a lost connection ends no process"
    cluster.api.delete_namespaced_pod("pod", "default", grace_period_seconds=0)
    deadline = time.monotonic() + 10
    while node.processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert node.processes() == {}, "the end of the pod does"


def test_pod_without_ipc_lock_cannot_register_memory(cluster: RealCluster) -> None:
    names = list(cluster.nodes)
    cluster.pod("server", names[0])
    cluster.pod("client", names[1], capabilities=())
    serving = cluster.wrapped("server", *PERFTEST)
    serving.read(lambda: "Waiting for client" in serving.out, 20)
    size = ["-s", "8388608"]  # both buffers together exceed the 8 MiB that a kubelet grants
    measuring = cluster.wrapped("client", *PERFTEST, *size, cluster.nodes[names[0]].address)
    # With -R, 6.06 fails in an orderly way or crashes while it cleans up.
    assert measuring.finish() in (1, 128 + signal.SIGSEGV)
    assert "Couldn't allocate MR" in measuring.err


def test_guests_end_with_the_simulator_even_if_it_is_killed(cluster: RealCluster) -> None:
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
