"""The simulator's double of perftest against the real tool: the same words, for the same options."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

pytest.importorskip("aiohttp", reason="the simulated cluster needs aiohttp")
pytest.importorskip("kubernetes", reason="this test talks to the cluster as the collection does")

from pods import Cluster
from simulator import client
from simulator.config import Config
from simulator.wrapper import scripts
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
    "bad value": ["ib_write_bw", "-n", "abc"],
    "size of 0": ["ib_write_bw", "-s", "0"],
    "size below 0": ["ib_write_bw", "-s", "-4"],
    "no queue pairs": ["ib_write_bw", "-q", "0"],
    "too many queue pairs": ["ib_write_bw", "-q", "20000"],
    "no send queue": ["ib_write_bw", "-t", "0"],
    "no time": ["ib_write_bw", "-D", "0"],
    "few iterations": ["ib_write_bw", "-n", "3"],
    "no such port": ["ib_write_bw", "-i", "3"],
    "all sizes for a time": ["ib_write_bw", "-a", "-D", "2"],
    "no such device": ["ib_write_bw", "-d", "none_0"],
    "GID index out of the table": ["ib_write_bw", "-x", "500"],
    "version": ["ib_write_bw", "--version"],
    "help": ["ib_write_bw", "--help"],
}


UNKNOWN_DEVICE = "Device not recognized to implement inline feature. Disabling it"


@dataclass
class Ends:
    """A cluster with a pod on each of its two nodes."""

    cluster: Cluster
    device: str
    address: str

    def alone(self, command: list[str]) -> tuple[int, str, str]:
        """Exit code and both streams of a command in the second pod, which ends soon."""
        done = self.cluster.exec("pod-2", "timeout", "10", *command)
        code = done.finish(30)
        return code, done.out, done.err

    def pair(self, command: list[str]) -> tuple[tuple[int, str, str], tuple[int, str, str]]:
        """Those of a server and its client."""
        command = ["stdbuf", "-oL", *command, "-d", self.device]
        both = self.cluster.measure("pod-1", "pod-2", command, self.address)
        server, client = [(end.code, end.out, end.own_err) for end in both]
        return server, client


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


def lines(code: int, out: str, err: str) -> list[str]:
    """All that is compared. perftest's remark that it does not know rxe, and the rule above it, are not."""
    if UNKNOWN_DEVICE in err:
        err = err.replace(f"{UNKNOWN_DEVICE}\n", "")
        out = out[out.index("\n") + 1 :]
    return [f"exit code {code}", "stdout:", *words(out), "stderr:", *words(err)]


def assert_same(double: tuple[int, str, str], real: tuple[int, str, str]) -> None:
    """Same exit code, same words on both streams; the difference is shown line by line."""
    seen = (lines(*double), lines(*real))
    difference = "\n".join(difflib.unified_diff(*seen, "double", "real", lineterm="", n=1))
    assert not difference, f"\n{difference}"


@pytest.mark.parametrize("case", CASES)
def test_measurements(real: Ends, double: Ends, case: str) -> None:
    for ours, theirs in zip(double.pair(CASES[case]), real.pair(CASES[case]), strict=True):
        assert_same(ours, theirs)


@pytest.mark.parametrize("options", [[], ["-R"]], ids=["tcp", "rdma_cm"])
def test_a_port_in_use(real: Ends, double: Ends, options: list[str]) -> None:
    seen = []
    for ends in (double, real):
        command = ["stdbuf", "-oL", "ib_write_bw", "-d", ends.device, "-F", *options]
        squatter = ends.cluster.wrapped("pod-1", *command)
        squatter.read(lambda squatter=squatter: "Waiting for client" in squatter.out, 30)
        time.sleep(1)  # from its banner until it listens
        second = ends.cluster.exec("pod-1", *command)
        code = second.finish(30)
        seen.append((code, second.out, second.err))
        kill = ("sh", "-c", scripts()[1], "sh", "TERM", str(squatter.pid))
        ends.cluster.exec("pod-1", *kill).finish()
        squatter.finish()
    assert_same(*seen)


@pytest.mark.parametrize("case", FAILURES)
def test_what_needs_no_other_end(real: Ends, double: Ends, case: str) -> None:
    assert_same(double.alone(FAILURES[case]), real.alone(FAILURES[case]))
