"""What is read, and when."""

from __future__ import annotations

import collections
from typing import Any

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_plain import plain
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_reads import (
    plan_reads,
    read_outcomes,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_settings import make_settings
from ansible_collections.k8si.fabric.tests.unit.plugins.plugin_utils.readiness_helpers import (
    APIS,
    fixture,
    healthy,
    nad,
)


def ids(seen: dict[str, Any], apis: Any = APIS, **settings: Any) -> list[str]:
    outcomes = {key: {"status": "ok", "items": items} for key, items in seen.items()}
    return [read["id"] for read in plan_reads(make_settings(settings), apis, outcomes)]


BASE = ["nodes", "pods", "policies", "networks", "namespace", "own_pods"]


def test_first_reads():
    assert ids({}, apis={}) == [*BASE, "gpu_policies"]
    assert ids({}, apis=None, tests=["rdma"]) == BASE
    assert ids({}) == [*BASE, "gpu_policies", "node_policies", "nic_devices", "sriov_states"]


def test_each_kind_is_read_once():
    reads = plan_reads(make_settings({}), APIS, {})
    kinds = collections.Counter(
        (read["kind"], read["namespace"], str(read["label_selectors"])) for read in reads
    )
    assert set(kinds.values()) == {1}


def test_nothing_more_is_due_in_a_healthy_cluster():
    seen = {**healthy(), "node_policies": [], "nic_devices": [], "sriov_states": []}
    assert ids(seen) == []


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
    assert ids({**healthy(), "pods": []}, apis={}) == [
        "operator_elsewhere_0",
        "operator_elsewhere_1",
    ]


def test_driver_pods_are_read_for_peermem_only():
    policies = fixture("clusterpolicy/ready-peermem.json")
    assert ids({**healthy(), "gpu_policies": policies}, apis={}) == ["driver_pods"]


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
    assert type(result) is dict and type(next(iter(result))) is str
