"""Each fault can be seen where a user would see it."""

from __future__ import annotations

import json
import re

import pytest
from simulated_support import PODS, RDMA, pod, secondary
from simulator.faults import FAULTS, UnknownFault, parse

POLICY = "/apis/mellanox.com/v1alpha1/nicclusterpolicies/nic-cluster-policy"
BW = ["stdbuf", "-oL", "ib_write_bw", "-d", "mlx5_1", "-F", "--report_gbits", "-R"]


def test_every_fault_is_described():
    for name, fault in FAULTS.items():
        assert fault.summary.endswith("."), name
        assert len(fault.text) > 30, name


@pytest.mark.parametrize(
    "text", ["nothing", "slow_node:speed=1", "slow_node:factor=fast", "slow_node:node"]
)
def test_misspelt_faults_are_refused(text):
    with pytest.raises(UnknownFault):
        parse(text)


def test_parameters():
    fault, parameters = parse("slow_node:node=gpu-node-3,factor=0.5")
    assert (fault.name, parameters) == ("slow_node", {"node": "gpu-node-3", "factor": 0.5})


@pytest.fixture
def pair(cluster):
    """Two pods on two nodes, with a GPU each."""
    return cluster.run(pod("a", "gpu-node-1", gpus=1), pod("b", "gpu-node-2", gpus=1))


def measure(cluster, pair, *options, command=None, seconds=8.0, server="a", client="b"):
    """A run between the two pods: results of server and client; a server that is left over is killed."""
    command = [*(command or BW), *options]
    address = secondary(next(p for p in pair if p["metadata"]["name"] == server))
    one = cluster.exec(server, command)
    cluster.until(
        lambda: (one.update(timeout=0.05), "Waiting" in one.peek_stdout() or not one.is_open())[1],
        5,
    )
    for _unused in range(20):  # it listens a little later
        got = (
            cluster.output(
                client,
                [*command, address],
            )
            if seconds > 2
            else cluster.result(cluster.exec(client, [*command, address]), seconds)
        )
        if "blka 8" not in got[1] and "Couldn't connect" not in got[1]:
            break
    # a server whose client failed may wait for ever
    waiting = [p for i in cluster.state()["pods"] for p in i["processes"]]
    if got[2] != 0:
        for process in waiting:
            for name in (server, client):
                cluster.output(name, ["kill", "-KILL", str(process["pid"])])
    return cluster.result(one, seconds), got


def best(output):
    """The best average in a table."""
    return max(float(m) for m in re.findall(r"^ \d+ +\d+ +[\d.]+ +([\d.]+)\s", output, re.M))


def gids(output, side):
    """The address that an end prints for itself or for the other."""
    found = re.search(rf"{side} address:[^\n]*\n GID: 0+:.*?255:255:([\d:]+)", output)
    return ".".join(str(int(x)) for x in found[1].split(":"))


def test_healthy(cluster, pair):
    server, client = measure(cluster, pair, "-a")
    assert (server[2], client[2], server[1], client[1]) == (0, 0, "", "")
    assert 380 < best(client[0]) < 400
    assert gids(client[0], "local") == secondary(pair[1]) == gids(server[0], "remote")
    assert gids(client[0], "remote") == secondary(pair[0])
    server, client = measure(cluster, pair, "-a", "-q", "2", "--use_cuda", "0")
    assert "allocated GPU buffer of a" in client[0]
    assert "allocated GPU buffer of a" in server[0]
    assert 360 < best(client[0]) < 395


@pytest.mark.parametrize(
    ("fault", "low", "high"),
    [
        ("slow_node", 140, 170),
        ("slow_port", 90, 105),
        ("one_way_slow_path", 110, 125),
        ("slow_port:rail=1", 380, 400),
        ("slow_gpu", 380, 400),
    ],
)
def test_slow(cluster, pair, fault, low, high):
    cluster.faults(fault)
    assert low < best(measure(cluster, pair)[1][0]) < high
    if fault == "one_way_slow_path":
        assert best(measure(cluster, pair, server="b", client="a")[1][0]) > 380


def test_slow_gpu(cluster, pair):
    cluster.faults("slow_gpu")
    assert best(measure(cluster, pair, "--use_cuda", "0")[1][0]) < 130


def test_port_down(cluster, pair):
    cluster.faults("port_down")
    _unused, client = measure(cluster, pair, seconds=1)
    assert " Port number 1 state is Down\n" in client[1]
    read = ["sh", "-c", "cat $FABRIC_PROBE_ROOT/sys/class/infiniband/mlx5_1/ports/1/state"]
    assert cluster.output("b", read)[0] == "1: DOWN\n"
    cluster.run(pod("c", "gpu-node-2"))  # a pod that was made when the port was down already
    assert cluster.output("c", read)[0] == "1: DOWN\n"


def test_wrong_mtu(cluster, pair):
    cluster.faults("wrong_mtu")
    _unused, client = measure(cluster, pair, "-a", seconds=1)
    assert client[2] == 1
    assert re.search(r"^ 1024 ", client[0], re.M)
    assert not re.search(r"^ 2048 ", client[0], re.M)
    assert "Failed status-transport retry counter exceeded (12)" in client[1]


def test_no_gid(cluster, pair):
    cluster.faults("no_gid")
    table = cluster.output(
        "b", ["sh", "-c", "cat $FABRIC_PROBE_ROOT/sys/class/infiniband/*/ports/1/gids/*"]
    )[0]
    assert set(table.split()) == {"0000:0000:0000:0000:0000:0000:0000:0000"}
    _unused, client = measure(cluster, pair, seconds=1)
    assert "Unexpected CM event bl blka 1" in client[1]
    without = [w for w in BW if w != "-R"]
    _unused, client = measure(cluster, pair, command=without, seconds=1)
    assert "Found Incompatibility issue with GID types" in client[1]


def test_memlock(cluster, pair):
    cluster.faults("memlock")
    _unused, client = measure(cluster, pair, seconds=1)
    assert client[1].startswith("Couldn't allocate MR")
    limits = cluster.output("b", ["sh", "-c", "cat $FABRIC_PROBE_ROOT/proc/self/limits"])[0]
    assert re.search(r"Max locked memory +65536 +65536 +bytes", limits)


def test_no_peermem(cluster, pair):
    cluster.faults("no_peermem")
    assert measure(cluster, pair)[1][2] == 0
    _unused, client = measure(cluster, pair, "--use_cuda", "0", seconds=1)
    assert "Couldn't allocate MR with error=14" in client[1]
    assert measure(cluster, pair, "--use_cuda", "0", "--use_cuda_dmabuf")[1][2] == 0
    cluster.faults("no_dmabuf")
    _unused, client = measure(cluster, pair, "--use_cuda", "0", "--use_cuda_dmabuf", seconds=1)
    assert "OFED stack does not support DMA-BUF" in client[1]


def test_perftest_without_cuda_and_without_driver(cluster, pair):
    cluster.faults("perftest_without_cuda")
    _unused, client = measure(cluster, pair, "--use_cuda", "0", seconds=1)
    assert client[0] == " Unsupported memory type\n"
    assert "use_cuda" not in cluster.output("b", ["sh", "-c", "ib_write_bw --help"])[0]
    cluster.faults("no_cuda_driver")
    assert "use_cuda_dmabuf" in cluster.output("b", ["sh", "-c", "ib_write_bw --help"])[0]
    _unused, client = measure(cluster, pair, "--use_cuda", "0", seconds=1)
    assert "dlerror: libcuda.so" in client[1]


def test_gpu_on_host(cluster, pair):
    cluster.faults("gpu_on_host")
    server, client = measure(cluster, pair, "--use_cuda", "0")
    assert (server[2], client[2]) == (0, 0)
    assert "GPU" in server[0]
    assert "GPU" not in client[0]


def test_server_never_listens(cluster, pair):
    cluster.faults("server_never_listens")
    _unused, client = measure(cluster, pair, seconds=1)
    assert "Unexpected CM event bl blka 8" in client[1]


def test_server_dies(cluster, pair):
    cluster.faults("server_dies")
    server, client = measure(cluster, pair, "-a", seconds=3)
    assert server[2] == 137
    assert client[2] == 1
    assert "(12)" in client[1]


def test_hanging_client(cluster, pair):
    cluster.faults("hanging_client")
    _unused, client = measure(cluster, pair, seconds=1)
    assert client[2] is None
    assert client[0].rstrip().endswith("MsgRate[Mpps]")


def test_wrong_path(cluster, pair):
    cluster.faults("wrong_path")
    server, client = measure(cluster, pair)
    assert client[2] == 0
    assert gids(client[0], "local") not in (secondary(pair[0]), secondary(pair[1]))
    assert gids(server[0], "local") == gids(client[0], "remote")


def test_tools_that_are_missing(cluster, pair):
    cluster.faults("no_stdbuf", "no_perftest")
    assert "executable file not found" in cluster.output("a", ["ib_write_bw"])[3]
    assert cluster.output("a", ["sh", "-c", "command -v stdbuf | grep -v /usr/bin"])[0] == ""


@pytest.mark.parametrize(
    ("fault", "state", "event"),
    [
        ("image_pull", "ImagePullBackOff", "Back-off pulling image"),
        ("ipam_exhausted", "ContainerCreating", "no free addresses"),
        (
            "network_missing",
            "ContainerCreating",
            "cannot find a network-attachment-definition (rdma-net-ipam)",
        ),
    ],
)
def test_pods_that_wait(cluster, fault, state, event):
    cluster.faults(fault)
    cluster.post(PODS, pod("b", "gpu-node-2"))

    def waiting():
        statuses = cluster.get(f"{PODS}/b").json["status"].get("containerStatuses") or [{}]
        return statuses[0].get("state", {}).get("waiting", {}).get("reason")

    cluster.until(lambda: waiting() == state)
    cluster.until(lambda: any(event in m for _unused, m in cluster.events("b")))
    assert cluster.get(f"{PODS}/b").json["status"]["phase"] == "Pending"


def test_pod_that_crashes(cluster):
    cluster.faults("pod_crash")
    cluster.post(PODS, pod("b", "gpu-node-2"))
    assert (
        cluster.wait("b", "Failed")["status"]["containerStatuses"][0]["state"]["terminated"][
            "exitCode"
        ]
        == 1
    )
    cluster.post(PODS, pod("c", "gpu-node-2", restartPolicy="Always"))
    state = cluster.until(
        lambda: cluster.wait("c")["status"]["containerStatuses"][0]["state"].get("waiting")
    )
    assert state["reason"] == "CrashLoopBackOff"


def test_pod_pending(cluster):
    cluster.faults("pod_pending")
    cluster.post(PODS, pod("b", "gpu-node-2"))
    cluster.until(lambda: any(f"1 Insufficient {RDMA}" in m for _unused, m in cluster.events("b")))
    cluster.faults()
    cluster.wait("b")


def test_no_network_status(cluster):
    cluster.faults("no_network_status")
    annotations = cluster.run(pod("b", "gpu-node-2"))[0]["metadata"]["annotations"]
    assert "k8s.v1.cni.cncf.io/network-status" not in annotations


def test_policies(cluster):
    def status():
        return cluster.get(POLICY).json["status"]

    cluster.faults("policy_not_ready:message=image pull failed")
    assert status()["state"] == "notReady"
    assert {"name": "state-OFED", "state": "notReady", "message": "image pull failed"} in status()[
        "appliedStates"
    ]
    cluster.faults("policy_ignored")
    assert status()["state"] == "ignore"
    cluster.faults("policy_absent")
    assert cluster.get(POLICY).code == 404
    cluster.faults("policy_waits:seconds=0.3")
    assert status()["state"] == "notReady"
    cluster.until(lambda: status()["state"] == "ready")
    cluster.faults("policy_not_ready")
    cluster.faults()
    assert status()["state"] == "ready"


def test_reset_puts_back_what_was_there(cluster):
    from simulator import client

    cluster.faults("resource_zero")
    cluster.run(pod("a", "gpu-node-1"))
    cluster.delete(POLICY)  # and with it the resources that its device plugin serves
    cluster.patch("/api/v1/nodes/gpu-node-1", {"metadata": {"labels": {"x": "y"}}})
    client.reset(cluster.folder)
    assert cluster.get(POLICY).json["status"]["state"] == "ready"
    assert "x" not in cluster.get("/api/v1/nodes/gpu-node-1").json["metadata"]["labels"]
    assert cluster.get(PODS).json["items"] == []
    assert cluster.get("/api/v1/nodes/gpu-node-2").json["status"]["allocatable"][RDMA] == "0"
    assert cluster.state()["objects"] == []


def test_operator_absent_and_back(cluster):
    path = "/api/v1/namespaces/nvidia-network-operator/pods"
    before = len(cluster.get(path).json["items"])
    cluster.faults("operator_absent")
    assert cluster.get(path).json["items"] == []
    cluster.faults()
    assert len(cluster.get(path).json["items"]) == before


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (
            "resource_zero",
            lambda n: n["status"]["allocatable"][RDMA] == "0"
            and n["status"]["capacity"][RDMA] == "63",
        ),
        ("gpu_zero", lambda n: n["status"]["allocatable"]["nvidia.com/gpu"] == "0"),
        (
            "nfd_label_missing",
            lambda n: "feature.node.kubernetes.io/pci-15b3.present" not in n["metadata"]["labels"],
        ),
        ("node_not_ready", lambda n: n["status"]["conditions"][-1]["status"] == "Unknown"),
    ],
)
def test_nodes(cluster, fault, check):
    def get(name):
        return cluster.get(f"/api/v1/nodes/{name}").json

    cluster.faults(fault)
    assert check(get("gpu-node-2"))
    assert not check(get("gpu-node-1"))
    cluster.faults()
    assert not check(get("gpu-node-2"))


def test_kubelet_down(cluster, pair):
    from kubernetes.client import ApiException

    cluster.faults("kubelet_down")
    assert cluster.output("a", ["true"])[2] == 0
    with pytest.raises(ApiException) as error:
        cluster.exec("b", ["true"])
    assert "error dialing backend: dial tcp 10.10.0.2:10250" in str(error.value)
    answer = cluster.get(f"{PODS}/b/log")
    assert (answer.code, answer.json["reason"]) == (500, "InternalError")


def test_silent_exec(cluster, pair):
    cluster.faults("exec_silent:command=any")
    out, err, code, _unused = cluster.result(cluster.exec("b", ["echo", "x"]), 0.5)
    assert (out, err, code) == ("", "", None)
    assert cluster.output("a", ["echo", "x"])[0] == "x\n"


def test_flaky_api(cluster):
    cluster.faults("api_flaky:rate=0.5")
    answers = [cluster.get("/api/v1/nodes") for _unused in range(30)]
    assert {a.code for a in answers} == {200, 429, 503}
    assert next(a for a in answers if a.code == 429).headers["Retry-After"] == "1"


def test_no_permission(cluster):
    cluster.faults("no_permission:resource=pods,verb=create")
    answer = cluster.post(PODS, pod("a"))
    assert answer.code == 403
    assert (
        'cannot create resource "pods" in API group "" in the namespace "default"' in answer.message
    )


def test_rails(cluster):
    body = pod("m", "gpu-node-1", networks="rdma-net-rail-0, rdma-net-rail-1@rail1")
    limits = {RDMA: 1, "rdma/rdma_shared_device_b": 1}
    body["spec"]["containers"][0]["resources"] = {"limits": limits}
    found = cluster.run(body)[0]
    status = json.loads(found["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"])
    assert [s.get("interface") for s in status] == [None, "net1", "rail1"]
    script = "cd $FABRIC_PROBE_ROOT/dev/infiniband && ls; cat ../../sys/class/infiniband/mlx5_2/ports/1/gid_attrs/ndevs/*"
    out = cluster.output("m", ["sh", "-c", script])[0]
    assert "uverbs1" in out
    assert "uverbs2" in out
    assert "uverbs0" not in out
    assert "rail1" in out
