"""Settings, pods, probes and endpoints for the tests of the engine."""

from __future__ import annotations

VARIABLES = {
    "test": "rdma",
    "memory": "host",
    "run": "r1",
    "container": "rdma-test-ctr",
    "namespace": "default",
    "image": "mellanox/rping-test",
    "image_pull_policy": "IfNotPresent",
    "image_pull_secrets": [],
    "networks": ["rdma-net-ipam"],
    "rdma_resources": ["rdma/rdma_shared_device_a"],
    "devices": [],
    "ib_port": 0,
    "nodes": 2,
    "tolerations": [],
    "tool": "ib_write_bw",
    "sizes": "all",
    "duration": 0,
    "iterations": 0,
    "qps": 1,
    "bidirectional": False,
    "both_directions": True,
    "plan": "adaptive",
    "retests": 4,
    "rail_mode": "serial",
    "cross_rail": False,
    "max_parallel_links": 0,
    "reference": "",
    "rdma_cm": True,
    "extra_options": [],
    "threshold_percent": 90,
    "threshold_gbps": 0,
    "threshold_us": 0,
    "outlier_percent": 5,
    "baseline": "",
    "baseline_tolerance": 5,
    "rails": [],
    "timeout": 300,
    "pod_timeout": 300,
    "pod_lifetime": 3600,
}
GPU_VARIABLES = {
    **VARIABLES,
    "test": "gpudirect",
    "memory": "cuda",
    "qps": 2,
    "gpu_resource": "nvidia.com/gpu",
    "gpu_count": 1,
    "cuda_device": "auto",
    "threshold_host_percent": 0,
    "host_result": {},
    "method": "auto",
}


def endpoint(number: int, rail: int = 0, **changes) -> dict:
    """The endpoint of node `n<number>`: mlx5_2, RoCE, 192.168.4.<number>, 400 Gb/s."""
    return {
        "id": f"n{number}/{rail}",
        "node": f"n{number}",
        "rail": rail,
        "namespace": "default",
        "pod": f"rdma-test-r1-{number}",
        "container": "rdma-test-ctr",
        "device": "mlx5_2",
        "port": 1,
        "interface": "net1",
        "address": f"192.168.4.{number}",
        "pod_ip": f"10.244.0.{number}",
        "gid": f"::ffff:192.168.4.{number}",
        "gid_index": 7,
        "link_layer": "Ethernet",
        "lid": 0,
        "line_rate_gbps": 400.0,
        "mtu": 9000,
        "fw_ver": "28.39.1002",
        "tool": {"name": "ib_write_bw", "version": "6.29", "cuda": False, "dmabuf": False},
        "stdbuf": True,
        "gpus": [],
        **changes,
    }


def link(
    server: int,
    client: int,
    verdict: str = "passed",
    rail: int = 0,
    gbps: float = 390.0,
    wave: int = 0,
) -> dict:
    """A judged link between two nodes, as `verdicts.judge_round` makes it, without outputs."""
    passed = verdict == "passed"
    code = None if passed else ("slow_link" if verdict == "slow" else "completion_error")
    return {
        "id": f"n{client}/{rail} -> n{server}/{rail}",
        "rail": rail,
        "round": wave + 1,
        "wave": wave,
        "server": f"n{server}/{rail}",
        "client": f"n{client}/{rail}",
        "server_node": f"n{server}",
        "client_node": f"n{client}",
        "verdict": verdict,
        "code": code,
        "bandwidth_average_gbps": None if verdict == "failed" else gbps,
        "bytes": 65536,
        "line_rate_gbps": 400.0,
        "threshold_gbps": 360.0,
        "finding": (
            None
            if passed
            else {
                "code": code,
                "title": "t",
                "where": {},
                "seen": f"{gbps} Gb/s",
                "line": "",
                "cause": "c",
                "remedy": "r",
                "retry": False,
                "reference": "",
            }
        ),
    }
