from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.nodes import (
    choose_nodes,
    needed_resources,
    not_running,
    pod_states,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.settings import make_settings

from .engine_data import GPU_VARIABLES, VARIABLES

RDMA = "rdma/rdma_shared_device_a"


def settings(**changes) -> dict:
    return make_settings({**VARIABLES, **changes}, "rdma_test_")


def node(name: str, rdma="63", gpu="8", ready="True", taints=None, cordoned=False) -> dict:
    allocatable = {k: v for k, v in ((RDMA, rdma), ("nvidia.com/gpu", gpu)) if v is not None}
    return {
        "metadata": {"name": name},
        "spec": {"unschedulable": cordoned, "taints": taints or []},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "reason": "Kubelet"}],
            "allocatable": allocatable,
        },
    }


def holder(node_name: str, gpus: int, phase: str = "Running") -> dict:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}}
    return {
        "metadata": {"name": f"training-{node_name}"},
        "spec": {"nodeName": node_name, "containers": [{"name": "c", "resources": resources}]},
        "status": {"phase": phase},
    }


def test_two_by_default_in_natural_order():
    nodes = [node("gpu-10"), node("gpu-9"), node("gpu-2")]
    assert choose_nodes(nodes, [], settings())["chosen"] == ["gpu-2", "gpu-9"]


def test_all():
    nodes = [node("a"), node("b"), node("cpu", rdma=None)]
    chosen = choose_nodes(nodes, [], settings(nodes="all"))
    assert chosen["chosen"] == ["a", "b"] and chosen["findings"] == []
    assert chosen["skipped"] == [
        {"node": "cpu", "code": "rdma_resource_absent", "reason": f"{RDMA} is not offered"}
    ]


@pytest.mark.parametrize(
    ("unfit", "code"),
    [
        (node("x", ready="False"), "node_not_ready"),
        (node("x", ready="Unknown"), "node_not_ready"),
        (node("x", cordoned=True), "node_cordoned"),
        (node("x", taints=[{"key": "k", "effect": "NoSchedule"}]), "node_tainted"),
        (node("x", rdma="0"), "rdma_allocatable_zero"),
        (node("x", rdma=None), "rdma_resource_absent"),
    ],
)
def test_unfit_nodes(unfit, code):
    chosen = choose_nodes([node("a"), node("b"), unfit], [], settings(nodes="all"))
    assert chosen["chosen"] == ["a", "b"] and chosen["skipped"][0]["code"] == code
    by_name = choose_nodes([node("a"), node("b"), unfit], [], settings(nodes=["a", "b", "x"]))
    assert [f["code"] for f in by_name["findings"]] == [code]


def test_quantities_are_read_as_kubernetes_writes_them():
    assert choose_nodes([node("a", rdma="1k"), node("b")], [], settings())["chosen"] == ["a", "b"]


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "nvidia.com/gpu", "value": "present"}, True),
        ({"key": "nvidia.com/gpu", "value": "other"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration, tolerated):
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    nodes = [node("a", taints=[taint]), node("b", taints=[taint])]
    chosen = choose_nodes(nodes, [], settings(tolerations=[toleration]))["chosen"]
    assert chosen == (["a", "b"] if tolerated else [])


def test_gpus_that_others_hold_are_not_free():
    gpu = make_settings(GPU_VARIABLES, "gpudirect_test_")
    nodes = [node("a"), node("b"), node("c")]
    chosen = choose_nodes(nodes, [holder("a", 8), holder("b", 8, "Succeeded")], gpu)
    assert chosen["chosen"] == ["b", "c"]
    assert chosen["skipped"][0]["reason"] == "nvidia.com/gpu: 0 of 8 free, 1 needed"
    assert choose_nodes(nodes, None, gpu)["chosen"] == ["a", "b"]


def test_init_containers_count_where_they_need_more():
    gpu = make_settings(GPU_VARIABLES, "gpudirect_test_")
    pod = holder("a", 1)
    pod["spec"]["initContainers"] = [
        {"name": "i", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    ]
    assert choose_nodes([node("a"), node("b"), node("c")], [pod], gpu)["chosen"] == ["b", "c"]


def test_too_few_nodes_say_why():
    chosen = choose_nodes([node("a"), node("b", rdma="0")], [], settings())
    assert chosen["findings"][0]["code"] == "not_enough_nodes"
    assert f"b: {RDMA}: allocatable is 0" in chosen["findings"][0]["seen"]


def test_fewer_than_asked_for():
    chosen = choose_nodes([node("a"), node("b"), node("c", rdma="0")], [], settings(nodes=3))
    assert chosen["chosen"] == ["a", "b"]
    assert "3 nodes were asked for" in chosen["findings"][0]["seen"]


def test_a_name_that_does_not_exist():
    chosen = choose_nodes([node("a"), node("b")], [], settings(nodes=["a", "b", "z"]))
    assert [f["code"] for f in chosen["findings"]] == ["node_not_found"]
    assert chosen["chosen"] == ["a", "b"]


def test_what_a_pod_needs():
    several = settings(networks=["n1", "n2"])
    assert needed_resources(several) == {RDMA: 2}
    own = settings(networks=["n1", "n2"], rdma_resources=["rdma/a", "rdma/b"])
    assert needed_resources(own) == {"rdma/a": 1, "rdma/b": 1}
    gpu = make_settings(GPU_VARIABLES, "gpudirect_test_")
    assert needed_resources(gpu) == {RDMA: 1, "nvidia.com/gpu": 1}


# ---- pods


def pod(name: str, phase="Running", ready=True, waiting=None, **status) -> dict:
    state = {"waiting": waiting} if waiting else {"running": {}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "c", "ready": ready, "state": state, "restartCount": 0}],
            **status,
        },
    }


def test_running_and_waiting():
    creating = pod("p2", "Pending", False, {"reason": "ContainerCreating"})
    states = pod_states([pod("p1"), creating], [], ["p1", "p2"])
    assert [p["metadata"]["name"] for p in states["running"]] == ["p1"]
    assert [(w["where"]["pod"], w["where"]["node"]) for w in states["waiting"]] == [("p2", "a")]
    assert not states["settled"] and states["findings"] == []
    late = not_running(states, 300)
    assert [f["code"] for f in late] == ["pod_not_started"] and "ContainerCreating" in late[0][
        "seen"
    ]


def test_a_pod_that_will_not_run_settles():
    bad = pod("p1", "Failed", False)
    bad["status"]["containerStatuses"][0]["state"] = {
        "terminated": {"exitCode": 1, "reason": "Error"}
    }
    states = pod_states([bad], [], ["p1"])
    assert states["settled"] and states["findings"][0]["code"] == "pod_crash"
    assert states["findings"][0]["where"]["node"] == "a"


def test_a_trouble_that_may_clear_is_waited_for_and_then_told():
    bad = pod(
        "p1", "Pending", False, {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    )
    states = pod_states([bad], [], ["p1"])
    assert not states["settled"]
    told = not_running(states, 60)
    assert told[0]["code"] == "image_pull" and told[0]["seen"].startswith("not Running after 60 s")


def test_events_tell_why_a_pod_waits():
    creating = pod("p1", "Pending", False, {"reason": "ContainerCreating"})
    event = {
        "involvedObject": {"kind": "Pod", "name": "p1"},
        "type": "Warning",
        "reason": "FailedCreatePodSandBox",
        "message": "cannot find a network-attachment-definition (rdma-net-ipam) in namespace (default):"
        ' network-attachment-definitions.k8s.cni.cncf.io "rdma-net-ipam" not found',
    }
    assert pod_states([creating], [event], ["p1"])["waiting"][0]["code"] == "nad_missing"
    other = {**event, "involvedObject": {"kind": "Pod", "name": "somebody-else"}}
    assert pod_states([creating], [other], ["p1"])["waiting"][0]["code"] == "pod_not_started"


def test_a_pod_that_was_never_scheduled_names_the_node_it_was_made_for():
    unscheduled = pod(
        "p1",
        "Pending",
        False,
        conditions=[
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/2 nodes are available: 1 Insufficient rdma/a",
            }
        ],
    )
    del unscheduled["spec"]["nodeName"]
    unscheduled["status"]["containerStatuses"] = []
    match = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-7"]}]}
    unscheduled["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [match]}
        }
    }
    states = pod_states([unscheduled], [], ["p1"])
    found = (states["waiting"] + states["findings"])[0]
    assert found["code"] == "insufficient_resource" and found["where"]["node"] == "gpu-7"


def test_a_pod_that_is_gone_is_said_so():
    states = pod_states([], [], ["p1"])
    assert states["settled"] and states["findings"][0]["code"] == "pod_gone"


def test_a_pod_being_deleted_does_not_count_as_running():
    going = pod("p1")
    going["metadata"]["deletionTimestamp"] = "2026-01-15T09:00:00Z"
    assert pod_states([going], [], ["p1"])["running"] == []


def labelled(name: str, gpu: str, **changes) -> dict:
    made = node(name, **changes)
    made["metadata"]["labels"] = {"gpu": gpu}
    return made


def test_nodes_by_label():
    nodes = [labelled("a", "H100"), labelled("b", "A100"), labelled("c", "H100"), node("d")]
    nodes.append(labelled("e", "H100", rdma="0"))
    chosen = choose_nodes(nodes, [], settings(nodes={"label": "gpu=H100"}))
    assert chosen["chosen"] == ["a", "c"] and chosen["findings"] == []
    assert [s["node"] for s in chosen["skipped"]] == ["e"]


def test_a_label_that_too_few_nodes_have():
    chosen = choose_nodes([node("a"), node("b")], [], settings(nodes="gpu=H100"))
    assert chosen["findings"][0]["code"] == "not_enough_nodes"
    assert "0 of 2 nodes match gpu=H100" in chosen["findings"][0]["seen"]
