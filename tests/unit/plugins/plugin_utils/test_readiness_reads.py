"""What is read, and when."""

from __future__ import annotations

import collections
import json
from typing import Any

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_plain import plain
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_reads import (
    SMALL_CLUSTER,
    plan_reads,
    pods_by_purpose,
    read_outcomes,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_settings import make_settings
from ansible_collections.k8si.fabric.tests.unit.plugins.plugin_utils.readiness_helpers import (
    APIS,
    FIXTURES,
    check,
    fixture,
    healthy,
    nad,
    node,
    pod,
)

INDEX = json.loads((FIXTURES / "INDEX.json").read_text(encoding="utf-8"))


def ids(seen: dict[str, Any], apis: Any = None, **settings: Any) -> list[str]:
    if "pods" in seen and len(seen["nodes"]) <= SMALL_CLUSTER:
        seen = {**seen, "all_pods": seen["pods"]}
    outcomes = {key: {"status": "ok", "items": items} for key, items in seen.items()}
    return [
        read["id"]
        for read in plan_reads(make_settings(settings), APIS if apis is None else apis, outcomes)
    ]


BASE = ["nodes", "policies", "networks", "namespace"]


def test_first_reads():
    assert ids({}) == [*BASE, "gpu_policies"]
    assert ids({}, apis=None, tests=["rdma"]) == BASE


def test_small_cluster_reads_all_pods_once_and_a_large_one_by_purpose():
    seen = healthy()
    for read_id in ("pods", "own_pods"):
        del seen[read_id]
    assert ids(seen) == ["all_pods"]
    seen["nodes"] = [node(f"w{number}") for number in range(SMALL_CLUSTER + 1)]
    assert ids(seen) == ["pods", "own_pods"]
    # thousands of pods of DaemonSets are read only where the policy says that some are missing
    seen["policies"] = fixture("nicclusterpolicy/component-error.json")
    assert ids(seen, apis={}) == ["pods", "daemon_pods", "own_pods"]


def test_all_pods_serve_each_purpose():
    operator = pod("o", {"app.kubernetes.io/name": "network-operator"})
    own = pod("rdma-test", {"app.kubernetes.io/managed-by": "k8si.fabric"}, namespace="default")
    others = pod("web", {"app": "web"}, namespace="default")
    driver = pod("d", {"app": "nvidia-driver-daemonset"}, namespace="gpu-operator")
    away = pod("a", {"control-plane": "nvidia-network-operator-controller"}, namespace="elsewhere")
    seen = {"all_pods": {"status": "ok", "items": [operator, own, others, driver, away]}}
    split = pods_by_purpose(make_settings({}), seen)
    assert {
        key: [p["metadata"]["name"] for p in value["items"]] for key, value in split.items()
    } == {
        "pods": ["o"],
        "daemon_pods": [],
        "own_pods": ["rdma-test"],
        "driver_pods": ["d"],
        "operator_elsewhere_0": ["a"],
    }
    assert pods_by_purpose(make_settings({}), {}) == {}
    assert (
        plan_reads(make_settings({}), {}, {**seen, "nodes": {"status": "ok", "items": []}})[0]["id"]
        == "policies"
    )


def test_each_kind_is_read_once():
    reads = plan_reads(make_settings({}), APIS, {})
    kinds = collections.Counter(
        (read["kind"], read["namespace"], str(read["label_selectors"])) for read in reads
    )
    assert set(kinds.values()) == {1}


def test_nothing_more_is_due_in_a_healthy_cluster():
    assert ids(healthy()) == []


def test_policies_of_nodes_are_read_where_that_of_the_cluster_has_no_device_plugin():
    policies = fixture("nicclusterpolicy/ready-mixed-ignore.json")
    for state in policies[0]["status"]["appliedStates"]:
        if state["name"] == "state-RDMA-device-plugin":
            state["state"] = "ignore"
    assert ids({**healthy(), "policies": policies}) == ["node_policies"]
    policies = fixture("nicclusterpolicy/not-ready-ofed.json")
    assert ids({**healthy(), "policies": policies}) == ["node_policies"]


def test_adapters_are_read_where_their_operator_is_asked_for():
    policies = fixture("nicclusterpolicy/ready-mixed-ignore.json")
    policies[0]["spec"]["nicConfigurationOperator"] = {"operator": {}}
    assert ids({**healthy(), "policies": policies}) == ["nic_devices"]


def test_virtual_functions_are_read_where_a_network_needs_devices():
    config = {"type": "sriov", "ipam": {"type": "whereabouts"}}
    assert ids({**healthy(), "networks": [nad(config=config)]}) == ["sriov_states"]


def test_pools_are_read_where_networks_take_addresses_from_them():
    seen = healthy()
    del seen["ip_pools"]
    assert ids(seen, apis={}) == ["ip_pools"]
    assert ids({**seen, "networks": [nad(config={"type": "macvlan"})]}, apis={}) == []


def test_network_objects_are_read_to_explain_a_missing_network():
    assert ids(
        {**healthy(), "networks": []}, apis={"mellanox.com/v1alpha1": {"MacvlanNetwork": {}}}
    ) == ["macvlan_networks"]


def test_operator_is_looked_for_elsewhere_only_when_it_is_not_in_its_place():
    nodes = [node(f"w{number}") for number in range(SMALL_CLUSTER + 1)]
    assert ids({**healthy(), "nodes": nodes, "pods": []}, apis={}) == [
        "operator_elsewhere_0",
        "operator_elsewhere_1",
    ]


def test_driver_pods_are_read_for_peermem_only():
    policies = fixture("clusterpolicy/ready-peermem.json")
    nodes = [node(f"w{number}") for number in range(SMALL_CLUSTER + 1)]
    seen = {**healthy(), "nodes": nodes, "gpu_policies": policies}
    assert ids(seen, apis={}) == ["driver_pods"]


def test_secrets_and_resources_of_extra_checks():
    extra = [
        {"id": name, "resource": {"kind": "ConfigMap", "label_selectors": "a=b"}, "expression": "@"}
        for name in ("one", "two")
    ]
    due = ids(healthy(), apis={}, image_pull_secrets=["s"], extra_checks=extra)
    assert due == ["secret:s", 'extra:[null, "ConfigMap", null, null, "a=b"]']


def test_secrets_are_read_without_their_content():
    reads = plan_reads(make_settings({"image_pull_secrets": ["s"]}), {}, {})
    secret = next(read for read in reads if read["kind"] == "Secret")
    assert {"data", "stringData"} <= set(secret["hidden_fields"])


@pytest.mark.parametrize(
    ("result", "status"),
    [
        ({"resources": [{"a": 1}], "api_found": True}, "ok"),
        ({"resources": []}, "ok"),
        ({"resources": [], "api_found": False, "msg": "Failed to find API"}, "no_kind"),
        ({"failed": True, "msg": "Exception '403\nReason: Forbidden' raised"}, "forbidden"),
        ({"failed": True, "msg": "nodes is forbidden: User x cannot list"}, "forbidden"),
        ({"failed": True, "msg": "500 Internal Server Error"}, "failed"),
        ({"failed": True, "exception": "Traceback"}, "failed"),
    ],
)
def test_outcome(result, status):
    outcome = read_outcomes([{**result, "item": {"id": "x"}}])["x"]
    assert outcome["status"] == status
    assert outcome["items"] == result.get("resources", [])
    assert bool(outcome["message"]) is (status != "ok")


@pytest.mark.parametrize("name", [n for n in INDEX if n.startswith(("nodes/", "pods/"))])
def test_cutting_down_changes_no_judgement(name):
    kind, read_id = ("Node", "nodes") if name.startswith("nodes/") else ("Pod", "pods")
    whole = fixture(name)
    result = {"item": {"id": read_id, "kind": kind}, "resources": whole}
    cut = read_outcomes([result])[read_id]["items"]
    assert len(json.dumps(cut)) < len(json.dumps(whole)) or not whole
    assert check({**healthy(), read_id: cut}) == check({**healthy(), read_id: whole})


def test_objects_of_extra_checks_are_not_cut_down():
    result = {"item": {"id": "extra:[]", "kind": "Node"}, "resources": [{"spec": {"podCIDR": "x"}}]}
    assert read_outcomes([result])["extra:[]"]["items"] == [{"spec": {"podCIDR": "x"}}]


def test_loop_without_items_brings_nothing():
    assert read_outcomes([]) == {}


def test_plain_gives_exact_types():
    class Text(str):
        pass

    class Number(int):
        pass

    value = collections.OrderedDict([(Text("a"), (Text("b"), Number(3), 1.5, True, None))])
    result = plain(value)
    assert result == {"a": ["b", 3, 1.5, True, None]}
    assert [type(item) for item in result["a"]] == [str, int, float, bool, type(None)]
    assert [type(result), type(next(iter(result)))] == [dict, str]
