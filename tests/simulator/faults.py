"""The faults a cluster can have. Names are stable; each function's docstring says what it breaks and what a user would see.

A fault either changes the fabric or objects when it is switched on, or is asked for by the part that it concerns
(`faults.hit(name, node)`). Switching faults off puts everything back.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .fabric import Port

if TYPE_CHECKING:
    from .cluster import Cluster

Parameters = dict[str, Any]
EVERY = "*"  # all nodes


@dataclass(frozen=True)
class Fault:
    """A kind of fault."""

    name: str
    summary: str
    text: str
    defaults: Parameters
    switch_on: Callable[[Cluster, Parameters], None]


FAULTS: dict[str, Fault] = {}


def fault(
    **defaults: Any,
) -> Callable[[Callable[[Cluster, Parameters], None]], Callable[..., None]]:
    """Registers a function as a fault; keyword arguments are its parameters with their defaults."""

    def register(function: Callable[[Cluster, Parameters], None]) -> Callable[..., None]:
        text = inspect.cleandoc(function.__doc__ or "")
        FAULTS[function.__name__] = Fault(
            function.__name__, text.partition("\n")[0], text, defaults, function
        )
        return function

    return register


class UnknownFault(ValueError):
    """No such fault, or no such parameter."""


def parse(text: str) -> tuple[Fault, Parameters]:
    """`slow_node:node=gpu-node-3,factor=0.4` → the fault and its parameters; raises UnknownFault."""
    name, _unused, rest = text.partition(":")
    found = FAULTS.get(name.strip())
    if found is None:
        raise UnknownFault(f"no fault is called {name!r}; known: {', '.join(sorted(FAULTS))}")
    parameters = dict(found.defaults)
    for pair in filter(None, (p.strip() for p in rest.split(","))):
        key, equals, value = pair.partition("=")
        if not equals or key not in parameters:
            known = ", ".join(parameters) or "none"
            raise UnknownFault(f"fault {name} has no parameter {pair!r}; known: {known}")
        default = parameters[key]
        try:
            parameters[key] = type(default)(value) if default is not None else value
        except ValueError as error:
            raise UnknownFault(f"fault {name}: {key} must be a {type(default).__name__}") from error
    return found, parameters


class Faults:
    """The faults that are on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.on: list[tuple[Fault, Parameters]] = []

    def set(self, texts: list[str]) -> None:
        """Switches everything off, then these on; raises UnknownFault before it changes anything."""
        wanted = [parse(t) for t in texts if t and t != "none"]
        self.on = []
        self._cluster.heal()
        self.on = wanted
        self.again()

    def again(self) -> None:
        """Switches on what is meant to be on, after everything was healed."""
        for found, parameters in self.on:
            found.switch_on(self._cluster, parameters)
        self._cluster.refresh()

    def hit(self, name: str, node: str = EVERY) -> Parameters | None:
        """The parameters of a fault that is on and concerns a node; None when there is none."""
        for found, parameters in self.on:
            if found.name == name and parameters.get("node", EVERY) in (EVERY, node):
                return parameters
        return None

    def describe(self) -> list[dict[str, Any]]:
        """Names and parameters of what is on, for JSON."""
        return [{"name": f.name, "parameters": p} for f, p in self.on]


# ---- the fabric


@fault(node="gpu-node-2", factor=0.4)
def slow_node(cluster: Cluster, p: Parameters) -> None:
    """Every link of one node reaches only a part of the line rate.

    As from a PCIe slot with half its lanes or a throttled CPU. Seen: all runs with the node, both ways, report about
    factor x the bandwidth of the others; perftest succeeds.
    """
    cluster.fabric.slow_node(f"slow_node {p['node']}", p["node"], p["factor"])


@fault(node="gpu-node-2", rail=0, factor=0.25)
def slow_port(cluster: Cluster, p: Parameters) -> None:
    """One rail of one node is slow; its other rails are not.

    As from a cable that trained at a lower speed. Seen: runs over that rail report about factor x the others.
    """
    cluster.fabric.slow_port(
        f"slow_port {p['node']} {p['rail']}", Port(p["node"], p["rail"]), p["factor"]
    )


@fault(source="gpu-node-2", target="gpu-node-1", factor=0.3)
def one_way_slow_path(cluster: Cluster, p: Parameters) -> None:
    """Data from one node to one other is slow; the way back and all other paths are not.

    As from a congested uplink. Seen: a write with the source as client is slow, with the source as server it is not.
    """
    cluster.fabric.slow_path(
        f"one_way_slow_path {p['source']} {p['target']}", p["source"], p["target"], p["factor"]
    )


@fault(node="gpu-node-2", rail=0)
def port_down(cluster: Cluster, p: Parameters) -> None:
    """An RDMA port is down.

    Seen: sysfs says `1: DOWN`; perftest ends with ` Port number 1 state is Down` before it connects, and its peer waits.
    """
    cluster.fabric.bring_down(Port(p["node"], p["rail"]))


@fault(node="gpu-node-2", mtu=1024)
def wrong_mtu(cluster: Cluster, p: Parameters) -> None:
    """Packets with more payload than mtu are lost on the way to and from a node.

    As from a switch port without jumbo frames. Seen: sizes up to the MTU have rows, then a completion with error, status 12.
    """
    cluster.fabric.limit_mtu(p["node"], p["mtu"])


@fault(node="gpu-node-2", factor=0.3)
def slow_gpu(cluster: Cluster, p: Parameters) -> None:
    """The way between NIC and GPU of one node is slow (ACS, far PCIe switch); host memory is as fast as ever.

    Seen: the host memory test passes, the GPU memory test reports about factor x.
    """
    cluster.fabric.slow_gpu("slow_gpu", p["node"], p["factor"])


# ---- what tools in the pods meet


@fault(node="gpu-node-2")
def no_gid(cluster: Cluster, p: Parameters) -> None:
    """The GID table of the node's devices holds no address of the secondary network.

    Seen: all GIDs in the pod are zero; with -R rdma_cm finds no device (event 1), without it GID types are incompatible.
    """


@fault(node="gpu-node-2", kib=64)
def memlock(cluster: Cluster, p: Parameters) -> None:
    """Pods of the node may lock next to no memory, and CAP_IPC_LOCK is not given.

    Seen: `Couldn't allocate MR` in a run on host memory; /proc/self/limits shows the limit.
    """


@fault(node="gpu-node-2")
def no_peermem(cluster: Cluster, p: Parameters) -> None:
    """GPU memory cannot be registered through peer memory on one node (DMA-BUF works).

    Seen: the host test passes; with --use_cuda and without --use_cuda_dmabuf `Couldn't allocate MR`, with -R in addition
    `Bad address`, ten times (6.28 and newer) or a crash, rc 139 (older).
    """


@fault(node="gpu-node-2", errno=95)
def no_dmabuf(cluster: Cluster, p: Parameters) -> None:
    """GPU memory cannot be registered through DMA-BUF on one node (peer memory works).

    Seen: with --use_cuda_dmabuf `Couldn't allocate MR with error=95`, `OFED stack does not support DMA-BUF`.
    """


@fault(node=EVERY)
def perftest_without_cuda(cluster: Cluster, p: Parameters) -> None:
    """perftest in the image was built without CUDA.

    Seen: `Unsupported memory type` (6.20 and newer) or `unrecognized option '--use_cuda'` (older); --help does not name it.
    """


@fault(node="gpu-node-2")
def no_cuda_driver(cluster: Cluster, p: Parameters) -> None:
    """The container has no libcuda (the GPU runtime did not mount the driver).

    Seen: `dlerror: libcuda.so` (6.27 and newer), or the loader's error with rc 127 for every run (older).
    """


@fault(node="gpu-node-2")
def gpu_on_host(cluster: Cluster, p: Parameters) -> None:
    """One end silently uses host memory although --use_cuda was given.

    Seen: the run succeeds, but that end's output has no line about a GPU: no proof.
    """


@fault(node=EVERY)
def server_never_listens(cluster: Cluster, p: Parameters) -> None:
    """The perftest server prints its banner but never listens.

    Seen: every client is refused: `Couldn't connect to …`, with -R `Unexpected CM event bl blka 8`.
    """


@fault(node=EVERY, times=1)
def listen_race(cluster: Cluster, p: Parameters) -> None:
    """With -R, the client comes before the server listens for the second time, so many times in all.

    As where the server's node is busy. Seen: the client is rejected (`RDMA_CM_EVENT_REJECTED; error: 8`) and crashes, the server
    waits on, and no other client can connect to it.
    """


@fault(node=EVERY, rows=5)
def server_dies(cluster: Cluster, p: Parameters) -> None:
    """The perftest server is killed in the middle of a run, after so many rows.

    Seen: the server ends by signal 9 (rc 137), the client, some seconds later, with a completion error, status 12.
    """


@fault(node=EVERY)
def hanging_client(cluster: Cluster, p: Parameters) -> None:
    """The perftest client stops after the table's header and never ends by itself.

    Seen: nothing happens until somebody's deadline.
    """


@fault(node=EVERY)
def wrong_path(cluster: Cluster, p: Parameters) -> None:
    """With -R the kernel routes over another device than -d names (another rail, or the front end when there is one rail).

    Seen: the run succeeds; the GIDs that both ends print are not those of the endpoints.
    """


@fault(node=EVERY)
def no_stdbuf(cluster: Cluster, p: Parameters) -> None:
    """The image has no stdbuf.

    Seen: a server's output comes only with its first row; whoever waits for its banner waits in vain.
    """


@fault(node=EVERY)
def no_perftest(cluster: Cluster, p: Parameters) -> None:
    """The image has no perftest.

    Seen: command not found.
    """


@fault(node="gpu-node-2", after=0.15, command="perftest")
def exec_dropped(cluster: Cluster, p: Parameters) -> None:
    """The connection of an exec is cut, without a status, so many seconds after its start; the process goes on.

    command=perftest cuts only perftest runs, command=any every exec.
    """


@fault(node="gpu-node-2", command="perftest")
def exec_silent(cluster: Cluster, p: Parameters) -> None:
    """An exec's connection stays open, but nothing comes over it any more, not even its end.

    command=perftest concerns only perftest runs, command=any every exec.
    """


@fault(node="gpu-node-2")
def kubelet_down(cluster: Cluster, p: Parameters) -> None:
    """The API server cannot reach the node's kubelet: no exec, no logs; pods run on.

    Seen: 500, `error dialing backend: dial tcp …:10250: connect: no route to host`.
    """


# ---- pods


@fault(node="gpu-node-2")
def pod_pending(cluster: Cluster, p: Parameters) -> None:
    """Pods that ask for RDMA are never scheduled on the node: others hold all of the resource.

    Seen: FailedScheduling, `Insufficient rdma/…`.
    """
    cluster.retry_scheduling()


@fault(node="gpu-node-2")
def image_pull(cluster: Cluster, p: Parameters) -> None:
    """The image of pods that ask for RDMA cannot be pulled on the node.

    Seen: waiting with ErrImagePull, then ImagePullBackOff; events Failed and BackOff.
    """


@fault(node="gpu-node-2", code=1)
def pod_crash(cluster: Cluster, p: Parameters) -> None:
    """The container of pods that ask for RDMA ends at once on the node.

    Seen: CrashLoopBackOff, or phase Failed when restartPolicy is Never.
    """


@fault(node="gpu-node-2")
def no_network_status(cluster: Cluster, p: Parameters) -> None:
    """Multus is not active on the node: pods run with the cluster network only.

    Seen: no k8s.v1.cni.cncf.io/network-status, no net1.
    """


@fault(node="gpu-node-2")
def ipam_exhausted(cluster: Cluster, p: Parameters) -> None:
    """The node's block of secondary addresses is used up.

    Seen: the pod stays in ContainerCreating; event FailedCreatePodSandBox.
    """


# ---- operators and nodes


@fault(component="state-OFED", message="")
def policy_not_ready(cluster: Cluster, p: Parameters) -> None:
    """NicClusterPolicy is notReady, and stays so, because of one component."""
    cluster.overlay.policy("notReady", p["component"], p["message"])


@fault(seconds=3.0, component="state-OFED")
def policy_waits(cluster: Cluster, p: Parameters) -> None:
    """NicClusterPolicy is notReady at first and becomes ready after so many seconds."""
    cluster.overlay.policy("notReady", p["component"], "")
    loop = asyncio.get_running_loop()
    cluster.overlay.later(loop.call_later(p["seconds"], cluster.overlay.restore_policy))


@fault()
def policy_ignored(cluster: Cluster, p: Parameters) -> None:
    """NicClusterPolicy is ignored as a whole: its name is not the one the operator serves, so nothing was deployed."""
    cluster.overlay.policy_ignored()


@fault()
def policy_absent(cluster: Cluster, p: Parameters) -> None:
    """There is no NicClusterPolicy, though the operator runs."""
    cluster.overlay.delete(
        "mellanox.com", "v1alpha1", "nicclusterpolicies", None, "nic-cluster-policy"
    )


@fault()
def operator_absent(cluster: Cluster, p: Parameters) -> None:
    """The Network Operator is not there: no pods, Deployment or DaemonSets in its namespace, and no policy."""
    cluster.overlay.remove_operator()


@fault()
def network_missing(cluster: Cluster, p: Parameters) -> None:
    """No NetworkAttachmentDefinition exists.

    Seen: pods that name one stay in ContainerCreating; event FailedCreatePodSandBox of Multus.
    """
    cluster.overlay.delete_networks()


@fault(node="gpu-node-2")
def resource_zero(cluster: Cluster, p: Parameters) -> None:
    """The node's allocatable RDMA resource is 0 (capacity still says 63)."""
    cluster.overlay.allocatable(p["node"], "rdma/", "0")


@fault(node="gpu-node-2")
def gpu_zero(cluster: Cluster, p: Parameters) -> None:
    """The node's allocatable GPUs are 0."""
    cluster.overlay.allocatable(p["node"], "nvidia.com/gpu", "0")


@fault(node="gpu-node-2")
def nfd_label_missing(cluster: Cluster, p: Parameters) -> None:
    """The node has no feature.node.kubernetes.io/pci-15b3.present label, and so no pods of the operator and no RDMA resource."""
    cluster.overlay.unlabel(p["node"], "feature.node.kubernetes.io/pci-15b3.present")
    cluster.overlay.allocatable(p["node"], "rdma/", None)


@fault(node="gpu-node-2")
def node_not_ready(cluster: Cluster, p: Parameters) -> None:
    """The node is NotReady, with the taint that goes with it."""
    cluster.overlay.not_ready(p["node"])


# ---- the API server


@fault(rate=0.2, retry_after=1)
def api_flaky(cluster: Cluster, p: Parameters) -> None:
    """A share of requests is answered 429 (with Retry-After) or 503."""


@fault(resource="pods/exec", verb=EVERY)
def no_permission(cluster: Cluster, p: Parameters) -> None:
    """Nobody may do something, whatever RBAC says: resource (with subresource) and verb.

    Seen: 403 in the server's wording.
    """
    cluster.authorizer.denied.add((p["verb"], p["resource"]))
