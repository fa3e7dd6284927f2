from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import commands
from ansible_collections.k8si.fabric.plugins.plugin_utils.settings import make_settings

from .engine_data import GPU_VARIABLES, VARIABLES, endpoint

HOST = make_settings(VARIABLES, "rdma_test_")
GPU = make_settings(GPU_VARIABLES, "gpudirect_test_")
LINK = {"id": "n2/0 -> n1/0", "rail": 0, "server": "n1/0", "client": "n2/0", "round": 1}


def test_the_manual_procedures_command():
    server = commands.perftest_command(endpoint(1), HOST)
    assert " ".join(server) == (
        "stdbuf -oL ib_write_bw -d mlx5_2 -i 1 -a -F --report_gbits -R -p 18515"
    )
    client = commands.perftest_command(endpoint(2), HOST, peer=endpoint(1))
    assert client == [*server, "192.168.4.1"]


def test_gpu_options_and_their_order():
    on_gpu = endpoint(1, cuda_device=3, cuda_method="dmabuf")
    command = " ".join(commands.perftest_command(on_gpu, GPU))
    assert "-q 2 --use_cuda 3 --use_cuda_dmabuf" in command
    on_gpu["cuda_method"] = "peermem"
    assert "dmabuf" not in " ".join(commands.perftest_command(on_gpu, GPU))


@pytest.mark.parametrize("tool", commands.LATENCY_TOOLS)
def test_latency_tools_get_no_options_of_bandwidth_tools(tool):
    settings = make_settings({**VARIABLES, "tool": tool, "threshold_us": 5, "qps": 2}, "rdma_test_")
    command = " ".join(commands.perftest_command(endpoint(1), settings))
    assert command == f"stdbuf -oL {tool} -d mlx5_2 -i 1 -a -F -R -p 18515"


@pytest.mark.parametrize("tool", commands.BANDWIDTH_TOOLS)
def test_bandwidth_tools(tool):
    settings = make_settings({**VARIABLES, "tool": tool, "bidirectional": True}, "rdma_test_")
    command = " ".join(commands.perftest_command(endpoint(1), settings))
    assert command == f"stdbuf -oL {tool} -d mlx5_2 -i 1 -a -F --report_gbits -R -b -p 18515"


def test_across_rails_the_client_comes_to_the_port_of_the_servers_rail():
    server, client = endpoint(1, 2), endpoint(2, 0)
    link = {**LINK, "rail": 2, "client_rail": 0, "server": "n1/2", "client": "n2/0"}
    for item in commands.round_items([link], [server, client], HOST):
        assert item["command"][item["command"].index("-p") + 1] == "18517"


def test_without_rdma_cm_the_pod_ip_carries_the_exchange_and_the_gid_is_named():
    plain = {**HOST, "rdma_cm": False}
    command = commands.perftest_command(endpoint(2), plain, peer=endpoint(1))
    assert "-R" not in command and command[-1] == "10.244.0.1"
    assert command[command.index("-x") + 1] == "7"


def test_ipv6_is_said_on_both_ends():
    ends = [endpoint(n, address=f"fd00:4::{n}", gid=f"fd00:4::{n}") for n in (1, 2)]
    assert "--ipv6-addr" in commands.perftest_command(ends[0], HOST)
    assert commands.perftest_command(ends[1], HOST, peer=ends[0])[-2:] == [
        "--ipv6-addr",
        "fd00:4::1",
    ]
    assert "--ipv6-addr" not in commands.perftest_command(endpoint(1), HOST)


def test_values_stay_one_word_each():
    hostile = endpoint(1, device="mlx5_0; reboot")
    assert "mlx5_0; reboot" in commands.perftest_command(hostile, HOST)


def test_without_stdbuf_nothing_waits_for_text():
    items = commands.round_items([LINK], [endpoint(1, stdbuf=False), endpoint(2)], HOST)
    server, client = items
    assert server["command"][0] == "ib_write_bw"
    assert client["start_after"]["event"] == "started"


def test_a_round_relates_server_and_client():
    server, client = commands.round_items([LINK], [endpoint(1), endpoint(2)], HOST)
    assert server["pod"] == "rdma-test-r1-1" and client["pod"] == "rdma-test-r1-2"
    assert client["start_after"]["item"] == server["id"]
    assert server["end_with"] == client["id"] and client["end_with"] == server["id"]
    assert server["timeout"] > client["timeout"]
    assert "Couldn't connect to " in client["retry"]["texts"]


def test_other_shapes_of_a_run():
    settings = {
        **HOST,
        "sizes": 65536,
        "duration_s": 10,
        "qps": 4,
        "bidirectional": True,
        "iterations": 1000,
        "extra_options": ["--tclass=96"],
    }
    command = " ".join(commands.perftest_command(endpoint(1), settings))
    assert "-D 10 -s 65536 -n 1000 -F --report_gbits -R -q 4 -b -p 18515 --tclass=96" in command


def test_the_way_back_starts_when_the_way_there_has_ended():
    there = {**LINK, "round": 1}
    back = {"id": "n1/0 -> n2/0", "rail": 0, "server": "n2/0", "client": "n1/0", "round": 2}
    items = commands.round_items([there, back], [endpoint(1), endpoint(2)], HOST)
    first_server, first_client, second_server, second_client = items
    assert "start_after" not in first_server
    # where another pair's way there is run again beside it, it has nothing to wait for
    other = {**LINK, "id": "n4/0 -> n3/0", "server": "n3/0", "client": "n4/0", "round": 1}
    four = [endpoint(n) for n in (1, 2, 3, 4)]
    assert "start_after" not in commands.round_items([other, back], four, HOST)[2]
    assert second_server["start_after"] == {"item": first_client["id"], "event": "ended"}
    # the second client's patience counts from the start of the batch
    assert second_client["start_after"]["timeout"] > HOST["timeout_s"] + 30
    assert first_client["start_after"]["timeout"] == 30
