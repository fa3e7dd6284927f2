"""How far a deployment is, and in which words; and the result."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.deploy_plan import plan
from ansible_collections.k8si.fabric.plugins.plugin_utils.deploy_progress import phases, progress
from ansible_collections.k8si.fabric.plugins.plugin_utils.deploy_result import conclude, explain
from ansible_collections.k8si.fabric.plugins.plugin_utils.deploy_settings import make_settings

from . import deploy_data as data
from .test_deploy_plan import reads

SHARED = Path(
    os.environ.get("FABRIC_SHARED", Path(__file__).resolve().parents[4] / ".." / "shared")
)


def settings(name: str = "macvlan", **more: Any) -> dict[str, Any]:
    return make_settings(data.variables(**{**data.DEPLOYMENTS[name], **more}))


def policy(
    state: str | None, generation: int = 1, observed: int | None = None, **states: Any
) -> dict[str, Any]:
    """A NicClusterPolicy; states: component -> state or (state, message)."""
    entries = []
    for name, value in states.items():
        value = (value, None) if isinstance(value, str) else value
        entry = {"name": name.replace("_", "-"), "state": value[0]}
        entries.append(entry | ({"message": value[1]} if value[1] else {}))
    status: dict[str, Any] = {"state": state, "appliedStates": entries} if state else {}
    if observed is not None:
        status["conditions"] = [{"type": "Ready", "observedGeneration": observed}]
    metadata = {"name": "nic-cluster-policy", "generation": generation, "resourceVersion": "7"}
    return {"metadata": metadata, "status": status}


ALL_READY = {
    "state_RDMA_device_plugin": "ready",
    "state_nv_ipam_cni": "ready",
    "state_multus_cni": "ready",
    "state_container_networking_plugins": "ready",
    "state_OFED": "ignore",
}

POLICIES: list[tuple[list[Any], dict[str, Any], bool, str]] = [
    ([], {}, False, "NicClusterPolicy nic-cluster-policy is not there"),
    (
        [policy(None)],
        {},
        False,
        "NicClusterPolicy has no status yet: the operator has not looked at it",
    ),
    (
        [
            policy(
                "notReady", **{**ALL_READY, "state_OFED": ("notReady", "driver is  being\nbuilt")}
            )
        ],
        {},
        False,
        "NicClusterPolicy is notReady: state-OFED notReady (driver is being built)",
    ),
    ([policy("notReady")], {}, False, "NicClusterPolicy is notReady: no component says why"),
    (
        [policy("ready", state_multus_cni="ready")],
        {},
        False,
        "NicClusterPolicy is ready, but has no word of state-RDMA-device-plugin, state-nv-ipam-cni,"
        " state-container-networking-plugins yet",
    ),
    (
        [policy("ready", **ALL_READY)],
        {},
        True,
        "NicClusterPolicy is ready: state-RDMA-device-plugin, state-nv-ipam-cni, state-multus-cni,"
        " state-container-networking-plugins",
    ),
    (
        [policy("ready", 3, 2, **ALL_READY)],
        {},
        False,
        "NicClusterPolicy is ready, but that is of generation 2, and the spec is of generation 3",
    ),
    (
        [policy("ready", **ALL_READY)],
        {"changed": True, "resource_version": "7"},
        False,
        "NicClusterPolicy is ready, but the operator has not touched it since the change",
    ),
]


@pytest.mark.parametrize(
    ("items", "applied", "ready", "text"), POLICIES, ids=[str(i) for i in range(len(POLICIES))]
)
def test_policy(items: list[Any], applied: dict[str, Any], ready: bool, text: str) -> None:
    found = progress(items, "policy", settings(), applied, 1)
    assert (found["ready"], found["text"], found["hopeless"]) == (ready, text, False)


@pytest.mark.parametrize(
    ("applied", "elapsed"),
    [
        ({"changed": False, "resource_version": "7"}, 1),
        ({"changed": True, "resource_version": "6"}, 1),
        ({"changed": True, "resource_version": "7"}, 60),
    ],
)
def test_a_ready_policy_is_believed(applied: dict[str, Any], elapsed: float) -> None:
    assert progress([policy("ready", **ALL_READY)], "policy", settings(), applied, elapsed)["ready"]


def test_an_ignored_policy_is_hopeless() -> None:
    ignored = policy("ignore")
    ignored["status"]["reason"] = "Unsupported"
    found = progress([ignored], "policy", settings())
    assert found["hopeless"] and found["text"].endswith("ignored by the operator: Unsupported")


@pytest.mark.skipif(not (SHARED / "k8s-fixtures").is_dir(), reason="the fixtures are not here")
def test_policies_of_real_shape() -> None:
    folder = SHARED / "k8s-fixtures" / "nicclusterpolicy"
    index = json.loads((folder.parent / "INDEX.json").read_text())
    seen = 0
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        items = content.get("items") or [content]
        if items[0].get("kind") != "NicClusterPolicy":
            continue
        found = progress(items, "policy", settings(multus=False, cni_plugins=False))
        expected = index[f"nicclusterpolicy/{path.name}"]["expect"]["policy"]
        passes = expected == "pass" and path.name not in (
            "v23-status.json",  # an operator that knows nothing of the components asked for
            "nicnodepolicy-ready.json",
        )
        assert found["ready"] <= (expected == "pass"), path.name
        assert found["ready"] or not passes or "has no word of" in found["text"], path.name
        seen += 1
    assert seen > 10


def nad(namespace: str, name: str) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name}}


def pool(count: int) -> dict[str, Any]:
    metadata = {"name": "rdma-net-ipam-pool", "namespace": "nvidia-network-operator"}
    return {"metadata": metadata, "status": {"allocations": [{}] * count}}


def network(state: str | None, reason: str = "") -> dict[str, Any]:
    status = {"state": state} | ({"reason": reason} if reason else {})
    return {"metadata": {"name": "rdma-net-ipam"}, "status": status if state else {}}


def node(**allocatable: str) -> dict[str, Any]:
    return {"status": {"allocatable": {k.replace("__", "/"): v for k, v in allocatable.items()}}}


def state(
    name: str, sync: str, have: int = 8, resource: str = "sriov_resource", error: str = ""
) -> dict[str, Any]:
    base = {"pciAddress": "0000:1a:00.0", "name": "ens1f0np0"}
    return {
        "metadata": {"name": name},
        "spec": {"interfaces": [{**base, "numVfs": 8, "vfGroups": [{"resourceName": resource}]}]},
        "status": {
            "syncStatus": sync,
            "lastSyncError": error,
            "interfaces": [{**base, "numVfs": have}],
        },
    }


OTHERS: list[tuple[str, str, list[Any], bool, str]] = [
    (
        "pools",
        "macvlan",
        [],
        False,
        "IPPool: rdma-net-ipam-pool (blocks for 0 nodes of at least 2)",
    ),
    (
        "pools",
        "macvlan",
        [pool(1)],
        False,
        "IPPool: rdma-net-ipam-pool (blocks for 1 nodes of at least 2)",
    ),
    ("pools", "macvlan", [pool(2)], True, "IPPool: rdma-net-ipam-pool ready"),
    ("networks", "macvlan", [], False, "MacvlanNetwork: rdma-net-ipam is not there"),
    ("networks", "macvlan", [network(None)], False, "MacvlanNetwork: rdma-net-ipam has no status"),
    (
        "networks",
        "macvlan",
        [network("error", "bad ipam")],
        False,
        "MacvlanNetwork: rdma-net-ipam error (bad ipam)",
    ),
    ("networks", "macvlan", [network("ready")], True, "MacvlanNetwork: rdma-net-ipam ready"),
    (
        "networks",
        "sriov",
        [{"metadata": {"name": "sriov-rdma-network"}}],
        True,
        "SriovNetwork: sriov-rdma-network ready",
    ),
    (
        "attachments",
        "macvlan",
        [nad("other", "rdma-net-ipam")],
        False,
        "NetworkAttachmentDefinition: default/rdma-net-ipam",
    ),
    (
        "attachments",
        "macvlan",
        [nad("default", "rdma-net-ipam")],
        True,
        "NetworkAttachmentDefinition: default/rdma-net-ipam ready",
    ),
    (
        "resources",
        "macvlan",
        [node()],
        False,
        "allocatable: rdma/rdma_shared_device_a on 0 nodes of at least 2",
    ),
    (
        "resources",
        "macvlan",
        [node(rdma__rdma_shared_device_a="0"), node(rdma__rdma_shared_device_a="63")],
        False,
        "allocatable: rdma/rdma_shared_device_a on 1 nodes of at least 2",
    ),
    (
        "resources",
        "macvlan",
        [node(rdma__rdma_shared_device_a="1k"), node(rdma__rdma_shared_device_a="63")],
        True,
        "allocatable: rdma/rdma_shared_device_a on 2 nodes",
    ),
    ("sriov_nodes", "sriov", [], False, "SR-IOV: 0 nodes are configured, 2 are needed"),
    (
        "sriov_nodes",
        "sriov",
        [state("a", "Succeeded"), state("b", "Succeeded", resource="old")],
        False,
        "SR-IOV: 1 nodes are configured",
    ),
    (
        "sriov_nodes",
        "sriov",
        [state("a", "InProgress"), state("b", "Succeeded")],
        False,
        "SR-IOV: a InProgress",
    ),
    (
        "sriov_nodes",
        "sriov",
        [state("a", "Failed", error="no\nVFs")],
        False,
        "SR-IOV: a Failed (no VFs)",
    ),
    (
        "sriov_nodes",
        "sriov",
        [state("a", "Succeeded", 3), state("b", "Succeeded")],
        False,
        "SR-IOV: a (ens1f0np0 has 3 of 8 virtual functions)",
    ),
    (
        "sriov_nodes",
        "sriov",
        [state("a", "Succeeded"), state("b", "Succeeded")],
        True,
        "SR-IOV is configured on a, b",
    ),
]


@pytest.mark.parametrize(
    ("phase", "name", "items", "ready", "text"),
    OTHERS,
    ids=[f"{o[0]}-{i}" for i, o in enumerate(OTHERS)],
)
def test_other_phases(phase: str, name: str, items: list[Any], ready: bool, text: str) -> None:
    found = progress(items, phase, settings(name))
    assert found["ready"] == ready and found["text"].startswith(text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("macvlan", ["policy", "pools", "networks", "attachments", "resources"]),
        ("sriov", ["policy", "pools", "sriov_nodes", "networks", "attachments", "resources"]),
        ("macvlan-static", ["policy", "networks", "attachments", "resources"]),
        ("ib-shared", ["policy", "resources"]),
    ],
)
def test_phases(name: str, expected: list[str]) -> None:
    found = phases(settings(name))
    assert [p["phase"] for p in found] == expected
    assert all(p["kind"] and p["api_version"] for p in found)


# ---- the result


def result(**more: Any) -> dict[str, Any]:
    chosen = settings()
    planned = plan(chosen, reads())
    applied = [{"item": o, "changed": True, "result": o["definition"]} for o in planned["objects"]]
    waits = [progress([policy("ready", **ALL_READY)], "policy", chosen)]
    values: dict[str, Any] = {
        "settings": chosen,
        "plan": planned,
        "applied": applied,
        "removed": [],
        "waits": waits,
        "run": {"check_mode": False, "failure": ""},
    }
    return conclude(**{**values, **more})


def test_a_good_result() -> None:
    found = result()
    assert found["ready"] and found["changed"] and not found["failed"] and found["problems"] == []
    assert found["components"]["state-multus-cni"] == "ready"
    assert found["objects"][1] == {
        "kind": "IPPool",
        "namespace": "nvidia-network-operator",
        "name": "rdma-net-ipam-pool",
        "action": "create",
        "changed": True,
    }
    lines = explain(found)
    assert lines[0] == "3 objects, 3 changed" and "  ready   NicClusterPolicy is ready:" in lines[4]


def test_a_result_that_is_not_ready_in_time() -> None:
    waits = [
        progress([policy("notReady", state_OFED=("notReady", "building"))], "policy", settings())
    ]
    found = result(waits=waits)
    assert found["failed"] and not found["ready"]
    assert found["problems"][0].startswith(
        "not ready after 1800 s (deploy_timeout): NicClusterPolicy is notReady: state-OFED notReady (building). Look at"
    )
    assert explain(found)[-1].startswith("  FAILED  not ready after 1800 s")


def test_a_result_of_wrong_settings() -> None:
    found = conclude({}, {}, [], [], [], {"failure": "deploy_network_type=…"})
    assert found["failed"] and not found["ready"] and found["problems"] == ["deploy_network_type=…"]
    assert explain(found) == ["0 objects, 0 changed", "  FAILED  deploy_network_type=…"]


def test_check_mode_tells_what_would_change() -> None:
    planned = plan(settings(), reads(unknown=("IPPool",)))
    applied = [{"item": o, "skipped": True} for o in planned["objects"]]
    found = result(applied=applied, waits=[], run={"check_mode": True})
    assert not found["ready"] and not found["failed"] and found["changed"]
    assert explain(found)[0] == "3 objects, 3 would change"


def test_an_older_operator_that_drops_a_field_is_told() -> None:
    chosen = settings("macvlan-eight-rails")
    planned = plan(chosen, reads())
    applied = []
    for o in planned["objects"]:
        spec = {k: v for k, v in o["definition"]["spec"].items() if k != "metaPlugins"}
        applied.append({"item": o, "changed": True, "result": {**o["definition"], "spec": spec}})
    found = result(settings=chosen, plan=planned, applied=applied)
    assert len(found["warnings"]) == 8
    assert (
        "MacvlanNetwork rdma-net-rail-0: the API server did not keep spec.metaPlugins"
        in found["warnings"][0]
    )
    assert any("fabric_networks: [rdma-net-rail-0, " in line for line in explain(found))


@pytest.mark.parametrize(
    ("name", "word"), [("macvlan-static", "same address"), ("macvlan-host-local", "two nodes")]
)
def test_address_management_that_the_tests_cannot_use_is_told(name: str, word: str) -> None:
    (warning,) = result(settings=settings(name), applied=[])["warnings"]
    assert word in warning


def test_removal() -> None:
    gone = {"apiVersion": "v1", "kind": "IPPool", "metadata": {"name": "p", "namespace": "n"}}
    absent = make_settings(data.variables(state="absent"))
    found = conclude(absent, {}, [], [{"item": gone, "changed": True}], [], {"operator": "removed"})
    assert found["changed"] and not found["failed"] and not found["ready"]
    assert explain(found) == ["1 objects, 1 changed", "  remove  IPPool n/p"]
