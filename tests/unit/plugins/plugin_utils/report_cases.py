"""Results for the tests of the report, made by the real functions out of what perftest would have printed.

`results(nodes=16, rails=4, slow_nodes={"gpu-node-3": 0.5})` gives {readiness, tests}, the facts that a validation leaves.
"""

from __future__ import annotations

import datetime
import random

from ansible_collections.k8si.fabric.plugins.plugin_utils import (
    commands,
    diagnosis,
    rounds,
    verdicts,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.settings import make_settings

from .engine_data import GPU_VARIABLES, VARIABLES

STARTED = datetime.datetime(2026, 3, 2, 9, 30, tzinfo=datetime.UTC)
RULE = "-" * 87
SCRIPT = "<script>alert('x')</script>"
HOSTILE = f"{SCRIPT}\"'&`|*_{{{{ 1 + 1 }}}}</pre>\x1b[31m\x00\ud800"

MEMLOCK = "Couldn't allocate MR\nfailed to create mr\nFailed to create MR\n Couldn't create IB resources\n"
BROKEN = (
    " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n"
)
PEER = "ethernet_read_keys: Couldn't read remote address\n Unable to read to socket/rdma_cm\n"


def settings(memory: str = "host", rails: int = 1) -> dict:
    cuda = memory == "cuda"
    variables = {
        **(GPU_VARIABLES if cuda else VARIABLES),
        "run": "260302-093000-1a2b",
        "nodes": "all",
        "networks": [f"rdma-net-{r}" for r in range(rails)],
        "threshold_percent": 85 if cuda else 90,
        "container": "rdma-gpu-test-ctr" if cuda else "rdma-test-ctr",
    }
    return make_settings(variables, "gpudirect_test_" if cuda else "rdma_test_")


def endpoint(node: str, number: int, rail: int, memory: str) -> dict:
    address = f"192.168.{4 + rail * 8 + number // 250}.{number % 250 + 1}"
    cuda = memory == "cuda"
    return {
        "id": f"{node}/{rail}",
        "node": node,
        "rail": rail,
        "namespace": "default",
        "pod": f"{'gpudirect' if cuda else 'rdma'}-test-260302-093000-1a2b-{number + 1}",
        "container": "rdma-gpu-test-ctr" if cuda else "rdma-test-ctr",
        "device": f"mlx5_{rail}",
        "port": 1,
        "interface": f"net{rail + 1}",
        "address": address,
        "pod_ip": f"10.244.{number // 250}.{number % 250 + 1}",
        "gid": f"::ffff:{address}",
        "gid_index": 3,
        "link_layer": "Ethernet",
        "lid": 0,
        "line_rate_gbps": 400.0,
        "mtu": 9000,
        "fw_ver": "28.39.1002",
        "tool": {"name": "ib_write_bw", "version": "6.29", "cuda": cuda, "dmabuf": cuda},
        "stdbuf": True,
        "gpus": ["GPU 0: NVIDIA H200 (UUID: GPU-7d1f0000)"] if cuda else [],
        **({"cuda_device": 0, "gpu_path": "PIX", "cuda_method": "peermem"} if cuda else {}),
    }


def _banner(own: dict, peer: dict, test: dict, server: bool) -> str:
    lines = []
    if server:
        star = "*" * 36
        lines += ["", star, f"* {commands.WAITING}... *", star]
    if test["memory"] == "cuda":
        lines += [
            "initializing CUDA",
            "Listing all CUDA devices in system:",
            "CUDA device 0: PCIe address is 00:06",
            "",
            "Picking device No. 0",
            "[pid = 3160, dev = 0] device name = [NVIDIA H200]",
            "creating CUDA Ctx",
            "making it the current CUDA Ctx",
            "cuMemAlloc() of a 33554432 bytes GPU buffer",
            "allocated GPU buffer address at 00007ff7d8000000 pointer=0x7ff7d8000000",
        ]
    lines += [
        RULE,
        "                    RDMA_Write BW Test",
        f" Dual-port       : OFF\t\tDevice         : {own['device']}",
        f" Number of qps   : {test['qps']}\t\tTransport type : IB",
        " Connection type : RC\t\tUsing SRQ      : OFF",
        " PCIe relax order: ON\t\tLock-free      : OFF",
        " ibv_wr* API     : ON\t\tUsing DDP      : OFF",
        *([] if server else [" TX depth        : 128"]),
        " CQ Moderation   : 1",
        " Mtu             : 4096[B]",
        " Link type       : Ethernet",
        " GID index       : 3",
        " Max inline data : 0[B]",
        " rdma_cm QPs\t : ON",
        " Data ex. method : rdma_cm",
        RULE,
    ]
    for words, end in (("local", own), ("remote", peer)):
        gid = ":".join(f"{int(p):02d}" for p in end["address"].split("."))
        for qp in range(test["qps"]):
            lines += [
                f" {words} address: LID 0000 QPN 0x{18 + qp:04x} PSN 0x76fe05 RKey 0x00047f VAddr 0x007ff7d9{qp}00000",
                f" GID: 00:00:00:00:00:00:00:00:00:00:255:255:{gid}",
            ]
    head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
    return "\n".join([*lines, RULE, head, ""])


def _table(peak: float, server: bool, rng: random.Random) -> str:
    lines = []
    for n in range(23, 24) if server else range(1, 24):
        size = 2**n
        average = peak * size / (size + 6000) * (1 - 0.01 * rng.random())
        rate = average * 1e9 / 8 / size / 1e6
        lines.append(
            f" {size:<10} 5000           {average * 1.003:.6f}         {average:.6f}           {rate:.6f}"
        )
    return "\n".join([*lines, RULE, ""])


def _end(
    text: str, stderr: str, rc: int, clock: datetime.datetime, duration: float, outcome: str
) -> dict:
    return {
        "stdout": text,
        "stderr": stderr,
        "rc": rc,
        "outcome": outcome,
        "reason": "exit_code" if outcome == "completed" else "ended_with",
        "message": f"{outcome}, exit code {rc}",
        "start": clock.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "duration_s": round(duration, 3),
        "attempts": 1,
    }


class Cluster:
    """A model of a fabric, good enough to print what perftest would."""

    def __init__(self, nodes=2, rails=1, memory="host", passes=1, seed=1, names=None, **faults):
        self.rng = random.Random(seed)
        self.names = names or [f"gpu-node-{n}" for n in range(1, nodes + 1)]
        self.memory, self.passes, self.rails = memory, passes, rails
        self.slow_nodes: dict = faults.get("slow_nodes") or {}
        self.slow_paths: dict = faults.get("slow_paths") or {}
        self.failing: dict = faults.get("failing") or {}  # node -> text of its stderr
        self.host_passed = faults.get("host_passed")
        self.clock = faults.get("started") or STARTED

    def run(self) -> dict:
        test = {**settings(self.memory, self.rails), "host_passed": self.host_passed}
        ends = [
            endpoint(name, number, rail, self.memory)
            for number, name in enumerate(self.names)
            for rail in range(self.rails)
        ]
        state = {
            "nodes": self.names,
            "skipped": [],
            "endpoints": ends,
            "links": [],
            "rounds": 0,
            "findings": [],
            "left_behind": [],
            "notes": [],
            "check_mode": False,
            "started": self._now(),
        }
        order = list(self.names)
        for _unused in range(self.passes):
            for links in rounds.plan_rounds(
                sorted(ends, key=lambda e: order.index(e["node"])), test
            ):
                done = {k["id"] for k in state["links"]}
                self._round([k for k in links if k["id"] not in done], ends, test, state)
            self.rng.shuffle(order)
        while wave := rounds.plan_retests(state["links"], ends, test):
            for links in wave:
                self._round(links, ends, test, state)
        self.clock += datetime.timedelta(seconds=4)
        return verdicts.conclude({**state, "ended": self._now()}, test)

    def _now(self) -> str:
        return self.clock.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _round(self, links: list, ends: list, test: dict, state: dict) -> None:
        if not links:
            return
        by_id = {e["id"]: e for e in ends}
        runs = []
        longest = 0.0
        items = {i["id"]: i for i in commands.round_items(links, ends, test)}
        for link in links:
            pair = self._link(by_id[link["server"]], by_id[link["client"]], test)
            longest = max(longest, pair["client"]["duration_s"])
            for side, result in pair.items():
                item = items[f"{link['id']} {side}"]
                runs.append({**result, "id": item["id"], "command": item["command"]})
        state["links"] += verdicts.judge_round(links, runs, ends, test)
        state["rounds"] += 1
        self.clock += datetime.timedelta(seconds=longest + 2)

    def _link(self, server: dict, client: dict, test: dict) -> dict:
        rng = self.rng
        duration = 9 + 3 * rng.random()
        for end, other, role in ((server, client, "server"), (client, server, "client")):
            words = self.failing.get(end["node"])
            if words:
                broken = _end("", words, 1, self.clock, 0.4, "completed")
                fine = _end(
                    _banner(other, end, test, role == "client")[:700],
                    PEER,
                    1,
                    self.clock,
                    0.6,
                    "completed",
                )
                return {role: broken, "client" if role == "server" else "server": fine}
        factor = min(self.slow_nodes.get(e["node"], 1.0) for e in (server, client))
        factor = min(factor, self.slow_paths.get((client["node"], server["node"]), 1.0))
        line = 376.0 if test["memory"] == "cuda" else 391.0
        peak = (line + rng.uniform(-4, 1.5)) * factor
        out = {
            side: _banner(own, peer, test, side == "server") + _table(peak, side == "server", rng)
            for side, own, peer in (("server", server, client), ("client", client, server))
        }
        return {
            "server": _end(out["server"], "", 0, self.clock, duration + 0.3, "completed"),
            "client": _end(out["client"], "", 0, self.clock, duration, "completed"),
        }


def check(check_id: str, title: str, status: str = "passed", **more) -> dict:
    """One entry of `readiness_result.checks`."""
    return {
        "id": check_id,
        "title": title,
        "status": status,
        "severity": "required",
        "code": None,
        "seen": "",
        "required": "",
        "cause": "",
        "remedy": "",
        "retry": False,
        "where": {"kind": None, "namespace": None, "name": None, "nodes": []},
        "tests": ["rdma", "gpudirect"],
        "evidence": None,
        **more,
    }


def readiness(names: list[str], failing: bool = False) -> dict:
    checks = [
        check("api", "The API server answers", seen="Kubernetes v1.34.1"),
        check("permissions", "The tests are allowed to do what they do"),
        check("operator", "The Network Operator runs", seen="network-operator 26.7.0, 1 pod Ready"),
        check(
            "policy",
            "NicClusterPolicy is ready",
            seen="nic-cluster-policy: ready, 7 components ready",
        ),
        check(
            "rdma",
            "RDMA resources are allocatable on every node",
            seen=f"rdma/rdma_shared_device_a on {len(names)} nodes",
        ),
        check("networks", "The secondary networks are there", seen="default/rdma-net-ipam"),
        check(
            "sriov",
            "SR-IOV virtual functions are there",
            "skipped",
            seen="no SR-IOV network is used",
        ),
        check(
            "leftovers",
            "Nothing is left of earlier runs",
            "advice",
            severity="advice",
            code="leftovers",
            seen="default/rdma-test-260301-1",
            cause="an earlier run was cut short",
            remedy="ansible-playbook k8si.fabric.cleanup",
        ),
    ]
    if failing:
        checks[4] = check(
            "rdma",
            "RDMA resources are allocatable on every node",
            "failed",
            code="rdma_allocatable_zero",
            seen=f"rdma/rdma_shared_device_a is 0 on {names[0]}",
            required="more than 0",
            cause="the device plugin's pod on the node does not run",
            remedy="kubectl -n nvidia-network-operator get pods -o wide, then its log",
            where={"kind": "Node", "namespace": None, "name": names[0], "nodes": [names[0]]},
            evidence={"allocatable": "0"},
        )
    return {
        "passed": not failing,
        "tests": {"rdma": not failing, "gpudirect": not failing},
        "checks": checks,
        "nodes": [
            {
                "name": n,
                "fit": True,
                "reasons": [],
                "rdma": {"rdma/rdma_shared_device_a": 63},
                "gpu": 8,
            }
            for n in names
        ],
        "cluster": {"version": "v1.34.1", "openshift": False, "gpu_memory_path": "peermem"},
        "started": "2026-03-02T09:29:51Z",
        "ended": "2026-03-02T09:29:58Z",
    }


def results(nodes=2, rails=1, gpu=True, passes=1, names=None, not_ready=False, **faults) -> dict:
    """{readiness, tests}: what a validation leaves. `faults` are those of `Cluster`; `gpu_faults` add to them."""
    gpu_faults = faults.pop("gpu_faults", {})
    host = Cluster(nodes, rails, "host", passes, names=names, **faults).run()
    tests = [host]
    if gpu and host["passed"]:
        later = STARTED + datetime.timedelta(minutes=12)
        tests.append(
            Cluster(
                nodes,
                rails,
                "cuda",
                passes,
                2,
                names,
                host_passed=True,
                started=later,
                **{**faults, **gpu_faults},
            ).run()
        )
    elif gpu:
        words = f"not tested: the test in host memory is {host['verdict']} ({host['reason']})"
        tests.append(verdicts.skipped_result("gpudirect", "cuda", "host_test_not_passed", words))
    return {"readiness": readiness(host["nodes"], not_ready), "tests": tests}


def hostile() -> dict:
    """Names and outputs that try to be markup, templates or control sequences."""
    names = [f"node-{n}-{SCRIPT}" for n in range(1, 5)]
    result = results(names=names, gpu=True, failing={names[2]: MEMLOCK + HOSTILE + "\n"})
    result["readiness"]["checks"][0]["seen"] = HOSTILE
    result["tests"][0]["findings"].append(
        diagnosis.finding("unknown", where={"node": names[0]}, seen=HOSTILE, line=HOSTILE)
    )
    return result


CASES = {
    "two": lambda: results(2),
    "two_slow": lambda: results(2, slow_nodes={"gpu-node-2": 0.54}),
    "sixteen": lambda: results(16, 4, passes=3),
    "slow_node": lambda: results(16, 1, passes=2, slow_nodes={"gpu-node-3": 0.54}),
    "bad_path": lambda: results(8, 1, passes=2, slow_paths={("gpu-node-2", "gpu-node-1"): 0.3}),
    "failures": lambda: results(16, 1, failing={"gpu-node-5": MEMLOCK, "gpu-node-9": BROKEN}),
    "gpu_failure": lambda: results(4, 1, gpu_faults={"failing": {"gpu-node-2": MEMLOCK}}),
    "not_ready": lambda: {"readiness": readiness(["gpu-node-1"], True), "tests": []},
    "only_ready": lambda: {"readiness": readiness(["gpu-node-1"], False), "tests": []},
    "nothing": lambda: {"readiness": None, "tests": []},
    "hostile": hostile,
    "large": lambda: results(
        512,
        1,
        passes=2,
        slow_nodes={"gpu-node-77": 0.5},
        failing={"gpu-node-300": MEMLOCK},
        slow_paths={("gpu-node-12", "gpu-node-11"): 0.7},
    ),
    "large_healthy": lambda: results(512, 1, passes=2),
}
