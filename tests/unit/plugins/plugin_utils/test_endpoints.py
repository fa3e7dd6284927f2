"""Endpoints from pods and probes; pods and container views are those of tests/unit/k8s_fixtures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import endpoints, probe
from ansible_collections.k8si.fabric.plugins.plugin_utils.settings import make_settings

from .engine_data import GPU_VARIABLES, VARIABLES

UNIT = Path(__file__).parents[2]
FIXTURES = UNIT / "k8s_fixtures"
HOST = make_settings(VARIABLES, "rdma_test_")
NO_CM = make_settings({**VARIABLES, "rdma_cm": False, "networks": []}, "rdma_test_")


def pods_of(name: str) -> list[dict]:
    fixture = json.loads((FIXTURES / "testpods" / f"{name}.json").read_text())
    return fixture.get("items", [fixture])


def probe_text(view: dict, **changes) -> str:
    """What the probe prints in a container that looks like a fixture of podview."""
    link = view.get("link_layer", "Ethernet")
    state = changes.get("state", "4: ACTIVE")
    rate = changes.get("rate", "400 Gb/sec (4X NDR)")
    lines = ["probe\t1"]
    for device in view["class_infiniband"]:
        lines.append(
            f"device\t{device}\t28.39.1002\tMT4129\tMT_0000000838\t0\t/devices/pci0000:00/{device}"
        )
        lines.append(
            f"port\t{device}\t1\t{state}\t5: LinkUp\t{rate}\t{link}\t{changes.get('lid', '0x0')}"
        )
    for gid in view["gids"]:
        lines.append(
            "\t".join(
                [
                    "gid",
                    gid["dev"],
                    str(gid["port"]),
                    str(gid["index"]),
                    gid["gid"],
                    gid["type"],
                    gid["ndev"],
                ]
            )
        )
    for uverbs, device in view["uverbs_ibdev"].items():
        granted = "yes" if uverbs in view["dev_infiniband"] else "no"
        lines.append(f"uverbs\t{uverbs}\t{device}\t{granted}")
    lines.append(f"net\tnet1\t{changes.get('mac', 'd6:25:47:a2:36:6b')}\t9000\t1\tup\t0\t")
    lines.append("tool\tib_write_bw\t6.29\t" + changes.get("cuda", "no") + "\tno")
    lines += ["stdbuf\tyes", "end"]
    return "\n".join(lines) + "\n"


def view_of(name: str) -> dict:
    return json.loads((FIXTURES / "podview" / f"{name}.json").read_text())


def completed(pod: dict, stdout: str) -> dict:
    return {
        "id": pod["metadata"]["name"],
        "outcome": "completed",
        "rc": 0,
        "stdout": stdout,
        "stderr": "",
        "message": "",
    }


def build(pods, text, settings=None):
    if isinstance(pods, dict):
        pods = [pods]
    return endpoints.build_endpoints(pods, [completed(p, text) for p in pods], settings or HOST)


def only_finding(built: dict) -> dict:
    assert built["endpoints"] == []
    assert len(built["findings"]) == 1
    return built["findings"][0]


# ---- which device, of several


def test_the_granted_device_whose_gid_table_holds_the_address():
    """Eight HCAs in sysfs, one granted; a sparse GID table with RoCE v1 and v2 entries."""
    pod = pods_of("macvlan-pair")[0]
    built = build(pod, probe_text(view_of("macvlan-shared-8nics")))
    assert built["findings"] == []
    end = built["endpoints"][0]
    assert (end["device"], end["port"], end["gid_index"]) == ("mlx5_2", 1, 7)
    assert end["gid"] == "::ffff:192.168.4.2" and end["address"] == "192.168.4.2"
    assert end["line_rate_gbps"] == 400.0 and end["pod_ip"] == "10.244.1.31"


def test_a_virtual_function_in_exclusive_mode():
    pod = pods_of("device-info-no-rdma")[0]
    settings = make_settings({**VARIABLES, "networks": ["sriov-rdma-network"]}, "rdma_test_")
    end = build(pod, probe_text(view_of("vf-exclusive")), settings)["endpoints"][0]
    assert (end["device"], end["gid_index"]) == ("mlx5_4", 3)


def test_infiniband_without_a_secondary_network_is_tested_by_lid():
    pod = pods_of("macvlan-pair")[0]
    end = build(pod, probe_text(view_of("ib-link"), lid="0x1f"), NO_CM)["endpoints"][0]
    assert (end["device"], end["lid"], end["link_layer"]) == ("mlx5_0", 31, "InfiniBand")
    assert end["address"] == "10.244.1.31" and end["gid_index"] is None


def test_ipoib_is_matched_by_the_port_guid():
    view = view_of("ib-link")
    mac = "80:00:02:08:fe:80:00:00:00:00:00:00:02:00:5e:00:00:53:00:01"
    end = build(pods_of("macvlan-pair")[0], probe_text(view, mac=mac, lid="0x1f"))["endpoints"][0]
    assert end["device"] == "mlx5_0" and end["address"] == "192.168.4.2"


def test_ipv6_addresses():
    pod = pods_of("macvlan-pair")[0]
    note = pod["metadata"]["annotations"]
    note[endpoints.STATUS_ANNOTATION] = note[endpoints.STATUS_ANNOTATION].replace(
        "192.168.4.2", "fd00:4::2"
    )
    view = view_of("macvlan-shared-8nics")
    view["gids"][3]["gid"] = "fd00:0004:0000:0000:0000:0000:0000:0002"
    end = build(pod, probe_text(view))["endpoints"][0]
    assert (end["gid"], end["gid_index"], end["address"]) == ("fd00:4::2", 7, "fd00:4::2")


def test_two_devices_that_fit_are_ambiguous():
    view = view_of("macvlan-shared-8nics")
    view["dev_infiniband"].append("uverbs1")
    view["gids"] += [{**g, "dev": "mlx5_1"} for g in view["gids"]]
    found = only_finding(build(pods_of("macvlan-pair")[0], probe_text(view)))
    assert found["code"] == "ambiguous_device"
    assert "mlx5_1 port 1, mlx5_2 port 1" in found["seen"]


def test_device_info_that_names_two_devices_does_not_decide():
    view = view_of("vf-exclusive")
    view["class_infiniband"].append("mlx5_5")
    view["uverbs_ibdev"]["uverbs5"] = "mlx5_5"
    view["dev_infiniband"].append("uverbs5")
    view["gids"] += [{**g, "dev": "mlx5_5"} for g in view["gids"]]
    settings = make_settings({**VARIABLES, "networks": ["sriov-rdma-network"]}, "rdma_test_")
    pod = pods_of("device-info-two-rdma")[0]
    assert only_finding(build(pod, probe_text(view), settings))["code"] == "ambiguous_device"
    note = pod["metadata"]["annotations"]
    note[endpoints.STATUS_ANNOTATION] = note[endpoints.STATUS_ANNOTATION].replace(
        "mlx5_4,mlx5_5", "mlx5_5"
    )
    assert build(pod, probe_text(view), settings)["endpoints"][0]["device"] == "mlx5_5"


# ---- a device that the user names is verified


@pytest.mark.parametrize(
    ("device", "code", "words"),
    [
        ("mlx5_9", "device_not_found", "there are: mlx5_0, mlx5_1, mlx5_2, mlx5_3"),
        ("mlx5_1", "device_not_granted", "it may open: mlx5_2"),
    ],
)
def test_a_wrong_device(device, code, words):
    settings = make_settings({**VARIABLES, "devices": [device]}, "rdma_test_")
    found = only_finding(
        build(pods_of("macvlan-pair")[0], probe_text(view_of("macvlan-shared-8nics")), settings)
    )
    assert found["code"] == code and words in found["seen"]


def test_a_device_of_another_network():
    view = view_of("macvlan-shared-8nics")
    view["dev_infiniband"].append("uverbs1")
    settings = make_settings({**VARIABLES, "devices": ["mlx5_1"]}, "rdma_test_")
    found = only_finding(build(pods_of("macvlan-pair")[0], probe_text(view), settings))
    assert found["code"] == "device_not_found"
    assert "192.168.4.2 of net1 belongs to mlx5_2, not to mlx5_1" in found["seen"]


def test_the_right_device():
    settings = make_settings({**VARIABLES, "devices": ["mlx5_2"]}, "rdma_test_")
    built = build(pods_of("macvlan-pair")[0], probe_text(view_of("macvlan-shared-8nics")), settings)
    assert built["endpoints"][0]["device"] == "mlx5_2"


# ---- what is missing in the pod


def test_no_gid():
    found = only_finding(build(pods_of("macvlan-pair")[0], probe_text(view_of("no-gids"))))
    assert found["code"] == "no_gid" and "no GID at all" in found["seen"]
    assert found["where"]["node"] == "worker-gpu-01"


def test_port_down():
    text = probe_text(view_of("macvlan-shared-8nics"), state="1: DOWN")
    found = only_finding(build(pods_of("macvlan-pair")[0], text))
    assert found["code"] == "port_down" and "DOWN" in found["seen"]


def test_a_rate_that_cannot_be_read_is_no_rate():
    text = probe_text(view_of("macvlan-shared-8nics"), rate="")
    assert build(pods_of("macvlan-pair")[0], text)["endpoints"][0]["line_rate_gbps"] is None


def test_no_device_granted():
    view = view_of("macvlan-shared-8nics")
    view["dev_infiniband"] = []
    assert only_finding(build(pods_of("macvlan-pair")[0], probe_text(view)))["code"] == "no_devices"


def test_perftest_without_cuda_is_not_tested():
    settings = make_settings(GPU_VARIABLES, "gpudirect_test_")
    view = view_of("macvlan-shared-8nics")
    found = only_finding(build(pods_of("macvlan-pair")[0], probe_text(view), settings))
    assert found["code"] == "perftest_no_cuda" and "without CUDA" in found["seen"]
    assert build(pods_of("macvlan-pair")[0], probe_text(view, cuda="yes"), settings)["endpoints"]


def test_no_tool():
    text = probe_text(view_of("macvlan-shared-8nics")).replace("tool\t", "tuul\t")
    assert only_finding(build(pods_of("macvlan-pair")[0], text))["code"] == "image_missing_tool"


def test_a_probe_cut_short_decides_nothing():
    text = probe_text(view_of("macvlan-shared-8nics")).replace("end\n", "")
    assert only_finding(build(pods_of("macvlan-pair")[0], text))["code"] == "exec_lost"


def test_a_probe_that_was_refused():
    pod = pods_of("macvlan-pair")[0]
    result = {
        **completed(pod, ""),
        "outcome": "refused",
        "message": "allow verb create on pods/exec",
    }
    built = endpoints.build_endpoints([pod], [result], HOST)
    assert only_finding(built)["code"] == "exec_refused"


# ---- addresses


@pytest.mark.parametrize(
    ("fixture", "network", "address"),
    [
        ("macvlan-pair", "rdma-net-ipam", "192.168.4.2"),
        ("default-missing", "rdma-net-ipam", "192.168.4.2"),
        ("default-name-empty", "rdma-net-ipam", "192.168.4.2"),
        ("custom-ifname", "rdma-net-ipam@rdma0", "192.168.4.2"),
        ("legacy-networks-status", "rdma-net-ipam", "192.168.4.2"),
        ("gpu-pair-no-command", "rdma-net-ipam", "192.168.4.3"),
    ],
)
def test_the_secondary_address_never_the_pod_ip(fixture, network, address):
    entry = endpoints.secondary_network(pods_of(fixture)[0], network)
    assert entry["ips"][0] == address


def test_rails_are_found_by_name_not_by_position():
    pod = pods_of("multirail")[0]
    found = [endpoints.secondary_network(pod, f"rdma-net-rail-{k}")["ips"] for k in range(8)]
    assert found == [[f"192.168.{10 + k}.2"] for k in range(8)]


@pytest.mark.parametrize(
    ("fixture", "code"),
    [("network-status-missing", "multus_not_active"), ("broken-status", "bad_network_status")],
)
def test_no_status_is_said_as_such(fixture, code):
    found = only_finding(build(pods_of(fixture)[0], probe_text(view_of("macvlan-shared-8nics"))))
    assert found["code"] == code


def test_another_network_is_not_taken_for_ours():
    settings = make_settings({**VARIABLES, "networks": ["rdma-net-b"]}, "rdma_test_")
    found = only_finding(
        build(pods_of("macvlan-pair")[0], probe_text(view_of("macvlan-shared-8nics")), settings)
    )
    assert found["code"] == "bad_network_status"
    assert "no entry for default/rdma-net-b; there are: default/rdma-net-ipam" in found["seen"]


def test_an_address_that_two_pods_share():
    built = build(pods_of("duplicate-ip"), probe_text(view_of("macvlan-shared-8nics")))
    assert only_finding(built)["code"] == "duplicate_secondary_ip"


def test_two_pods_on_one_node():
    pods = pods_of("same-node")
    for pod in pods:
        note = pod["metadata"]["annotations"]
        note[endpoints.STATUS_ANNOTATION] = note[endpoints.STATUS_ANNOTATION].replace(
            "192.168.4.4", "192.168.4.2"
        )
    assert (
        only_finding(build(pods, probe_text(view_of("macvlan-shared-8nics"))))["code"]
        == "same_node"
    )


# ---- GPUs


def test_each_rail_gets_the_gpu_nearest_to_its_device():
    settings = make_settings({**GPU_VARIABLES, "gpu_count": 2}, "gpudirect_test_")
    lines = ["gpu\tGPU 0: H100", "gpu\tGPU 1: H100", "peermem\tno"]
    lines += [
        "topo\t\tGPU0\tGPU1\tmlx5_2",
        "topo\tGPU0\t X \tNV18\tSYS",
        "topo\tGPU1\tNV18\t X \tPIX",
    ]
    text = probe_text(view_of("macvlan-shared-8nics"), cuda="yes")
    text = text.replace("\tyes\tno\nstdbuf", "\tyes\tyes\nstdbuf")
    text = text.replace("end\n", "\n".join([*lines, "end", ""]))
    built = build(pods_of("macvlan-pair")[0], text, settings)
    end = built["endpoints"][0]
    assert (end["cuda_device"], end["gpu_path"], end["cuda_method"]) == (1, "PIX", "dmabuf")
    assert built["notes"] == [
        f"GPU memory by dmabuf: {end['node']} has no module nvidia_peermem loaded, and perftest can do DMA-BUF"
    ]


# ---- the probe itself


def test_the_probe_runs_in_a_plain_shell(tmp_path):
    """The real script, under sh, on a tree that looks like a container with one granted HCA of two."""
    script = (UNIT.parents[1] / "roles" / "perftest" / "files" / "probe.sh").read_text()
    root = tmp_path / "root"
    for device, uverbs in (("mlx5_0", "uverbs0"), ("mlx5_1", "uverbs1")):
        port = root / "sys/class/infiniband" / device / "ports/1"
        for folder in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
            (port / folder).mkdir(parents=True)
        for name, text in (
            ("state", "4: ACTIVE"),
            ("phys_state", "5: LinkUp"),
            ("rate", "100 Gb/sec (4X EDR)"),
            ("link_layer", "Ethernet"),
            ("lid", "0x0"),
        ):
            (port / name).write_text(text + "\n")
        (port / "gids/0").write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
        (port / "gids/3").write_text("0000:0000:0000:0000:0000:ffff:c0a8:0402\n")
        (port / "gid_attrs/types/3").write_text("RoCE v2\n")
        (port / "gid_attrs/ndevs/3").write_text("net1\n")
        (root / "sys/class/infiniband_verbs" / uverbs).mkdir(parents=True)
        (root / "sys/class/infiniband_verbs" / uverbs / "ibdev").write_text(device + "\n")
    net = root / "sys/class/net/net1"
    net.mkdir(parents=True)
    for name, text in (
        ("address", "aa:bb:cc:dd:ee:ff"),
        ("mtu", "9000"),
        ("type", "1"),
        ("operstate", "up"),
    ):
        (net / name).write_text(text + "\n")
    (root / "dev/infiniband").mkdir(parents=True)
    (root / "dev/infiniband/uverbs1").touch()
    (root / "dev/infiniband/rdma_cm").touch()
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/limits").write_text(
        "Max locked memory         65536                unlimited            bytes\n"
    )
    (root / "proc/self/status").write_text("Uid:\t0\t0\t0\t0\nCapEff:\t0000000000004000\n")
    gpu = root / "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    gpu.mkdir(parents=True)
    (gpu / "numa_node").write_text("1\n")
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    (root / "sys/bus/pci/devices/0000:3b:00.0").symlink_to(gpu)
    (root / "sys/module/nvidia").mkdir(parents=True)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(
        '#!/bin/sh\ncase $1 in -L) echo "GPU 0: NVIDIA H100";; --query*) echo "0, 00000000:3B:00.0";;'
        ' *) printf "\\tGPU0\\n";; esac\n'
    )
    (tools / "nvidia-smi").chmod(0o755)
    (tools / "ib_write_bw").write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "Version: 6.06"\nexit 1\n'
    )
    (tools / "ib_write_bw").chmod(0o755)
    shell = shutil.which("dash") or "sh"
    done = subprocess.run(
        [shell, "-c", probe.shorten(script), "probe", "ib_write_bw", "cuda"],
        env={"FABRIC_PROBE_ROOT": str(root), "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    read = probe.parse_probe(done.stdout)
    assert read["complete"] and read["rdma_cm"] and read["ipc_lock"] and read["uid"] == 0
    assert read["memlock"] == {"soft": 65536, "hard": None}
    assert [(n, d["granted"]) for n, d in read["devices"].items()] == [
        ("mlx5_0", False),
        ("mlx5_1", True),
    ]
    assert read["devices"]["mlx5_1"]["ports"][1]["rate_gbps"] == 100.0
    assert {(g["device"], g["index"], g["gid"], g["type"], g["ndev"]) for g in read["gids"]} == {
        ("mlx5_0", 3, "::ffff:192.168.4.2", "RoCE v2", "net1"),
        ("mlx5_1", 3, "::ffff:192.168.4.2", "RoCE v2", "net1"),
    }
    assert read["tool"] == {
        "name": "ib_write_bw",
        "version": "6.06",
        "cuda": False,
        "dmabuf": False,
    }
    assert read["interfaces"]["net1"]["mtu"] == 9000
    assert read["gpus"] == ["GPU 0: NVIDIA H100"] and read["peermem"] is False
    path = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    assert read["gpu_paths"] == {0: {"pci_path": path, "numa_node": 1}}


def test_the_probe_fits_into_a_url():
    script = (UNIT.parents[1] / "roles" / "perftest" / "files" / "probe.sh").read_text()
    from urllib.parse import quote

    assert len(quote(probe.shorten(script))) < 6000
