"""Every object of k8s_fixtures that readiness reads is judged as its entry in INDEX.json expects.

By what the role itself calls. Those of the test pods: test_pod_fixtures.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_gpu import memory_path
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_quantity import count
from ansible_collections.k8si.fabric.tests.unit.plugins.plugin_utils.readiness_helpers import (
    FIXTURES,
    RDMA,
    check,
    entries,
    fixture,
    healthy,
)

INDEX = json.loads((FIXTURES / "INDEX.json").read_text(encoding="utf-8"))
NODE_CHECKS = ("labels", "usable", "rdma", "enough_nodes", "mig")
POD_GROUPS = ("testpods", "podview", "events")  # test_pod_fixtures.py
TESTED: set[str] = set()  # by the tests below, each with what INDEX.json expects


def verdict(found: list[dict[str, Any]]) -> str:
    """The word of INDEX.json for some entries: fail, retry, warn or pass."""
    failed = [entry for entry in found if entry["status"] == "failed"]
    if any(not entry["retry"] for entry in failed):
        return "fail"
    if failed:
        return "retry"
    return "warn" if any(entry["status"] == "advice" for entry in found) else "pass"


def of(group: str) -> list[Any]:
    TESTED.update(name for name in INDEX if name.split("/")[0] == group)
    return [
        pytest.param(name, entry["expect"], id=name.removesuffix(".json"))
        for name, entry in INDEX.items()
        if name.split("/")[0] == group
    ]


@pytest.mark.parametrize(("name", "expect"), of("nicclusterpolicy"))
def test_policy(name, expect):
    objects = fixture(name)
    reads = healthy()
    if objects[0]["kind"] == "NicNodePolicy":
        reads["node_policies"] = objects
        found = entries(check(reads), "node_policies")
    else:
        reads["policies"] = objects
        if "cross_check" in expect:
            reads["nodes"] = fixture("nodes/nfd-class-vendor-label.json")[1:]
        found = entries(check(reads), "policy")
    # to fail only after the time is up is what a retry does
    wanted = {"fail-after-timeout": "retry"}.get(expect["policy"], expect["policy"])
    assert verdict(found) == wanted
    if "code" in expect:
        assert [entry["code"] for entry in found] == [expect["code"]]
    if "component" in expect:
        assert expect["component"] in found[0]["seen"]
        assert expect["component"] in found[0]["evidence"]
    if "pending" in expect:
        assert sorted(found[0]["evidence"]) == sorted(expect["pending"])
    if "cross_check" in expect:
        assert found[0]["code"] == "policy_no_nodes"
        assert "label" in found[0]["seen"]


@pytest.mark.parametrize(("name", "expect"), of("pods"))
def test_pods(name, expect):
    reads = healthy()
    reads["pods"] = fixture(name)
    reads["operator_elsewhere_0"] = reads["operator_elsewhere_1"] = []
    reads["nodes"] = fixture("nodes/capacity-1k.json")
    # pods of the control plane are on a node that this listing does not have
    cp = json.loads(json.dumps(reads["nodes"][0]).replace("worker-gpu-01", "cp-01"))
    reads["nodes"].append(cp)
    if name == "pods/operator-only-nfd.json":
        reads["policies"] = []
    result = check(reads)
    operator, operands = entries(result, "operator"), entries(result, "operands")
    assert verdict(operator) == expect["operator"]
    if "operands" in expect:
        assert verdict(operands) == expect["operands"]
    elif expect["operator"] == "pass" and "policy" not in expect:
        assert verdict(operands) == "pass"
    if "code" in expect:
        assert expect["code"] in {entry["code"] for entry in operator + operands}
    if expect.get("policy") == "retry":
        # what the pods alone tell: the driver is being built on one node
        assert verdict(operands) == "retry"
        assert operands[0]["where"]["nodes"] == ["worker-gpu-02"]
    elif "policy" in expect:
        assert verdict(entries(result, "policy")) == expect["policy"]


@pytest.mark.parametrize(("name", "expect"), of("nodes"))
def test_nodes(name, expect):
    reads = healthy()
    reads["nodes"] = fixture(name)
    settings: dict[str, Any] = {
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    }
    if "resource" in expect:
        settings["rdma_resources"] = [expect["resource"]]
    # several fixtures break one of two nodes; whether one is enough is another question
    if expect.get("code") not in (None, "not_enough_nodes"):
        settings["minimum_nodes"] = 1
    result = check(reads, settings)
    found = entries(result, *NODE_CHECKS)
    fit = [row["name"] for row in result["nodes"] if row["fit"]]
    if expect["verdict"] == "report":
        offered = {key for entry in found for key in entry["evidence"] or []}
        offered |= {RDMA, "rdma/rdma_shared_device_b"}
        words = " ".join(entry["seen"] for entry in found)
        assert offered >= set(expect["names"])
        assert all(text in words for text in expect["names"] if "rdma_shared" not in text)
    elif expect.get("code") == "nfd_absent":
        assert verdict(entries(result, "labels")) == "fail"
    else:
        assert verdict(found) == expect["verdict"]
    if "code" in expect:
        assert expect["code"] in {entry["code"] for entry in found}
    if "node" in expect:
        blamed = {
            node
            for entry in found
            if entry["code"] == expect["code"]
            for node in entry["where"]["nodes"]
        }
        assert blamed == {expect["node"]}
    if "rdma_nodes" in expect:
        assert fit == expect["rdma_nodes"]
        assert all(row["rdma"][RDMA] == expect["quantity"] for row in result["nodes"])
        assert count("1k") == expect["quantity"]
    if "schedulable" in expect or "usable" in expect:
        assert fit == expect.get("schedulable", expect.get("usable"))
    if "needs_toleration" in expect:
        assert entries(result, "usable")[0]["evidence"]["tolerated"] == expect["needs_toleration"]
        # and without the toleration no node can be used
        del settings["tolerations"]
        assert not any(row["fit"] for row in check(reads, settings)["nodes"])


@pytest.mark.parametrize(("name", "expect"), of("clusterpolicy"))
def test_gpu(name, expect):
    reads = healthy()
    reads["nodes"] = fixture("nodes/capacity-1k.json")
    objects = fixture(name)
    if "peermem" in expect:
        reads["driver_pods"] = objects
        # the sidecar is judged only where the ClusterPolicy asks for it
        mode = "ready-dmabuf" if expect["peermem"] == "not-applicable" else "ready-peermem"
        reads["gpu_policies"] = fixture(f"clusterpolicy/{mode}.json")
        found = entries(check(reads), "gpu_memory")
        wanted = "pass" if expect["peermem"] == "not-applicable" else expect["peermem"]
        assert verdict(found) == wanted
        if "node" in expect:
            assert found[0]["where"]["nodes"] == [expect["node"]]
    else:
        reads["gpu_policies"] = objects
        result = check(reads)
        assert verdict(entries(result, "gpu_operator")) == expect["gpu"]
        if "mode" in expect:
            assert memory_path(objects[0]) == expect["mode"]
            assert result["cluster"]["gpu_memory_path"] == expect["mode"]


@pytest.mark.parametrize(("name", "expect"), of("networks"))
def test_networks(name, expect):
    reads = healthy()
    reads["nodes"] = fixture("nodes/capacity-1k.json")
    settings: dict[str, Any] = {}
    item = fixture(name)[0]
    if "ipam" in expect:
        reads["ip_pools"] = [item]
        found = entries(check(reads), "pools")
        assert verdict(found) == expect["ipam"]
        if "node" in expect:
            assert found[0]["where"]["nodes"] == [expect["node"]]
    elif item["kind"] == "NetworkAttachmentDefinition":
        reads["networks"] = [item]
        settings["networks"] = [item["metadata"]["name"]]
        resource = item["metadata"].get("annotations", {}).get("k8s.v1.cni.cncf.io/resourceName")
        if resource:
            settings["rdma_resources"] = [resource]
        assert verdict(entries(check(reads, settings), "networks")) == expect.get("network", "pass")
    else:
        # the network object explains a missing definition, and says that it is being made
        reads["macvlan_networks"] = [item]
        assert verdict(entries(check(reads), "networks")) == expect["network"]
        reads["networks"] = []
        missing = entries(check(reads), "networks")[0]
        assert (missing["code"], missing["retry"]) == ("nad_missing", True)
        assert "MacvlanNetwork rdma-net-ipam is ready" in missing["seen"]


@pytest.mark.parametrize(("name", "expect"), of("sriov"))
def test_sriov(name, expect):
    reads = healthy()
    reads["sriov_states"] = fixture(name)
    found = entries(check(reads), "sriov")
    assert verdict(found) == expect["sriov"]
    if "rdma_mode" in expect:
        assert found[0]["evidence"]["rdma_mode"] == [expect["rdma_mode"]]


def test_every_fixture_has_a_test(capsys):
    """Counts them, so that a new kind of fixture without a test shows."""
    ours = {name for name in INDEX if name.split("/")[0] not in POD_GROUPS}
    assert ours == TESTED
    with capsys.disabled():
        print(f"\n{len(TESTED)} of {len(ours)} fixtures of readiness tested against INDEX.json")
