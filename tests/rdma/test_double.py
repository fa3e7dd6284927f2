"""The simulator's double of perftest against the real tool: the same words, for the same options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

pytest.importorskip("aiohttp", reason="the simulated cluster needs aiohttp")
pytest.importorskip("kubernetes", reason="this test talks to the cluster as the collection does")

from pods import Cluster
from simulator import client
from simulator.config import Config
from simulator_rdma import server
from simulator_rdma.__main__ import guest_config

CASES = {
    "defaults": ["ib_write_bw", "-a", "-n", "5", "-F", "--report_gbits", "-R"],
    "without rdma_cm": ["ib_write_bw", "-n", "50", "-F", "--report_gbits"],
    "MB/sec": ["ib_write_bw", "-n", "50", "-F"],
    "two QPs": ["ib_write_bw", "-n", "20", "-F", "-q", "2", "--report_gbits", "-R"],
    "bidirectional": ["ib_write_bw", "-n", "20", "-F", "-b", "--report_gbits"],
    "duration": ["ib_write_bw", "-D", "1", "-F", "--report_gbits"],
    "read": ["ib_read_bw", "-n", "20", "-F", "--report_gbits"],
    "send": ["ib_send_bw", "-n", "20", "-F", "--report_gbits"],
    "latency": ["ib_write_lat", "-n", "20", "-F"],
    "latency of read": ["ib_read_lat", "-n", "20", "-F"],
}
FAILURES = {
    "unknown option": ["ib_write_bw", "--use_cuda", "0"],
    "bad value": ["ib_write_bw", "-s", "0"],
    "no such device": ["ib_write_bw", "-d", "none_0"],
    "GID index out of the table": ["ib_write_bw", "-x", "500"],
    "version": ["ib_write_bw", "--version"],
    "help": ["ib_write_bw", "--help"],
}


@dataclass
class Ends:
    """A cluster with a pod on each of its two nodes."""

    cluster: Cluster
    device: str
    address: str

    def alone(self, command: list[str]) -> tuple[int, str, str]:
        """Exit code and both streams of a command in the second pod."""
        done = self.cluster.exec("pod-2", *command)
        code = done.finish()
        return code, done.out, done.err

    def pair(self, command: list[str]) -> tuple[tuple[int, str, str], tuple[int, str, str]]:
        """Those of a server and its client."""
        command = ["stdbuf", "-oL", *command, "-d", self.device]
        serving = self.cluster.exec("pod-1", *command)
        serving.read(lambda: "Waiting for client" in serving.out, 30)
        measuring = self.cluster.exec("pod-2", *command, self.address)
        codes = measuring.finish(), serving.finish()
        return (codes[1], serving.out, serving.err), (codes[0], measuring.out, measuring.err)


def ends(kubeconfig: str, device: str) -> Ends:
    cluster = Cluster(kubeconfig)
    network = cluster.pod("pod-1", "gpu-node-1")
    cluster.pod("pod-2", "gpu-node-2")
    return Ends(cluster, device, network["ips"][0])


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    folder = tmp_path_factory.mktemp("real")
    yield ends(server.start(folder, guest_config(nodes=2))["kubeconfig"], "mlx5_0")
    server.stop(folder)


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    folder = tmp_path_factory.mktemp("double")
    config = Config(nodes=2, gpus=0, perftest="6.06", time_scale=0.02, start_delay=0.05)
    yield ends(client.start(folder, config)["kubeconfig"], "mlx5_1")
    client.stop(folder)


def words(text: str) -> list[str]:
    """The lines of an output, with every number and what depends on the device taken out."""
    text = re.sub(r"0x[0-9a-f]+", "N", text)
    text = re.sub(r"(GID: )[0-9a-f:]+", r"\1N", text)
    text = re.sub(r"\d[\d.:]*", "N", text)
    text = re.sub(r"(ibv_wr\* API|PCIe relax order)( *): \w+", r"\1\2: X", text)
    return [re.sub(r"[ \t]+", " ", line).rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("case", CASES)
def test_measurements(real: Ends, double: Ends, case: str) -> None:
    seen = {}
    for name, both in (("real", real.pair(CASES[case])), ("double", double.pair(CASES[case]))):
        seen[name] = [(code, words(out), words(err)) for code, out, err in both]
    assert seen["double"] == seen["real"]


@pytest.mark.parametrize("case", FAILURES)
def test_what_needs_no_other_end(real: Ends, double: Ends, case: str) -> None:
    seen = {}
    for name, (code, out, err) in (
        ("real", real.alone(FAILURES[case])),
        ("double", double.alone(FAILURES[case])),
    ):
        seen[name] = (code, words(out), words(err))
    assert seen["double"] == seen["real"]
