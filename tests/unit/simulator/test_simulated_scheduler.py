"""Where pods go, and what is said when there is no place."""

from __future__ import annotations

from simulated_support import PODS, RDMA, pod


def node_of(cluster, name):
    return cluster.wait(name)["spec"]["nodeName"]


def reason(cluster, name):
    """The text of a pod that cannot be scheduled."""
    cluster.until(lambda: any(r == "FailedScheduling" for r, _unused in cluster.events(name)))
    found = cluster.get(f"{PODS}/{name}").json
    assert found["status"]["phase"] == "Pending"
    condition = next(c for c in found["status"]["conditions"] if c["type"] == "PodScheduled")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"] in [m for _unused, m in cluster.events(name)]
    return condition["message"]


def affinity(key, operator, *values, field=False):
    where = "matchFields" if field else "matchExpressions"
    term = {where: [{"key": key, "operator": operator, "values": list(values)}]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    }


def test_names_selectors_and_affinity(cluster):
    cluster.post(PODS, pod("a", "gpu-node-3"))
    cluster.post(PODS, pod("b", affinity=affinity("metadata.name", "In", "gpu-node-2", field=True)))
    cluster.post(
        PODS,
        pod(
            "c",
            affinity=affinity(
                "kubernetes.io/hostname", "NotIn", *[f"gpu-node-{i}" for i in (1, 2, 3)]
            ),
        ),
    )
    cluster.post(PODS, pod("d", nodeName="gpu-node-1"))
    assert [node_of(cluster, n) for n in "abcd"] == [f"gpu-node-{i}" for i in (3, 2, 4, 1)]


def test_not_enough_of_a_resource(cluster):
    cluster.post(PODS, pod("a", container={"resources": {"limits": {RDMA: 64}}}))
    assert reason(cluster, "a").startswith(
        f"0/4 nodes are available: 4 Insufficient {RDMA}. preemption: 0/4 nodes"
    )


def test_resources_are_counted_and_given_back(cluster):
    for name in ("a", "b"):
        cluster.post(PODS, pod(name, "gpu-node-1", gpus=8))
    assert (
        "1 Insufficient nvidia.com/gpu, 3 node(s) didn't match Pod's node affinity/selector"
        in reason(cluster, "b")
    )
    cluster.delete(f"{PODS}/a")
    assert node_of(cluster, "b") == "gpu-node-1"


def test_cordoned_and_tainted(cluster):
    node = "/api/v1/nodes/gpu-node-1"
    cluster.patch(node, {"spec": {"unschedulable": True}})
    try:
        cluster.post(PODS, pod("a", "gpu-node-1"))
        assert "1 node(s) were unschedulable" in reason(cluster, "a")
        taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
        cluster.patch(node, {"spec": {"unschedulable": None, "taints": taints}})
        cluster.post(PODS, pod("b", "gpu-node-1"))
        assert "1 node(s) had untolerated taint(s) {gpu: yes}" in reason(cluster, "b")
        cluster.post(
            PODS, pod("c", "gpu-node-1", tolerations=[{"key": "gpu", "operator": "Exists"}])
        )
        assert node_of(cluster, "c") == "gpu-node-1"
    finally:
        cluster.patch(node, {"spec": {"unschedulable": None, "taints": None}})
    assert node_of(cluster, "a") == "gpu-node-1"


def test_spread_over_nodes(cluster):
    selector = {"matchLabels": {"app.kubernetes.io/managed-by": "k8si.fabric"}}
    rule = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
            ]
        }
    }
    for name in "abcd":
        cluster.post(PODS, pod(name, topologySpreadConstraints=[rule]))
    assert len({node_of(cluster, n) for n in "abcd"}) == 4
    cluster.post(PODS, pod("e", affinity=apart))
    assert "4 node(s) didn't match pod anti-affinity rules" in reason(cluster, "e")
