"""What is read, and when."""

from __future__ import annotations

import collections
import json
from typing import Any

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_plain import plain
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_reads import (
    NETWORK_KINDS,
    plan_reads,
    read_outcomes,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_settings import make_settings
from ansible_collections.k8si.fabric.tests.unit.plugins.plugin_utils.readiness_helpers import (
    FIXTURES,
    check,
    fixture,
    healthy,
    nad,
)

INDEX = json.loads((FIXTURES / "INDEX.json").read_text(encoding="utf-8"))


def ids(seen: dict[str, Any], **settings: Any) -> list[str]:
    outcomes = {key: {"status": "ok", "items": items} for key, items in seen.items()}
    return [read["id"] for read in plan_reads(make_settings(settings), outcomes)]


BASE = ["nodes", "policies", "networks", "namespace", "pods", "own_pods"]


def test_first_reads():
    assert ids({}) == [*BASE, "gpu_policies", "cidr_pools", "ip_pools", "driver_pods"]
    assert ids({}, tests=["rdma"]) == [*BASE, "cidr_pools", "ip_pools"]


def test_pods_of_daemonsets_are_read_only_where_the_policy_says_that_some_are_missing():
    policies = fixture("nicclusterpolicy/component-error.json")
    assert "daemon_pods" in ids({**healthy(), "policies": policies})
    seen = {**healthy(), "daemon_pods": []}
    assert "daemon_pods" not in ids({**seen, "policies": policies})


def test_each_kind_is_read_once():
    reads = plan_reads(make_settings({}), {})
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
    assert ids({**healthy(), "policies": policies}) == ["daemon_pods", "node_policies"]


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
    assert ids(seen) == ["ip_pools"]
    assert ids({**seen, "networks": [nad(config={"type": "macvlan"})]}) == []


def test_network_objects_are_read_to_explain_a_missing_network():
    assert ids({**healthy(), "networks": []}) == ["sriov_states", *NETWORK_KINDS]


def test_operator_is_looked_for_elsewhere_only_when_it_is_not_in_its_place():
    assert ids({**healthy(), "pods": []}) == [
        "operator_elsewhere_0",
        "operator_elsewhere_1",
    ]


def test_driver_pods_are_read_for_peermem_only():
    policies = fixture("clusterpolicy/ready-peermem.json")
    seen = {**healthy(), "gpu_policies": policies}
    assert ids(seen) == ["driver_pods"]


def test_secrets_and_resources_of_extra_checks():
    extra = [
        {"id": name, "resource": {"kind": "ConfigMap", "label_selectors": "a=b"}, "expression": "@"}
        for name in ("one", "two")
    ]
    due = ids(healthy(), image_pull_secrets=["s"], extra_checks=extra)
    assert due == ["secret:s", 'extra:[null, "ConfigMap", null, null, "a=b"]']


def test_secrets_are_read_without_their_content():
    reads = plan_reads(make_settings({"image_pull_secrets": ["s"]}), {})
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
