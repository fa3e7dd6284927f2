"""The real perftest between devices of one guest: without -R."""

from __future__ import annotations

from pair import gids, measure, row, start_both, start_client, start_server
from rdma_vm import Guest, without_ipc_lock


def test_bandwidth_in_gigabits(guest: Guest) -> None:
    server, client = guest.nodes[:2]
    run = measure(server, client, "-n", "200", "-F", "--report_gbits")
    assert (run.server.returncode, run.client.returncode) == (0, 0), run
    size, iterations, peak, average, rate = row(run.client.out, 65536)
    assert (size, iterations) == (65536, 200)
    assert 0 < average <= peak < 400
    assert abs(size * rate * 8e-3 - average) < 0.01
    assert gids(run.client.out) == [client.gid, server.gid]
    assert gids(run.server.out) == [server.gid, client.gid]


def test_other_nodes_and_duration(guest: Guest) -> None:
    server, client = guest.nodes[2:]
    run = measure(server, client, "-D", "1", "-F", "--report_gbits")
    assert (run.server.returncode, run.client.returncode) == (0, 0), run
    assert row(run.client.out, 65536)[3] > 0
    assert gids(run.client.out) == [client.gid, server.gid]


def test_latency(guest: Guest) -> None:
    run = measure(guest.nodes[0], guest.nodes[1], "-n", "20", "-F", tool="ib_write_lat")
    assert (run.server.returncode, run.client.returncode) == (0, 0), run
    assert "t_avg[usec]" in run.client.out
    assert len(row(run.client.out, 2)) == 9


def test_figures_repeat(guest: Guest) -> None:
    """Time in this guest is counted in instructions, so that two runs agree whatever else the host does."""
    figures = [
        row(measure(*guest.nodes[:2], "-n", "50", "-F", "--report_gbits").client.out, 65536)[3]
        for _ in range(2)
    ]
    assert abs(figures[0] - figures[1]) < 0.1 * figures[0]


def test_no_server(guest: Guest) -> None:
    client = start_client(guest.nodes[1], guest.nodes[0], "-F").wait()
    assert client.returncode == 1
    assert "Couldn't connect to 10.9.0.1:18515" in client.err


def test_rdma_cm_takes_the_loopback_route_inside_one_guest(guest: Guest) -> None:
    """Why -R needs a group: whatever device is named, the route to the address decides."""
    server, client = guest.nodes[:2]
    run = measure(server, client, "-n", "20", "-F", "-R")
    assert run.client.returncode == 0, run
    assert gids(run.client.out) == [server.gid, server.gid]


def test_rate_limit(guest: Guest) -> None:
    server, client = guest.nodes[:2]
    client.shape(rate_mbit=20)
    run = measure(server, client, "-n", "30", "-F", "--report_gbits")
    assert run.client.returncode == 0, run
    assert 0.01 < row(run.client.out, 65536)[3] < 0.021
    client.shape()
    run = measure(server, client, "-n", "30", "-F", "--report_gbits")
    assert row(run.client.out, 65536)[3] > 0.03


def test_link_cut_in_mid_run_gives_no_result(guest: Guest) -> None:
    """perftest 6.06 then ends in one of two ways: with an error, or with exit code 0 and a row of zeros."""
    server, client = guest.nodes[:2]
    serving, measuring = start_both(server, client, "-D", "6", "-F", "--report_gbits")
    client.link(False)
    ends = measuring.wait(60), serving.wait(30)
    if ends[0].returncode == 0:
        assert ends[1].returncode == 0, ends
        assert row(ends[0].out, 65536)[1:] == [0, 0, 0, 0]
    else:
        assert [end.returncode for end in ends] == [1, 1], ends
        assert "Failed status 2" in ends[0].err


def test_memory_limit_without_ipc_lock(guest: Guest) -> None:
    server, client = guest.nodes[:2]
    serving = start_server(server, "-F")
    command = ["ib_write_bw", "-d", client.device, "-F", server.address]
    result = client.run(without_ipc_lock(command))
    assert result.returncode == 1
    assert "Couldn't allocate MR" in result.err
    assert serving.wait(30).returncode == 1


def test_unknown_option_as_in_a_build_without_cuda(guest: Guest) -> None:
    node = guest.nodes[0]
    result = node.run(["ib_write_bw", "-d", node.device, "--use_cuda", "0"])
    assert result.returncode == 1
    assert "unrecognized option" in result.err
    assert "--use_cuda" not in node.run(["ib_write_bw", "--help"]).out
