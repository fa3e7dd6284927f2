from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import gpus

from .engine_data import endpoint

TOPO = [
    "\x1b[4m\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m",
    "GPU0\t X \tNV18\tNODE\tPIX\t0-95\t0\t\tN/A",
    "GPU1\tNV18\t X \tSYS\tPIX\t96-191\t1\t\tN/A",
    "NIC0\tNODE\tSYS\t X \tNODE\t\t\t\t",
    "NIC1\tPIX\tPIX\tNODE\t X \t\t\t\t",
    "",
    "Legend:",
    "  PIX  = Connection traversing at most a single PCIe bridge",
    "NIC Legend:",
    "",
    "  NIC0: mlx5_0",
    "  NIC1: mlx5_1",
]
# What nvidia-smi of driver 580 prints on a machine without RDMA devices.
ALONE = [
    "\x1b[4m\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m",
    "GPU0\t X \t0-15\t0\t\tN/A",
]
SWITCH = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"


def probe(count=2, topology=(), gpu_paths=None, pci_path=f"{SWITCH}/0000:02:00.0/0000:03:00.0"):
    device = {"pci_path": pci_path, "numa_node": 0}
    return {
        "gpus": [f"GPU {i}: NVIDIA H100 (UUID: GPU-{i})" for i in range(count)],
        "topology": list(topology),
        "devices": {"mlx5_0": device, "mlx5_1": device},
        "gpu_paths": gpu_paths or {},
    }


def test_the_table_of_nvidia_smi():
    assert gpus.topology(TOPO) == {
        0: {"mlx5_0": "NODE", "mlx5_1": "PIX"},
        1: {"mlx5_0": "SYS", "mlx5_1": "PIX"},
    }
    assert gpus.topology(ALONE) == {0: {}}
    assert gpus.topology(["NVIDIA-SMI has failed because it couldn't communicate"]) == {}


def test_columns_that_name_the_device():
    old = [line.replace("NIC0", "mlx5_0").replace("NIC1", "mlx5_1") for line in TOPO[:5]]
    assert gpus.topology(old)[0] == {"mlx5_0": "NODE", "mlx5_1": "PIX"}


@pytest.mark.parametrize(
    ("gpu", "same_numa", "expected"),
    [
        (f"{SWITCH}/0000:02:01.0/0000:04:00.0", True, "PIX"),
        (f"{SWITCH}/0000:02:01.0/0000:04:00.0/0000:05:00.0/0000:06:00.0", True, "PXB"),
        ("/sys/devices/pci0000:00/0000:00:02.0/0000:07:00.0", True, "PHB"),
        ("/sys/devices/pci0000:80/0000:80:02.0/0000:81:00.0", True, "NODE"),
        ("/sys/devices/pci0000:80/0000:80:02.0/0000:81:00.0", False, "SYS"),
        ("/sys/devices/pci0000:80/0000:80:02.0/0000:81:00.0", None, ""),
        ("", True, ""),
    ],
)
def test_distance_from_pci_paths(gpu, same_numa, expected):
    nic = f"{SWITCH}/0000:02:00.0/0000:03:00.0"
    for ends in ((nic, gpu), (gpu, nic)):
        assert gpus.path_class(*ends, same_numa) == expected


def test_the_nearest():
    chosen = gpus.choose(probe(topology=TOPO), "mlx5_0", "auto", set())
    assert chosen == {"device": 0, "path": "NODE", "note": ""}


def test_equally_near_is_said_and_a_free_one_preferred():
    chosen = gpus.choose(probe(topology=TOPO), "mlx5_1", "auto", {0})
    assert (chosen["device"], chosen["path"]) == (1, "PIX")
    assert "GPUs 0, 1 are equally near to mlx5_1" in chosen["note"]


def test_one_gpu_is_no_choice():
    assert gpus.choose(probe(1), "mlx5_0", "auto", {0}) == {"device": 0, "path": None, "note": ""}


def test_an_unknown_distance_is_said():
    chosen = gpus.choose(probe(), "mlx5_0", "auto", set())
    assert chosen["path"] is None and "not known" in chosen["note"]


def test_pci_paths_where_the_table_has_no_nic():
    paths = {
        0: {"pci_path": "/sys/devices/pci0000:80/0000:80:02.0/0000:81:00.0", "numa_node": 1},
        1: {"pci_path": f"{SWITCH}/0000:02:01.0/0000:04:00.0", "numa_node": 0},
    }
    chosen = gpus.choose(probe(topology=ALONE, gpu_paths=paths), "mlx5_0", "auto", set())
    assert (chosen["device"], chosen["path"]) == (1, "PIX")


def test_an_index_that_was_set_stays():
    assert gpus.choose(probe(topology=TOPO), "mlx5_0", 1, set())["path"] == "SYS"


@pytest.mark.parametrize(
    ("wanted", "loaded", "dmabuf", "method"),
    [
        ("auto", None, True, "peermem"),
        ("auto", True, True, "peermem"),
        ("auto", False, True, "dmabuf"),
        ("auto", False, False, "peermem"),
        ("peermem", False, True, "peermem"),
        ("dmabuf", True, True, "dmabuf"),
    ],
)
def test_the_way_to_gpu_memory(wanted, loaded, dmabuf, method):
    tool = {"name": "ib_write_bw", "version": "6.29", "cuda": True, "dmabuf": dmabuf}
    ends = [
        endpoint(1, tool=tool, peermem_loaded=True),
        endpoint(2, tool=tool, peermem_loaded=loaded),
    ]
    assert gpus.choose_method(ends, wanted)[0] == method
