# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told apart by context: options, earlier results, the other end, and how an exec ended."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.diagnosis import (
    ALL_SIZES,
    catalogue,
    diagnose_link,
    diagnose_pod,
    judge_run,
)

from .captures import RUNS, shared

WAITING = "\n************************************\n* Waiting for client to connect... *\n************************************\n"
COMMAND = [
    "stdbuf",
    "-oL",
    "ib_write_bw",
    "-d",
    "mlx5_0",
    "-i",
    "1",
    "-a",
    "-F",
    "--report_gbits",
    "-R",
    "-p",
    "18515",
]
GPU = [*COMMAND, "-q", "2", "--use_cuda", "0"]
RULE = "-" * 87
HEADER = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"


def end(
    stdout: str = "",
    stderr: str = "",
    rc: int | None = 0,
    outcome: str = "completed",
    **more: object,
) -> dict:
    return {
        "stdout": stdout,
        "stderr": stderr,
        "rc": rc,
        "outcome": outcome,
        "reason": "",
        "message": "",
        **more,
    }


def server(
    stdout: str = WAITING,
    stderr: str = "",
    rc: int | None = 143,
    outcome: str = "ended",
    **more: object,
) -> dict:
    return end(stdout, stderr, rc, outcome, **{"command": COMMAND, **more})


def client(
    stdout: str = "",
    stderr: str = "",
    rc: int | None = 1,
    outcome: str = "completed",
    **more: object,
) -> dict:
    return end(stdout, stderr, rc, outcome, **{"command": [*COMMAND, "192.168.4.2"], **more})


def table(sizes: tuple[int, ...], closed: bool = True) -> str:
    rows = []
    for size in sizes:
        rate = min(4.0, 12000.0 / size)
        rows.append(
            f" {size:<7}    5000             {size * rate * 8e-3 + 0.01:.6f}           {size * rate * 8e-3:.6f}   \t\t   {rate:.6f}"
        )
    banner = f"{RULE}\n                    RDMA_Write BW Test\n TX depth        : 128\n{RULE}\n"
    return banner + "\n".join([HEADER, *rows, *([RULE, ""] if closed else [""])])


def code(*arguments: object, **keywords: object) -> tuple[str, str]:
    found = diagnose_link(*arguments, **keywords)
    assert set(found["lines"]) == {"server", "client"}
    return found["code"], found["side"]


MR = "Couldn't allocate MR\nfailed to create mr\nFailed to create MR\n Couldn't create IB resources\n"
PEER = "ethernet_read_keys: Couldn't read remote address\n Unable to read to socket/rdma_cm\n"


def test_the_first_cause_wins_over_what_follows_from_it() -> None:
    found = diagnose_link(server(rc=1, outcome="completed", stderr=PEER), client(stderr=MR))
    assert (found["code"], found["side"]) == ("memlock", "client")
    assert found["line"] == "Couldn't allocate MR"
    assert found["lines"]["server"][0] == "ethernet_read_keys: Couldn't read remote address"
    assert found["where"] == {"side": "client"}
    assert code(server(rc=1, outcome="completed", stderr=MR), client(stderr=PEER)) == (
        "memlock",
        "server",
    )
    refused = "Couldn't connect to 192.168.4.2:18515\n Unable to init the socket connection\n"
    assert code(
        server(rc=1, outcome="completed", stderr="Couldn't listen to port 18515\n"),
        client(stderr=refused),
    ) == (
        "port_in_use",
        "server",
    )
    assert code(server(rc=1, outcome="completed", stderr=PEER), client(stderr=PEER)) == (
        "peer_gone",
        "both",
    )


@pytest.mark.parametrize(
    ("text", "command", "memory", "host_passed", "expected"),
    [
        ("Couldn't allocate MR", COMMAND, "host", None, "memlock"),
        ("Couldn't allocate MR with error=12", COMMAND, "host", None, "memlock"),
        ("Couldn't allocate MR", GPU, "cuda", True, "mr_gpu"),
        ("Couldn't allocate MR", GPU, "cuda", None, "mr_gpu"),
        ("Couldn't allocate MR with error=14", GPU, "cuda", True, "mr_gpu"),
        ("Couldn't allocate MR with error=12", GPU, "cuda", True, "mr_gpu"),
        ("Couldn't allocate MR with error=12", GPU, "cuda", None, "memlock"),
        ("Couldn't allocate MR", GPU, "cuda", False, "memlock"),
        (
            "Couldn't allocate MR with error=95",
            [*GPU, "--use_cuda_dmabuf"],
            "cuda",
            True,
            "dmabuf_unsupported",
        ),
        (
            "Couldn't allocate MR with error=93",
            [*GPU, "--use_cuda_dmabuf"],
            "cuda",
            None,
            "dmabuf_unsupported",
        ),
        ("Couldn't allocate MR", None, "cuda", None, "mr_gpu"),
        ("Couldn't allocate MR", None, "host", None, "memlock"),
    ],
)
def test_the_same_text_in_other_circumstances(
    text: str, command: list[str] | None, memory: str, host_passed: bool | None, expected: str
) -> None:
    words = None if command is None else [*command, "192.168.4.2"]
    found = diagnose_link(
        server(command=command),
        client(stderr=text + "\nfailed to create mr\n", command=words),
        memory=memory,
        host_passed=host_passed,
    )
    assert found["code"] == expected


def test_zero_gids_and_others() -> None:
    text = "Failed to modify QP 59 to RTR\n Unable to Connect the HCA's through the link\n"
    address = " {} address: LID 0000 QPN 0x003b PSN 0xab3a5e\n GID: {}\n"

    def banner(gid: str) -> str:
        return (
            RULE
            + "\n RDMA_Write BW Test\n"
            + address.format("local", gid)
            + address.format("remote", gid)
        )

    assert code(server(), client(banner("00:" * 15 + "00"), text))[0] == "no_gid"
    assert code(server(), client("", text))[0] == "no_gid"
    good = "00:00:00:00:00:00:00:00:00:00:255:255:10:09:00:01"
    assert code(server(), client(banner(good), text))[0] == "qp_transition_failed"


@pytest.mark.parametrize(
    ("outcome", "reason", "rc", "expected"),
    [
        ("not_started", "command_not_found", None, "image_missing_tool"),
        ("not_started", "shell_not_found", None, "image_missing_tool"),
        ("not_started", "pod_not_found", None, "pod_gone"),
        ("not_started", "pod_not_running", None, "pod_gone"),
        ("not_started", "container_not_found", None, "pod_gone"),
        ("not_started", "api_unavailable", None, "api_unavailable"),
        ("not_started", "kubelet_unavailable", None, "api_unavailable"),
        ("not_started", "interrupted", None, "interrupted"),
        ("not_started", "exec_failed", None, "exec_failed"),
        ("lost", "connection_dropped", None, "exec_lost"),
        ("lost", "connection_silent", None, "exec_lost"),
        ("lost", "exec_failed", None, "exec_failed"),
        ("refused", "forbidden", None, "exec_refused"),
        ("refused", "unauthorized", None, "exec_refused"),
        ("ended", "interrupted", None, "interrupted"),
        ("completed", "exit_code", 127, "image_missing_tool"),
        ("completed", "exit_code", 139, "tool_crash"),
    ],
)
def test_how_an_exec_can_end(outcome: str, reason: str, rc: int | None, expected: str) -> None:
    trouble = {"rc": rc, "outcome": outcome, "reason": reason, "message": "a sentence"}
    assert code(server(stdout="", **trouble), client(stderr=PEER)) == (expected, "server")
    assert code(server(), client(**trouble)) == (expected, "client")
    judged = judge_run(server(), client(**trouble))
    assert judged["finding"]["code"] == expected
    assert not judged["measured"]


def test_a_server_that_never_listened() -> None:
    waiting = {"rc": None, "outcome": "not_started", "reason": "dependency"}
    silent = server(stdout="", outcome="timeout", reason="deadline", rc=137)
    assert code(silent, client(**waiting)) == ("server_never_listened", "server")
    assert code(server(stdout="", reason="ended_with"), client(**waiting)) == (
        "server_never_listened",
        "server",
    )
    failed = server(stdout="", stderr="IB device mlx5_9 not found\n", rc=1, outcome="completed")
    assert code(failed, client(**waiting)) == ("device_not_found", "server")


def test_ends_that_die_or_hang() -> None:
    partial = table((2, 4, 8), closed=False)
    killed = server(rc=137, outcome="completed")
    assert code(killed, client(partial, PEER)) == ("server_died", "server")
    assert code(killed, client(partial, outcome="timeout", rc=137)) == ("server_died", "server")
    assert code(server(stderr=PEER, rc=1, outcome="completed"), client(rc=137)) == (
        "client_died",
        "client",
    )
    hung = diagnose_link(
        server(stderr=PEER, rc=1, outcome="completed"), client(partial, outcome="timeout", rc=137)
    )
    assert (hung["code"], hung["side"]) == ("hung_client", "client")
    assert "8 bytes" in hung["seen"]
    assert code(server(outcome="timeout"), client(rc=1))[0] == "deadline"
    left = diagnose_link(
        server(rc=0, outcome="completed"), client(partial, outcome="ended", rc=143)
    )
    assert (left["code"], left["side"]) == ("hung_client", "client")
    assert "though the server had ended with exit code 0" in left["seen"]


RETRY = " Completion with error at client\n Failed status-transport retry counter exceeded (12): wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n"


def test_a_path_mtu_that_is_too_small() -> None:
    small = tuple(size for size in ALL_SIZES if size <= 1024)
    found = diagnose_link(
        server(stderr=PEER, rc=1, outcome="completed"), client(table(small, closed=False), RETRY)
    )
    assert (found["code"], found["status"]) == ("mtu_mismatch", 12)
    large = tuple(size for size in ALL_SIZES if size <= 65536)
    assert code(server(), client(table(large, closed=False), RETRY))[0] == "completion_error"
    assert code(server(), client("", RETRY))[0] == "completion_error"
    other = RETRY.replace("(12)", "(4)")
    found = diagnose_link(server(), client(table(small, closed=False), other))
    assert (found["code"], found["status"]) == ("completion_error", 4)
    old = " Completion with error at client\n Failed status 10: wr_id 0 syndrom 0x88\n"
    assert diagnose_link(server(), client("", old))["status"] == 10


def test_what_is_not_known_is_said_to_be_unknown() -> None:
    found = diagnose_link(
        server(stderr="some other words\n", rc=1, outcome="completed"),
        client(stderr="Frobnication failed\n"),
    )
    assert (found["code"], found["side"]) == ("unknown", "client")
    assert found["line"] == "Frobnication failed"
    assert found["lines"] == {"server": ["some other words"], "client": ["Frobnication failed"]}
    assert code({}, {}) == ("unknown", "both")


def test_only_a_whole_run_is_measured() -> None:
    good = judge_run(server(), client(table(ALL_SIZES), rc=0))
    assert good["measured"]
    assert good["finding"] is None
    assert len(good["rows"]) == 23
    assert good["best"] == {"bytes": 4096, "bandwidth_average_gbps": pytest.approx(96, abs=0.01)}
    assert set(good["parsed"]) == {"server", "client"}
    assert judge_run(server(rc=0, outcome="completed"), client(table(ALL_SIZES), rc=0))["measured"]

    def verdict(changed: dict, other: dict | None = None, **keywords: object) -> str:
        result = judge_run(other or server(), changed, **keywords)
        assert not result["measured"]
        return result["finding"]["code"]

    assert verdict(client(table(ALL_SIZES[:-1]), rc=0)) == "incomplete_sizes"
    assert verdict(client(table(ALL_SIZES, closed=False), rc=0)) == "no_result"
    assert verdict(client("", rc=0)) == "no_result"
    assert verdict(client(table(()), rc=0)) == "no_result"
    assert verdict(client(table(ALL_SIZES), rc=1)) == "unknown"
    assert verdict(client(table(ALL_SIZES), rc=None)) == "unknown"
    assert verdict(client(table(ALL_SIZES), rc=143, outcome="timeout")) == "hung_client"
    assert (
        verdict(client(table(ALL_SIZES), rc=0, outcome="lost", reason="connection_dropped"))
        == "exec_lost"
    )
    assert verdict(client(table(ALL_SIZES).replace("Gb/sec", "MiB/sec"), rc=0)) == "unit_mismatch"
    wrong = [*COMMAND, "192.168.4.2"]
    wrong.remove("--report_gbits")
    assert verdict(client(table(ALL_SIZES), rc=0, command=wrong)) == "options_mismatch"
    assert (
        verdict(client(table(ALL_SIZES), rc=0, command=wrong), server(command=None))
        == "unit_mismatch"
    )
    assert verdict(client(table(ALL_SIZES), rc=0), expected_sizes=[65536]) == "incomplete_sizes"
    assert verdict(client(table((65536,)), rc=0), expected_sizes=[2, 65536]) == "incomplete_sizes"
    assert judge_run(server(), client(table((65536,)), rc=0), expected_sizes=[65536])["measured"]
    assert verdict(client(table(ALL_SIZES) + table(ALL_SIZES), rc=0)) == "incomplete_sizes"
    zero = table(ALL_SIZES).replace(RULE + "\n", "", 0)
    zero = (
        zero.rstrip("\n").removesuffix(RULE)
        + " 8388608    0    0.00    0.00    0.000000\n"
        + RULE
        + "\n"
    )
    assert verdict(client(zero, rc=0)) == "zero_row"
    assert (
        verdict(client(table(ALL_SIZES), rc=0), server(rc=1, outcome="completed", stderr=PEER))
        == "exit_status"
    )
    assert (
        verdict(client(table(ALL_SIZES), rc=0), server(rc=1, outcome="completed", stderr=MR))
        == "memlock"
    )
    assert verdict(client(WAITING + table(ALL_SIZES), rc=0)) == "no_result"


def test_ends_that_print_different_units() -> None:
    run = copy.deepcopy(RUNS["606-f-mismatch-gbits"])
    for side in ("server", "client"):
        del run[side]["command"]
    found = judge_run(run["server"], run["client"])["finding"]
    assert (found["code"], found["side"]) == ("unit_mismatch", "server")


def test_gpu_memory_must_be_proven_by_both_ends() -> None:
    run = copy.deepcopy(RUNS["git__a_q2"])
    assert judge_run(run["server"], run["client"], memory="cuda")["measured"]
    # Ended with a signal before it printed its row and gave back its buffer.
    run["server"]["stdout"] = run["server"]["stdout"].partition(" #bytes")[0]
    run["server"].update(rc=143, outcome="ended")
    assert judge_run(run["server"], run["client"], memory="cuda")["measured"]
    run["server"]["stdout"] = run["server"]["stdout"].partition("-" * 40)[0]
    found = judge_run(run["server"], run["client"], memory="cuda")["finding"]
    assert (found["code"], found["side"]) == ("gpu_not_proven", "server")
    run["server"]["stdout"] = ""
    found = judge_run(run["server"], run["client"], memory="cuda")["finding"]
    assert (found["code"], found["side"]) == ("gpu_not_proven", "server")
    assert "stdbuf" in found["seen"]
    host = copy.deepcopy(RUNS["git__a_q2"])
    for side in ("server", "client"):
        text = host[side]["stdout"]
        host[side]["stdout"] = "\n".join(
            x for x in text.split("\n") if "GPU" not in x and "CUDA" not in x and "dev = " not in x
        )
    assert (
        judge_run(host["server"], host["client"], memory="cuda")["finding"]["code"]
        == "gpu_not_proven"
    )
    assert judge_run(host["server"], host["client"], memory="host")["measured"]


def test_perftest_without_cuda_is_not_tested() -> None:
    run = RUNS["git-nocuda__bw"]
    found = judge_run(run["server"], run["client"], memory="cuda", host_passed=True)["finding"]
    assert found["code"] == "perftest_no_cuda"
    assert found["title"].startswith("Not tested: ")


# Pods


def pod(phase: str = "Pending", state: dict | None = None, **more: object) -> dict:
    status: dict = {"phase": phase, **more}
    if state is not None:
        status["containerStatuses"] = [
            {
                "name": "rdma-test-ctr",
                "ready": phase == "Running" and "running" in state,
                "restartCount": 2,
                "state": state,
            }
        ]
    return {
        "metadata": {"name": "rdma-test-x-1", "namespace": "default", "uid": "u1"},
        "spec": {"nodeName": "node1"},
        "status": status,
    }


def event(
    message: str,
    at: str = "2026-01-01T00:00:00Z",
    name: str = "rdma-test-x-1",
    kind: str = "Warning",
) -> dict:
    return {
        "type": kind,
        "message": message,
        "lastTimestamp": at,
        "involvedObject": {"name": name, "uid": "u1"},
    }


def waiting(reason: str, message: str = "") -> dict:
    return {"waiting": {"reason": reason, "message": message}}


@pytest.mark.parametrize(
    ("obj", "events", "expected"),
    [
        (pod("Pending", waiting("ImagePullBackOff", "Back-off pulling image")), [], "image_pull"),
        (pod("Pending", waiting("ErrImageNeverPull")), [], "image_pull"),
        (pod("Pending", waiting("InvalidImageName")), [], "image_pull"),
        (pod("Running", waiting("CrashLoopBackOff", "back-off")), [], "pod_crash"),
        (pod("Running", {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}), [], "pod_crash"),
        (pod("Failed", {"terminated": {"exitCode": 1, "reason": "Error"}}), [], "pod_crash"),
        (pod("Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed"}}), [], "pod_crash"),
        (
            pod("Failed", reason="Evicted", message="The node was low on resource: memory."),
            [],
            "pod_evicted",
        ),
        (
            pod(
                "Failed",
                reason="DeadlineExceeded",
                message="Pod was active on the node longer than the specified deadline",
            ),
            [],
            "pod_expired",
        ),
        (
            pod(
                "Failed",
                reason="UnexpectedAdmissionError",
                message="Allocate failed due to no healthy devices present; cannot allocate unhealthy devices rdma/rdma_shared_device_a",
            ),
            [],
            "insufficient_resource",
        ),
        (
            pod(
                "Pending",
                waiting(
                    "RunContainerError",
                    "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8",
                ),
            ),
            [],
            "cuda_image_too_new",
        ),
        (
            pod("Pending", waiting("CreateContainerConfigError", 'secret "x" not found')),
            [],
            "container_start",
        ),
        (
            pod("Pending", waiting("StartError", "failed to create containerd task")),
            [],
            "container_start",
        ),
        (
            pod(
                "Pending",
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/4 nodes are available: 4 Insufficient rdma/rdma_shared_device_a.",
                    }
                ],
            ),
            [],
            "insufficient_resource",
        ),
        (
            pod(
                "Pending",
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "message": "0/4 nodes are available: 4 node(s) were unschedulable.",
                    }
                ],
            ),
            [],
            "unschedulable",
        ),
        (
            pod("Pending", conditions=[{"type": "PodScheduled", "status": "False"}]),
            [],
            "unschedulable",
        ),
        (
            pod("Pending", waiting("ContainerCreating")),
            [
                event(
                    "failed (add): cannot find a network-attachment-definition (rdma-net-ipam) in namespace (default)"
                )
            ],
            "nad_missing",
        ),
        (
            pod("Pending", waiting("ContainerCreating")),
            [
                event(
                    'Failed to create pod sandbox: error adding container: failed to find plugin "macvlan" in path [/opt/cni/bin]'
                )
            ],
            "cni_plugin_missing",
        ),
        (
            pod("Pending", waiting("ContainerCreating")),
            [event("Failed to create pod sandbox: something else")],
            "cni_failed",
        ),
        (
            pod("Pending", waiting("ContainerCreating")),
            [event('MountVolume.SetUp failed for volume "x"')],
            "volume_mount",
        ),
        (pod("Pending", waiting("ContainerCreating")), [], "pod_not_started"),
        (
            pod("Pending", waiting("ContainerCreating")),
            [event("words that nobody knows")],
            "pod_not_started",
        ),
        (pod("Pending"), [event('Pulling image "x"', kind="Normal")], "pod_not_started"),
        (
            pod("Pending"),
            [event("Failed to create pod sandbox: x", name="another")],
            "pod_not_started",
        ),
        (
            {},
            [event('pods "p" is forbidden: violates PodSecurity "baseline:latest"')],
            "pod_security",
        ),
        ({}, [event("unable to validate against any security context constraint")], "scc"),
        ({}, [event('pods "p" is forbidden: exceeded quota: compute')], "pod_forbidden"),
    ],
)
def test_why_a_pod_does_not_run(obj: dict, events: list[dict], expected: str) -> None:
    found = diagnose_pod(obj, events)
    assert found is not None
    assert found["code"] == expected
    if obj:
        assert found["where"]["pod"] == "rdma-test-x-1"
        assert found["where"]["node"] == "node1"


def test_the_newest_event_tells() -> None:
    events = [
        event("Failed to create pod sandbox: x", "2026-01-01T00:00:00Z"),
        event(
            "Error at storage engine: Could not allocate IP in range: ip: 192.168.4.2",
            "2026-01-01T00:09:00Z",
        ),
    ]
    found = diagnose_pod(pod("Pending", waiting("ContainerCreating")), events)
    assert found is not None
    assert found["code"] == "ipam_exhausted"


def test_a_pod_that_runs() -> None:
    running = pod("Running", {"running": {}})
    assert diagnose_pod(running, [event("old trouble")]) is None
    running["metadata"]["annotations"] = {"k8s.v1.cni.cncf.io/networks": "rdma-net-ipam"}
    found = diagnose_pod(running, [])
    assert found is not None
    assert found["code"] == "multus_not_active"
    running["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"] = "[{"
    found = diagnose_pod(running, [])
    assert found is not None
    assert found["code"] == "bad_network_status"
    running["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"] = "[]"
    assert diagnose_pod(running, []) is None
    running["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = diagnose_pod(running, [])
    assert found is not None
    assert found["code"] == "pod_deleted"


def test_events_and_pods_of_the_shared_set() -> None:
    folder: Path = shared() / "k8s-fixtures"
    index = json.loads((folder / "INDEX.json").read_text("utf-8"))
    seen = 0
    for name, entry in index.items():
        expected = entry["expect"].get("code")
        objects = json.loads((folder / name).read_text("utf-8"))
        if name.startswith("events/"):
            found = diagnose_pod(
                pod("Pending", waiting("ContainerCreating")),
                [{**e, "involvedObject": {}} for e in objects["items"]],
            )
            assert found is not None
            assert found["code"] == (expected or "pod_not_started"), name
            seen += 1
        elif name.startswith("testpods/") and expected not in (
            "duplicate_secondary_ip",
            "same_node",
        ):
            codes = {f["code"] for p in objects["items"] if (f := diagnose_pod(p, []))}
            assert codes == ({expected} if expected else set()), name
            seen += 1
    assert seen > 15


def test_every_code_that_is_given_is_in_the_catalogue() -> None:
    assert {
        "exec_failed",
        "server_died",
        "client_died",
        "hung_client",
        "deadline",
        "exit_status",
    } <= set(catalogue())
