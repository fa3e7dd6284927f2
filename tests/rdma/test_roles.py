"""The roles against the real perftest: what is measured, and what is said of real faults.

Guests stand behind the pods; emulation moves about 0.1 Gb/s, so iterations are few and the threshold is absolute.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rdma_vm import Node

pytest.importorskip("aiohttp", reason="the simulated cluster needs aiohttp")

from controller import Controller
from simulator import client
from simulator_rdma import server
from simulator_rdma.__main__ import guest_config

QUICK = {
    "rdma_test_sizes": 65536,
    "rdma_test_iterations": 20,
    "rdma_test_threshold_gbps": 0.001,
    "rdma_test_both_directions": False,
    "rdma_test_timeout": 60,
}


# A perftest that says that it waits and does not listen; what the probe asks it, the real one answers.
DEAF = r"""
cp /usr/bin/ib_write_bw /tmp/real
cat > /tmp/deaf <<'END'
#!/bin/sh
case "$*" in
  *-R*) echo '* Waiting for client to connect... *'; exec sleep 300 ;;
  *) exec /tmp/real "$@" ;;
esac
END
chmod 755 /tmp/deaf
"""


class RealCluster(Controller):
    """A cluster with a guest for each node."""

    def __init__(self, folder: Path, nodes: int, gpus: int = 0) -> None:
        started = server.start(folder, guest_config(nodes=nodes, gpus=gpus))
        super().__init__(folder, Path(started["kubeconfig_fabric"]))
        self.nodes: dict[str, Node] = server.nodes(folder)

    def fault(self, *faults: str) -> None:
        """Switches faults of the simulator on that concern the pods, not the fabric; none: all off."""
        client.set_faults(self.folder, list(faults))

    def test(self, role: str = "rdma_test", **changes) -> dict:
        """The result of a role; nothing of it is left in the guests or the cluster."""
        variables = {**QUICK, **{f"rdma_test_{k}": v for k, v in changes.items()}}
        return self.finish(self.start_role(role, variables))

    def finish(self, run) -> dict:
        result = run.result(300)
        self.assert_nothing_left()
        return result

    def assert_nothing_left(self) -> None:
        for name, node in self.nodes.items():
            assert node.processes() == {}, name
        assert [
            p for p in client.call(self.folder, "state")["pods"] if p["namespace"] == "default"
        ] == []

    def while_measuring(self, act: Callable[[], None], **changes) -> dict:
        """The result of a long measurement, in the middle of which something happens."""
        variables = {**QUICK, "rdma_test_iterations": 0, "rdma_test_duration": 8}
        variables |= {f"rdma_test_{k}": v for k, v in changes.items()}
        run = self.start_role("rdma_test", variables)
        sender = self.nodes["gpu-node-2"]
        deadline = time.monotonic() + 60
        while not self._sent(sender) and run.process.poll() is None:
            assert time.monotonic() < deadline, "no measurement came under way"
            time.sleep(0.1)
        act()
        return self.finish(run)

    def _sent(self, node: Node, packets: int = 300) -> bool:
        counter = f"/sys/class/net/{node.interface}/statistics/tx_packets"
        return int(node.check(["cat", counter])) > packets

    def pids(self, node: str, words: str) -> list[int]:
        """Processes in a guest whose command line holds the words."""
        return [pid for pid, line in self.nodes[node].processes().items() if words in line]

    def signal(self, node: str, number: signal.Signals) -> None:
        """To perftest itself in a guest."""
        pids = self.pids(node, "ib_write_bw")
        assert pids
        self.nodes[node].check(["kill", f"-{int(number)}", *map(str, pids)])


def made(tmp_path: Path, nodes: int, gpus: int = 0) -> Iterator[RealCluster]:
    cluster = RealCluster(tmp_path, nodes, gpus)
    try:
        yield cluster
    finally:
        server.stop(tmp_path)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Two nodes, for what leaves the guests as they were."""
    yield from made(tmp_path_factory.mktemp("pair"), 2)


@pytest.fixture
def own_pair(tmp_path: Path) -> Iterator[RealCluster]:
    """Two nodes for one test: rxe does not forget a cut."""
    yield from made(tmp_path, 2)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    yield from made(tmp_path_factory.mktemp("four"), 4)


def only(result: dict) -> dict:
    (link,) = result["links"]
    return link


def told(result: dict) -> str:
    """All words of the findings."""
    return "\n".join(f"{f['seen']} {f['line']} {f.get('lines')}" for f in result["findings"])


# ---- what is measured


def test_the_default_command(pair: RealCluster) -> None:
    result = pair.test(sizes="all", iterations=5, both_directions=True)
    assert result["passed"], result["findings"]
    assert len(result["links"]) == 2
    for link in result["links"]:
        command = link["outputs"]["client"]["command"]
        assert "-a" in command and "-R" in command and command[-1].startswith("10.9.0.")
        assert [row["bytes"] for row in link["rows"]] == [2**n for n in range(1, 24)]
        assert all(row["bandwidth_average_gbps"] >= 0 for row in link["rows"])
    assert result["best_gbps"] > 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"qps": 2}, ["-q", "2"]),
        ({"bidirectional": True}, ["-b"]),
        ({"duration": 1, "iterations": 0}, ["-D", "1"]),
        ({"rdma_cm": False}, ["-x", "1"]),
        ({"tool": "ib_read_bw"}, ["ib_read_bw"]),
        ({"tool": "ib_send_bw"}, ["ib_send_bw"]),
        ({"tool": "ib_write_lat", "sizes": 8, "threshold_us": 1_000_000}, ["ib_write_lat"]),
        ({"tool": "ib_read_lat", "sizes": 8, "threshold_us": 1_000_000}, ["ib_read_lat"]),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, list) else "",
)
def test_other_measurements(pair: RealCluster, changes: dict, words: list[str]) -> None:
    result = pair.test(**changes)
    assert result["passed"], result["findings"]
    link = only(result)
    command = link["outputs"]["client"]["command"]
    assert " ".join(words) in " ".join(command)
    address = pair.nodes["gpu-node-1"]
    assert command[-1] == (address.pod_address if "rdma_cm" in changes else address.address)
    (row,) = link["rows"]
    if command[2].endswith("_lat"):
        assert row["bytes"] == 8 and 0 < link["latency_us"] <= row["latency_p99_us"]
    else:
        assert row["bytes"] == 65536 and link["bandwidth_average_gbps"] > 0


def test_full_mesh_of_four_nodes(four: RealCluster) -> None:
    result = four.test(nodes="all", plan="full_mesh", both_directions=True)
    assert result["passed"], result["findings"]
    assert len({(k["client_node"], k["server_node"]) for k in result["links"]}) == 12
    assert result["round_count"] == 6


# ---- what is slow


@pytest.mark.parametrize(
    "limit", [{"rate_mbit": 20}, {"loss_percent": 3}], ids=["rate", "packet loss"]
)
def test_a_node_that_sends_slowly_is_named(four: RealCluster, limit: dict) -> None:
    """netem shapes what the node sends: as client it is slow, as server it only acknowledges."""
    slow = "gpu-node-3"
    four.nodes[slow].shape(**limit)
    try:
        result = four.test(nodes="all", both_directions=True, threshold_gbps=0.03)
    finally:
        four.nodes[slow].shape()
    assert result["verdict"] == "slow", told(result)
    (finding,) = result["findings"]
    assert finding["code"] == "slow_link"
    assert finding["where"]["node"] == slow, finding["where"]
    assert "required 0.03 Gb/s" in finding["seen"]


# ---- what cannot be measured


def test_no_server(pair: RealCluster) -> None:
    """The pod's perftest says that it waits and never listens."""
    node = pair.nodes["gpu-node-1"]
    node.check(["sh", "-c", DEAF])
    node.check(["mount", "--bind", "/tmp/deaf", "/usr/bin/ib_write_bw"])
    try:
        result = pair.test()
    finally:
        node.check(["umount", "/usr/bin/ib_write_bw"])
    assert (result["verdict"], result["reason"]) == ("failed", "connect_failed"), told(result)
    assert "Unexpected CM event bl blka 8" in told(result)


def test_a_device_that_is_not_there(pair: RealCluster) -> None:
    result = pair.test(devices=["mlx5_7"])
    assert (result["verdict"], result["links"]) == ("failed", [])
    assert result["reason"] == "device_not_found"
    assert "mlx5_7" in told(result)


def test_a_gid_index_out_of_the_table(pair: RealCluster) -> None:
    result = pair.test(rdma_cm=False, extra_options=["-x", "500"])
    assert (result["verdict"], result["reason"]) == ("failed", "gid_index_wrong"), told(result)
    assert "Gid index should be between 0 and 64" in told(result)
    # and one that is in the table, where nothing is
    result = pair.test(rdma_cm=False, extra_options=["-x", "40"])
    assert (result["verdict"], result["reason"]) == ("failed", "no_gid"), told(result)
    assert "empty entry of the GID table" in result["findings"][0]["cause"]


def test_a_port_in_use(pair: RealCluster) -> None:
    node = pair.nodes["gpu-node-1"]
    squatter = node.popen(["ib_write_bw", "-d", node.device, "-R", "-F"])
    try:
        node.wait_listening()
        run = pair.start_role("rdma_test", QUICK)
        result = run.result(300)
    finally:
        squatter.send_signal(signal.SIGKILL)
        squatter.wait(10)
    pair.assert_nothing_left()
    assert (result["verdict"], result["reason"]) == ("failed", "port_in_use"), told(result)


def test_memory_that_may_not_be_locked(pair: RealCluster) -> None:
    pair.fault("memlock:node=gpu-node-1,kib=64")
    try:
        result = pair.test()
    finally:
        pair.fault()
    assert (result["verdict"], result["reason"]) == ("failed", "memlock"), told(result)
    assert "Couldn't allocate MR" in told(result)
    assert "IPC_LOCK" in result["findings"][0]["remedy"]


def test_a_link_that_is_down(own_pair: RealCluster) -> None:
    own_pair.nodes["gpu-node-1"].link(False)
    result = own_pair.test()
    assert (result["verdict"], result["reason"]) == ("failed", "port_down"), told(result)
    assert "gpu-node-1" in told(result) or result["findings"][0]["where"]["node"] == "gpu-node-1"


@pytest.mark.parametrize("rdma_cm", [True, False])
def test_a_link_that_is_cut_in_mid_run(own_pair: RealCluster, rdma_cm: bool) -> None:
    """perftest 6.06 then ends with a completion error, or with exit code 0 and a row of zeros, or hangs."""
    cut = own_pair.nodes["gpu-node-2"].link
    result = own_pair.while_measuring(lambda: cut(False), rdma_cm=rdma_cm, timeout=30)
    assert result["verdict"] == "failed", told(result)
    assert only(result)["code"] in (
        *("zero_row", "completion_error", "hung_client", "peer_gone", "no_result", "client_died"),
    ), told(result)
    assert only(result)["bandwidth_average_gbps"] is None


def test_a_server_that_is_killed(own_pair: RealCluster) -> None:
    result = own_pair.while_measuring(
        lambda: own_pair.signal("gpu-node-1", signal.SIGKILL), timeout=30
    )
    assert (result["verdict"], result["reason"]) == ("failed", "server_died"), told(result)
    assert "signal 9" in told(result)


def test_a_client_that_hangs(own_pair: RealCluster) -> None:
    """It is stopped, so that it does not even hear the request to end."""
    result = own_pair.while_measuring(
        lambda: own_pair.signal("gpu-node-2", signal.SIGSTOP), timeout=15
    )
    assert (result["verdict"], result["reason"]) == ("failed", "hung_client"), told(result)


def test_gpu_memory_with_a_perftest_without_cuda(tmp_path: Path) -> None:
    for cluster in made(tmp_path, nodes=2, gpus=1):
        gpu = {
            "gpudirect_test_sizes": 65536,
            "gpudirect_test_iterations": 20,
            "gpudirect_test_host_result": {},
        }
        result = cluster.finish(
            cluster.start_role("gpudirect_test", {**gpu, "gpudirect_test_threshold_gbps": 0.001})
        )
        assert (result["verdict"], result["reason"]) == ("failed", "perftest_no_cuda"), told(result)
        assert result["best_gbps"] is None
        assert result["findings"][0]["title"] == "Not tested: perftest without CUDA"
