"""The real perftest between guests: with -R, over a wire that is there."""

from __future__ import annotations

import signal
import time

import pytest
from pair import gids, measure, row, start_both, start_client
from rdma_vm import GuestGroup

DEFAULTS = ("-a", "-n", "5", "-F", "--report_gbits", "-R")
"""The collection's command, with fewer iterations than perftest's 5000, which emulation would need hours for."""


def test_rdma_cm_crosses_between_the_nodes(group: GuestGroup) -> None:
    server, client = group.nodes
    run = measure(server, client, "-n", "100", "-F", "--report_gbits", "-R")
    assert (run.server.returncode, run.client.returncode) == (0, 0), run
    assert gids(run.client.out) == [client.gid, server.gid]
    assert gids(run.server.out) == [server.gid, client.gid]
    assert "rdma_cm QPs\t : ON" in run.client.out
    assert row(run.client.out, 65536)[3] > 0


def test_the_default_command(group: GuestGroup) -> None:
    server, client = group.nodes
    run = measure(server, client, *DEFAULTS)
    assert (run.server.returncode, run.client.returncode) == (0, 0), run
    for exponent in range(1, 24):
        assert row(run.client.out, 1 << exponent)[1] == 5


def test_rate_limit_of_one_node(group: GuestGroup) -> None:
    server, client = group.nodes
    client.shape(rate_mbit=20)
    run = measure(server, client, "-n", "30", "-F", "--report_gbits", "-R")
    assert run.client.returncode == 0, run
    assert 0.01 < row(run.client.out, 65536)[3] < 0.021


def test_no_server(group: GuestGroup) -> None:
    server, client = group.nodes
    result = start_client(client, server, "-F", "-R").wait(60)
    assert result.returncode == 1
    assert "rdma_connect" in result.err or "Unexpected CM event" in result.err


def test_server_killed_leaves_a_hung_client_that_a_signal_ends(group: GuestGroup) -> None:
    server, client = group.nodes
    options = ("-n", "20000", "-F", "-R")
    serving, measuring = start_both(server, client, *options)
    serving.send_signal(signal.SIGKILL)
    assert serving.wait().returncode == -signal.SIGKILL
    with pytest.raises(TimeoutError):
        measuring.wait(2)
    measuring.send_signal(signal.SIGTERM)
    assert measuring.wait().returncode == -signal.SIGTERM
    assert server.processes() == client.processes() == {}


def test_link_cut_fails_the_client_and_leaves_the_server_hanging(group: GuestGroup) -> None:
    server, client = group.nodes
    options = ("-D", "4", "-F", "--report_gbits", "-R")
    serving, measuring = start_both(server, client, *options)
    client.link(False)
    assert client.check(["cat", "/sys/class/infiniband/mlx5_0/ports/1/state"]) == "1: DOWN\n"
    result = measuring.wait(60)
    assert result.returncode == 1
    assert "Failed status" in result.err or "Bad wc status" in result.err
    assert serving.poll() is None
    assert list(server.processes()) == [serving.pid]
    serving.send_signal(signal.SIGTERM)
    assert serving.wait(10).returncode == -signal.SIGTERM


def test_closing_the_connection_kills_or_lets_run_on(group: GuestGroup) -> None:
    node = group.nodes[0]
    bound, lingering = (node.popen(["sleep", "60"], linger=linger) for linger in (False, True))
    for process in (bound, lingering):
        process.wait_started()
        process.close()
        assert process.lost
    deadline = time.monotonic() + 5
    while bound.pid in node.processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert node.processes() == {lingering.pid: "sleep 60"}


def test_streams_exit_codes_and_programs_that_are_not_there(group: GuestGroup) -> None:
    node = group.nodes[0]
    result = node.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (result.out, result.err, result.returncode) == ("out\n", "err\n", 7)
    assert len(node.run(["head", "-c", "3000000", "/dev/zero"]).stdout) == 3000000
    with node.popen(["no-such-program"]) as process:
        assert process.wait().returncode == 127
        assert process.start_error == 2


def test_two_rails_are_two_networks() -> None:
    with GuestGroup(nodes=2, rails=2) as group:
        server, client = group.nodes
        run = measure(server, client, "-n", "20", "-F", "-R", rail=1)
        assert (run.server.returncode, run.client.returncode) == (0, 0), run
        assert gids(run.client.out) == [client.rails[1].gid, server.rails[1].gid]


def test_four_nodes_reach_each_other() -> None:
    with GuestGroup(nodes=4) as group:
        first, *others = group.nodes
        for other in others:
            run = measure(first, other, "-n", "20", "-F", "--report_gbits", "-R")
            assert (run.server.returncode, run.client.returncode) == (0, 0), run
            assert gids(run.client.out) == [other.gid, first.gid]
        read_guid = ["cat", "/sys/class/infiniband/mlx5_0/node_guid"]
        assert len({node.check(read_guid) for node in group.nodes}) == 4
