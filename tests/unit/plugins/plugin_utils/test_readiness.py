"""One thing broken at a time in a healthy cluster: each reason code shows, and nothing else is blamed."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import readiness
from ansible_collections.k8si.fabric.plugins.plugin_utils.catalogue import LAYERS, catalogue
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_findings import names
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_settings import make_settings
from ansible_collections.k8si.fabric.tests.unit.plugins.plugin_utils.readiness_helpers import (
    GPU,
    NFD_LABEL,
    RDMA,
    answers,
    check,
    codes,
    context,
    entries,
    fixture,
    healthy,
    nad,
    node,
    pod,
)

ROWS = {item["id"]: item for item in readiness.builtin_rows()}
CODES = Path(readiness.__file__).with_name("readiness_codes.yml")
FAILED_READ = {"failed": True, "msg": "Max retries exceeded"}
OPERATOR = {"app.kubernetes.io/name": "network-operator"}
DRIVER = {"app": "nvidia-driver-daemonset"}


def policy(**changes: Any) -> dict[str, Any]:
    item = copy.deepcopy(fixture("nicclusterpolicy/ready-mixed-ignore.json")[0])
    item["metadata"].update(changes.pop("metadata", {}))
    item["status"].update(changes.pop("status", {}))
    assert not changes
    return item


def gpu_policy(**driver: Any) -> dict[str, Any]:
    item = copy.deepcopy(fixture("clusterpolicy/ready-dmabuf.json")[0])
    item["spec"]["driver"].update(driver)
    return item


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": "in a test"}}


def replaced(**reads: Any) -> dict[str, Any]:
    return {**healthy(), **reads}


def driver_pod(node_name: str, **changes: Any) -> dict[str, Any]:
    return pod(f"driver-{node_name}", DRIVER, namespace="gpu-operator", node=node_name, **changes)


PEERMEM = {"container": "nvidia-peermem-ctr"}
TAINT = {"taints": [{"key": "dedicated", "value": "ai", "effect": "NoSchedule"}]}
UNPLACED = [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]
SRIOV = "sriov/nodestate-succeeded.json"


def sriov_state(**status: Any) -> list[dict[str, Any]]:
    state = copy.deepcopy(fixture(SRIOV)[0])
    state["status"].update(status)
    return [state]


def row(**changes: Any) -> dict[str, Any]:
    resource = {"api_version": "v1", "kind": "ConfigMap", "namespace": "default", "name": "site"}
    return {"id": "site", "resource": resource, "expression": "data.ready == 'yes'", **changes}


ROW_ID = 'extra:["v1", "ConfigMap", "default", "site", null]'

# code → (reads, settings, further arguments of context, status expected)
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "api_unreachable": ({}, {}, {"cluster": FAILED_READ}, "failed"),
    "api_unauthorized": ({}, {}, {"cluster": {"msg": "401 Reason: Unauthorized"}}, "failed"),
    "client_broken": (
        {},
        {},
        {"cluster": {"msg": "Module result deserialization failed", "module_stderr": "not found"}},
        "failed",
    ),
    "forbidden": (healthy(), {}, {"reviews": answers({}, ("pods",))}, "failed"),
    "access_review_failed": (healthy(), {}, {"reviews": []}, "advice"),
    "read_failed": (replaced(own_pods="failed"), {}, {}, "failed"),
    "not_read": (replaced(own_pods="failed"), {}, {}, "skipped"),
    "expression_failed": (
        replaced(**{ROW_ID: [{"data": {"ready": 3}}]}),
        {"extra_checks": [row(expression="starts_with(data.ready, 'y')")]},
        {},
        "failed",
    ),
    "namespace_not_active": (replaced(namespace=[]), {}, {}, "failed"),
    "operator_absent": (replaced(pods=[]), {}, {}, "failed"),
    "operator_elsewhere": (
        replaced(pods=[], operator_elsewhere_0=[pod("o", OPERATOR, namespace="network-operator")]),
        {},
        {},
        "advice",
    ),
    "operator_crashloop": (
        replaced(pods=[pod("o", OPERATOR, ready=False, state=waiting("CrashLoopBackOff"))]),
        {},
        {},
        "failed",
    ),
    "operator_not_ready": (replaced(pods=[pod("o", OPERATOR, ready=False)]), {}, {}, "failed"),
    "operand_not_ready": (
        replaced(pods=[pod("o", OPERATOR), pod("m", {"app": "multus"}, ready=False)]),
        {},
        {},
        "failed",
    ),
    "ofed_slow_build": (
        replaced(pods=[pod("o", OPERATOR), pod("m", {"nvidia.com/ofed-driver": ""}, ready=False)]),
        {},
        {},
        "failed",
    ),
    "image_pull": (
        replaced(pods=[pod("o", OPERATOR, ready=False, state=waiting("ErrImagePull"))]),
        {},
        {},
        "failed",
    ),
    "unschedulable": (
        replaced(pods=[pod("o", OPERATOR, ready=False, conditions=UNPLACED)]),
        {},
        {},
        "failed",
    ),
    "policy_kind_absent": (replaced(policies="no_kind"), {}, {}, "failed"),
    "policy_absent": (replaced(policies=[]), {}, {}, "failed"),
    "unsupported_name": (
        replaced(policies=[policy(metadata={"name": "mine"})]),
        {},
        {},
        "failed",
    ),
    "policy_deleting": (
        replaced(policies=[policy(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})]),
        {},
        {},
        "failed",
    ),
    "policy_no_status": (replaced(policies=[policy(status={"state": None})]), {}, {}, "failed"),
    "stale_status": (
        replaced(
            policies=[
                policy(
                    metadata={"generation": 5},
                    status={"conditions": [{"type": "Ready", "observedGeneration": 4}]},
                )
            ]
        ),
        {},
        {},
        "failed",
    ),
    "component_error": (
        replaced(policies=fixture("nicclusterpolicy/component-error.json")),
        {},
        {},
        "failed",
    ),
    "component_not_ready": (
        replaced(policies=fixture("nicclusterpolicy/not-ready-ofed.json")),
        {},
        {},
        "failed",
    ),
    "component_missing": (
        healthy(),
        {"required_components": ["state-ib-kubernetes"]},
        {},
        "failed",
    ),
    "policy_error": (
        replaced(policies=[policy(status={"state": "error", "appliedStates": []})]),
        {},
        {},
        "failed",
    ),
    "policy_no_nodes": (
        replaced(
            policies=fixture("nicclusterpolicy/not-ready-no-nodes.json"),
            nodes=[node("w1", labels={NFD_LABEL: None}), node("w2", labels={NFD_LABEL: None})],
        ),
        {},
        {},
        "failed",
    ),
    "node_absent": (healthy(), {"nodes": ["w1", "w2", "w9"]}, {}, "failed"),
    "nfd_absent": (
        replaced(
            nodes=[
                node(name, labels={NFD_LABEL: None}, resources={RDMA: ("63", "0")})
                for name in ("w1", "w2")
            ]
        ),
        {},
        {},
        "failed",
    ),
    "nfd_label_form": (
        replaced(
            nodes=[
                node("w1"),
                node("w2"),
                node(
                    "w3",
                    labels={
                        NFD_LABEL: None,
                        "feature.node.kubernetes.io/pci-0200_15b3.present": "true",
                    },
                    resources={RDMA: None},
                ),
            ]
        ),
        {},
        {},
        "failed",
    ),
    "nfd_label_value": (
        replaced(nodes=[node("w1"), node("w2", labels={NFD_LABEL: "false"})]),
        {},
        {},
        "failed",
    ),
    "nfd_label_missing": (
        replaced(nodes=[node("w1"), node("w2", labels={NFD_LABEL: None})]),
        {},
        {},
        "advice",
    ),
    "node_not_ready": (
        replaced(nodes=[node("w1"), node("w2"), node("w3", ready="Unknown")]),
        {},
        {},
        "advice",
    ),
    "node_cordoned": (
        replaced(nodes=[node("w1"), node("w2"), node("w3", spec={"unschedulable": True})]),
        {},
        {},
        "advice",
    ),
    "node_tainted": (
        replaced(nodes=[node("w1"), node("w2"), node("w3", spec=TAINT)]),
        {},
        {},
        "advice",
    ),
    "mofed_wait": (
        replaced(
            nodes=[
                node("w1"),
                node(
                    "w2",
                    labels={"network.nvidia.com/operator.mofed.wait": "true"},
                    resources={RDMA: None},
                ),
            ]
        ),
        {"minimum_nodes": 1},
        {},
        "failed",
    ),
    "rdma_resource_absent": (
        replaced(nodes=[node("w1"), node("w2", resources={RDMA: None})]),
        {"minimum_nodes": 1},
        {},
        "failed",
    ),
    "wrong_resource_name": (
        healthy(),
        {"rdma_resources": ["rdma/rdma_shared_device"]},
        {},
        "failed",
    ),
    "rdma_capacity_zero": (
        replaced(nodes=[node("w1"), node("w2", resources={RDMA: ("0", "0")})]),
        {"minimum_nodes": 1},
        {},
        "failed",
    ),
    "rdma_allocatable_zero": (
        replaced(nodes=[node("w1"), node("w2", resources={RDMA: ("1k", "0")})]),
        {"minimum_nodes": 1},
        {},
        "failed",
    ),
    "rdma_devices_unhealthy": (
        replaced(nodes=[node("w1"), node("w2", resources={RDMA: ("8", "7")})]),
        {},
        {},
        "advice",
    ),
    "not_enough_nodes": (replaced(nodes=[node("w1")]), {}, {}, "failed"),
    "adapter_too_old": (
        replaced(
            nic_devices=[{"status": {"node": "w1", "type": "1013"}}],
        ),
        {},
        {},
        "advice",
    ),
    "multus_absent": (replaced(networks="no_kind"), {}, {}, "failed"),
    "nad_missing": (replaced(networks=[nad("other")]), {}, {}, "failed"),
    "nad_elsewhere": (replaced(networks=[nad(namespace="apps")]), {}, {}, "failed"),
    "nad_broken_json": (replaced(networks=[nad(config='{"type": "macvlan",}')]), {}, {}, "failed"),
    "nad_on_disk": (replaced(networks=[nad(config="")]), {}, {}, "advice"),
    "nad_without_ipam": (replaced(networks=[nad(config={"type": "macvlan"})]), {}, {}, "failed"),
    "ipam_host_local": (
        replaced(networks=[nad(config={"type": "macvlan", "ipam": {"type": "host-local"}})]),
        {},
        {},
        "advice",
    ),
    "nad_resource_mismatch": (
        replaced(networks=[nad(resource="nvidia.com/sriov_resource")]),
        {},
        {},
        "failed",
    ),
    "nad_without_resource": (
        replaced(networks=[nad(config={"type": "sriov", "ipam": {"type": "whereabouts"}})]),
        {},
        {},
        "advice",
    ),
    "ipam_pool_missing": (replaced(ip_pools=[]), {}, {}, "failed"),
    "ipam_node_without_block": (
        replaced(
            ip_pools=[
                {"metadata": {"name": "rdma-pool"}, "status": {"allocations": [{"nodeName": "w1"}]}}
            ]
        ),
        {},
        {},
        "failed",
    ),
    "sriov_in_progress": (
        replaced(sriov_states=sriov_state(syncStatus="InProgress")),
        {},
        {},
        "failed",
    ),
    "sriov_sync_failed": (
        replaced(sriov_states=sriov_state(syncStatus="Failed", lastSyncError="no SR-IOV")),
        {},
        {},
        "failed",
    ),
    "sriov_vfs_missing": (replaced(sriov_states=sriov_state(interfaces=[])), {}, {}, "failed"),
    "pod_security": (
        replaced(
            namespace=[
                {
                    "metadata": {
                        "name": "default",
                        "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
                    },
                    "status": {"phase": "Active"},
                }
            ]
        ),
        {},
        {},
        "failed",
    ),
    "scc": (
        healthy(),
        {},
        {"reviews": answers({}, scc={"resource": {"status": {"reason": "no SCC"}}})},
        "failed",
    ),
    "scc_unknown": (
        healthy(),
        {},
        {"reviews": answers({}, scc={"failed": True, "msg": "403"})},
        "advice",
    ),
    "pull_secret_missing": (
        replaced(**{"secret:s": []}),
        {"image_pull_secrets": ["s"]},
        {},
        "failed",
    ),
    "pull_secret_type": (
        replaced(**{"secret:s": [{"type": "Opaque"}]}),
        {"image_pull_secrets": ["s"]},
        {},
        "failed",
    ),
    "pull_secret_unknown": (
        replaced(**{"secret:s": "forbidden"}),
        {"image_pull_secrets": ["s"]},
        {},
        "advice",
    ),
    "leftovers": (replaced(own_pods=[pod("rdma-test-1", {})]), {}, {}, "advice"),
    "gpu_operator_absent": (replaced(gpu_policies=[]), {}, {}, "failed"),
    "gpu_operator_not_ready": (
        replaced(gpu_policies=fixture("clusterpolicy/not-ready.json")),
        {"disabled_checks": ["gpu_memory"]},
        {},
        "failed",
    ),
    "gpu_operator_idle": (
        replaced(
            gpu_policies=[
                {
                    **gpu_policy(),
                    "status": {
                        "state": "ready",
                        "conditions": [{"type": "Ready", "status": "True", "reason": "NoGPUNodes"}],
                    },
                }
            ]
        ),
        {},
        {},
        "failed",
    ),
    "gpu_not_enough_nodes": (
        replaced(nodes=[node("w1"), node("w2", resources={GPU: None})]),
        {},
        {},
        "failed",
    ),
    "gpu_allocatable_zero": (
        replaced(nodes=[node("w1"), node("w2"), node("w3", resources={GPU: ("8", "0")})]),
        {"disabled_checks": ["pools"]},
        {},
        "advice",
    ),
    "peermem_absent": (
        replaced(
            gpu_policies=[gpu_policy(rdma={"enabled": True})],
            driver_pods=[driver_pod("w1"), driver_pod("w2", **PEERMEM)],
        ),
        {},
        {},
        "failed",
    ),
    "peermem_not_ready": (
        replaced(
            gpu_policies=[gpu_policy(rdma={"enabled": True})],
            driver_pods=[driver_pod("w1", **PEERMEM), driver_pod("w2", ready=False, **PEERMEM)],
        ),
        {},
        {},
        "failed",
    ),
    "peermem_failed": (
        replaced(
            gpu_policies=[gpu_policy(rdma={"enabled": True})],
            driver_pods=[
                driver_pod("w1", **PEERMEM),
                driver_pod("w2", ready=False, state=waiting("CrashLoopBackOff"), **PEERMEM),
            ],
        ),
        {},
        {},
        "failed",
    ),
    "dmabuf_kernel": (
        replaced(
            nodes=[
                {**n, "status": {**n["status"], "nodeInfo": {"kernelVersion": "5.4.0-150-generic"}}}
                for n in (node("w1"), node("w2"))
            ]
        ),
        {},
        {},
        "advice",
    ),
    "gpu_memory_path_unknown": (
        replaced(gpu_policies=[gpu_policy(kernelModuleType="proprietary")]),
        {},
        {},
        "advice",
    ),
    "mig_enabled": (
        replaced(
            nodes=[
                node("w1"),
                node("w2", labels={"nvidia.com/gpu.product": "NVIDIA-H100-MIG-1g.10gb"}),
            ]
        ),
        {},
        {},
        "advice",
    ),
}
# What must follow from another fault, and so is told along with it.
CONSEQUENCES = {
    "read_failed": {"not_read"},
    "not_read": {"read_failed"},
    "policy_no_nodes": {"nfd_absent"},
    "nfd_absent": {"rdma_allocatable_zero", "not_enough_nodes"},
    "nfd_label_form": {"rdma_resource_absent", "ipam_node_without_block"},
    "wrong_resource_name": {"not_enough_nodes"},
}


def test_healthy_cluster_passes_every_check():
    result = check(healthy())
    assert codes(result) == set()
    assert result["passed"] is True
    assert result["tests"] == {"rdma": True, "gpudirect": True}
    assert {entry["status"] for entry in result["checks"]} == {"passed", "skipped"}
    assert all(entry["seen"] for entry in result["checks"])
    assert result["cluster"] == {
        "version": "v1.34.1",
        "openshift": False,
        "gpu_memory_path": "dmabuf",
    }
    assert result["nodes"] == [
        {"name": name, "fit": True, "reasons": [], "rdma": {RDMA: 63}, "gpu": 8}
        for name in ("w1", "w2")
    ]


@pytest.mark.parametrize("code", CASES)
def test_code(code):
    reads, settings, more, status = CASES[code]
    settings = dict(settings)
    more = {"reviews": answers(settings), **more}
    result = check(reads, settings, **more)
    told = [entry for entry in result["checks"] if entry["code"] == code]
    assert {entry["status"] for entry in told} == {status}, result["checks"]
    others = codes(result, "failed", "advice", "skipped") - {code, None}
    assert others <= CONSEQUENCES.get(code, set()) | _allowed(code), others
    assert result["passed"] is (not codes(result, "failed"))
    entry = told[0]
    assert entry["seen"]
    if status != "skipped":
        assert entry["cause"] and entry["remedy"]
    words = readiness.report(context(reads, settings, **more))
    if status == "failed":
        assert f"[{code}]" in words["message"] and entry["remedy"] in words["message"]
        assert any(entry["seen"] in line for line in words["missing"])
        failed = [e for e in result["checks"] if e["status"] == "failed"]
        with_reads = any(
            ROWS[e["id"]]["reads"] or ROWS[e["id"]]["also"] for e in failed if e["id"] in ROWS
        )
        assert bool(words["pending"]) is (with_reads and all(e["retry"] for e in failed))
    if status == "advice":
        assert any(f"[{code}]" in line for line in words["advice"])


def _allowed(code: str) -> set[str]:
    """What the small broken clusters of CASES bring along: three nodes share two blocks, one node has no peer."""
    if code.startswith(("node_", "nfd_label_form")) or code == "gpu_allocatable_zero":
        return {"ipam_node_without_block"}
    return set()


def test_every_code_has_a_case():
    rows = readiness.load_yaml(CODES.open(encoding="utf-8"))
    assert {item["code"] for item in rows} <= set(CASES) <= set(catalogue())
    assert {item["layer"] for item in rows} <= set(LAYERS)
    source = "".join(
        path.read_text(encoding="utf-8") for path in CODES.parent.glob("readiness*.py")
    )
    named = set(re.findall(r'"([a-z0-9_]+)"', source)) & set(catalogue())
    # "unknown" is a code of the catalogue, and here a way to GPU memory
    assert named - {"unknown"} <= set(CASES)


def test_table_names_judges_that_exist_and_reads_that_are_made():
    for item in readiness.builtin_rows():
        assert ("judge" in item) != ("expression" in item)
        assert item.get("judge", "api") in readiness.JUDGES
        assert item["severity"] in ("required", "advice")
        assert item["tests"] in (["rdma", "gpudirect"], ["gpudirect"])
    assert {item["judge"] for item in readiness.builtin_rows() if "judge" in item} == set(
        readiness.JUDGES
    )


def test_all_failing_checks_are_told_not_the_first_only():
    reads = replaced(policies=[], networks=[], nodes=[node("w1")])
    words = readiness.report(context(reads))["message"]
    for code in ("policy_absent", "nad_missing", "not_enough_nodes"):
        assert f"[{code}]" in words


def test_without_gpudirect_gpus_do_not_matter():
    reads = replaced(gpu_policies=[], nodes=[node(n, resources={GPU: None}) for n in ("w1", "w2")])
    assert check(reads)["tests"] == {"rdma": True, "gpudirect": False}
    result = check(reads, {"tests": ["rdma"]})
    assert result["passed"] and result["tests"] == {"rdma": True}
    assert not entries(result, "gpu_operator", "gpu_nodes", "gpu_memory", "mig")


def test_a_read_that_is_forbidden_is_told_once_and_never_passes():
    result = check(replaced(policies="forbidden"), {})
    assert codes(result, "failed") == {"forbidden"}
    assert "list nicclusterpolicies.mellanox.com" in entries(result, "permissions")[0]["seen"]
    assert entries(result, "policy")[0]["code"] == "not_read"
    assert not result["passed"]
    assert (
        "Not judged, because not read: policy"
        in readiness.report(context(replaced(policies="forbidden")))["message"]
    )


def test_one_finding_lists_all_missing_permissions():
    result = check(healthy(), reviews=answers({}, ("pods", "nodes")))
    found = entries(result, "permissions")
    assert len(found) == 1
    assert "list nodes in the whole cluster" in found[0]["seen"]
    assert "create pods/exec in namespace default" in found[0]["seen"]
    assert "docs/rbac.yml" in found[0]["remedy"]


def test_permissions_that_only_advice_needs_do_not_block():
    result = check(healthy(), reviews=answers({}, ("events",)))
    assert result["passed"]
    assert codes(result, "advice") == {"forbidden"}


def test_a_pool_that_may_not_be_read_blocks_and_says_what_is_missing():
    result = check(replaced(ip_pools="forbidden"))
    assert codes(result, "failed") == {"forbidden"}
    assert "list ippools.nv-ipam.nvidia.com" in entries(result, "permissions")[0]["seen"]
    result = check(replaced(nic_devices="forbidden"))
    assert (result["passed"], codes(result, "advice")) == (True, {"forbidden"})


def test_named_nodes_must_each_be_usable():
    nodes = [node("w1"), node("w2"), node("w3", spec={"unschedulable": True})]
    result = check(replaced(nodes=nodes), {"nodes": ["w1", "w2", "w3"]})
    assert codes(result, "failed") == {"node_cordoned"}
    assert entries(result, "usable")[0]["where"]["nodes"] == ["w3"]


def test_nodes_without_any_sign_of_rdma_are_not_meant():
    plain = node("cp", labels={NFD_LABEL: None}, resources={RDMA: None, GPU: None})
    result = check(replaced(nodes=[*healthy()["nodes"], plain]))
    assert result["passed"]
    assert [item["name"] for item in result["nodes"]] == ["w1", "w2"]


def test_gpu_node_without_any_sign_of_rdma_is_worth_a_look():
    bare = node("w3", labels={NFD_LABEL: None}, resources={RDMA: None})
    result = check(replaced(nodes=[*healthy()["nodes"], bare]))
    assert result["passed"]
    advice = [entry for entry in result["checks"] if entry["status"] == "advice"]
    assert [(e["code"], e["where"]["nodes"]) for e in advice] == [("nfd_label_missing", ["w3"])]


def test_nearest_resource_name_is_suggested():
    result = check(healthy(), {"rdma_resources": ["rdma/shared_device_a"]})
    assert f"nearest: {RDMA}" in entries(result, "rdma")[0]["seen"]


def test_unknown_components_never_fail():
    states = [{"name": "state-of-the-future", "state": "notReady"}]
    assert check(replaced(policies=[policy(status={"appliedStates": states})]))["passed"]


def test_operands_on_a_lost_node_are_that_nodes_trouble():
    lost = pod("rdma-shared-dp-ds-3", {"app": "rdma-shared-dp"}, node="w3", ready=False)
    nodes = [*healthy()["nodes"], node("w3", ready="Unknown")]
    result = check(replaced(nodes=nodes, pods=[*healthy()["pods"], lost]))
    assert codes(result) == {"node_not_ready"}


def test_trouble_of_one_operand_on_many_nodes_is_one_finding():
    nodes = [node(f"w{n}") for n in range(20)]
    pods = [pod("o", OPERATOR, node="w0")]
    pods += [pod(f"m{n}", {"app": "multus"}, node=f"w{n}", ready=False) for n in range(20)]
    found = entries(check(replaced(nodes=nodes, pods=pods)), "operands")
    assert len(found) == 1
    assert len(found[0]["where"]["nodes"]) == 20
    assert "20 pods" in found[0]["seen"]


def test_pods_of_others_in_the_operators_namespace_are_told_only():
    other = pod("x", {"app": "someone-else"}, ready=False)
    result = check(replaced(pods=[*healthy()["pods"], other]))
    assert result["passed"]
    assert codes(result, "advice") == {"operand_not_ready"}


def test_network_of_another_namespace_can_be_named():
    result = check(
        replaced(networks=[nad(namespace="apps")]), {"networks": ["apps/rdma-net-ipam@r0"]}
    )
    assert result["passed"]


def test_pool_of_the_other_kind():
    ipam = {"type": "nv-ipam", "poolName": "p", "poolType": "cidrpool"}
    reads = replaced(networks=[nad(config={"plugins": [{"type": "macvlan", "ipam": ipam}]})])
    del reads["ip_pools"]
    reads["cidr_pools"] = [
        {
            "kind": "CIDRPool",
            "metadata": {"name": "p"},
            "status": {"allocations": [{"nodeName": "w1"}, {"nodeName": "w2"}]},
        }
    ]
    assert check(reads)["passed"]


@pytest.mark.parametrize("config", ["[]", '{"plugins": 3}', '{"plugins": ["a"]}', "nonsense"])
def test_configuration_that_is_no_object(config):
    assert codes(check(replaced(networks=[nad(config=config)]))) == {"nad_broken_json"}


def test_openshift_that_allows():
    scc = {
        "resource": {"status": {"allowedBy": {"kind": "SecurityContextConstraints", "name": "x"}}}
    }
    result = check(healthy(), reviews=answers({}, scc=scc))
    assert entries(result, "scc")[0]["seen"] == "allowed by x"


def test_adapters_are_told_where_nfd_knows_the_device():
    label = "feature.node.kubernetes.io/pci-0200_15b3_1021.present"
    reads = replaced(nodes=[node("w1", labels={label: "true"}), node("w2", labels={label: "true"})])
    assert entries(check(reads), "adapters")[0]["seen"] == "ConnectX-7"


def test_extra_check_passes_fails_and_can_be_advice():
    reads = replaced(**{ROW_ID: [{"data": {"ready": "yes"}}]})
    assert check(reads, {"extra_checks": [row()]})["passed"]
    reads[ROW_ID] = [{"data": {"ready": "no"}}]
    result = check(reads, {"extra_checks": [row(remedy="ask the site", cause="winter")]})
    failed = entries(result, "site")[0]
    assert (failed["code"], failed["remedy"], failed["cause"]) == ("site", "ask the site", "winter")
    assert failed["seen"] == "data.ready == 'yes' is false"
    assert not result["passed"]
    assert check(reads, {"extra_checks": [row(severity="advice")]})["passed"]
    reads[ROW_ID] = []
    result = check(reads, {"extra_checks": [row()]})
    assert entries(result, "site")[0]["seen"] == "there is no such object"


def test_extra_check_over_a_list_with_an_expected_value():
    resource = {"kind": "ConfigMap"}
    read_id = 'extra:[null, "ConfigMap", null, null, null]'
    extra = row(resource=resource, expression="length(@)", expected=2)
    reads = replaced(**{read_id: [{}, {}]})
    assert check(reads, {"extra_checks": [extra]})["passed"]
    # 1 is not true
    extra["expected"] = True
    reads[read_id] = [{}]
    assert not check(reads, {"extra_checks": [extra]})["passed"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "policy"}, "the id is taken"),
        ({"id": ""}, "id is missing"),
        ({"expression": "a ["}, "row 1"),
        ({"expression": None}, "expression is missing"),
        ({"resource": "nodes"}, "resource must be a mapping"),
        ({"resource": {"name": "x"}}, "resource must be a mapping with a kind"),
        ({"resource": {"kind": "X", "selector": "a=b"}}, "unknown keys of resource: selector"),
        ({"severity": "fatal"}, "severity must be"),
        ({"tests": ["nccl"]}, "tests must be"),
        ({"expcted": 1}, "unknown keys expcted"),
    ],
)
def test_extra_check_that_cannot_be_understood(change, words):
    with pytest.raises(ValueError, match="readiness_extra_checks") as error:
        check(healthy(), {"extra_checks": [row(**change)]})
    assert words in str(error.value)


def test_checks_can_be_switched_off():
    reads = replaced(policies=[])
    assert not check(reads)["passed"]
    assert check(reads, {"disabled_checks": ["policy"]})["passed"]
    with pytest.raises(ValueError, match="no such check: polcy"):
        check(reads, {"disabled_checks": ["polcy"]})


def test_waiting_helps_only_when_all_that_failed_may_pass():
    pending = replaced(policies=fixture("nicclusterpolicy/not-ready-ofed.json"))
    assert readiness.report(context(pending))["pending"] == ["nodes", "policies"]
    hopeless = {**pending, "networks": []}
    assert readiness.report(context(hopeless))["pending"] == []
    assert readiness.report(context(healthy()))["pending"] == []


def test_unreachable_is_the_only_thing_told():
    result = check({}, cluster=FAILED_READ)
    assert [entry["id"] for entry in result["checks"]] == ["api"]
    assert result["nodes"] == []


def test_traceback_of_a_client_is_cut_to_its_last_line():
    words = "Traceback (most recent call last):\n  File x\nMaxRetryError: no route"
    seen = check({}, cluster={"exception": words})["checks"][0]["seen"]
    assert seen == "MaxRetryError: no route"


def test_openshift_is_seen():
    scc = {"resource": {"status": {}}}
    assert check(healthy(), reviews=answers({}, scc=scc))["cluster"]["openshift"] is True
    assert check(healthy())["cluster"]["openshift"] is False


def test_a_right_to_a_kind_that_is_not_there_is_not_missed():
    refused = ("nicclusterpolicies", "pods")
    found = check(replaced(policies="no_kind"), reviews=answers({}, refused))
    seen = entries(found, "permissions")[0]["seen"]
    assert "create pods" in seen and "nicclusterpolicies" not in seen


def test_a_pool_that_no_network_needs_may_be_unreadable():
    found = check(replaced(cidr_pools="forbidden"))
    assert found["passed"] and codes(found) == set()


def test_a_review_that_was_refused_tells_the_words():
    refused = [{**answer, "msg": "403 no"} for answer in answers({})]
    for answer in refused:
        answer.pop("resource", None)
    found = entries(check(healthy(), reviews=refused), "permissions")[0]
    assert (found["code"], found["status"]) == ("access_review_failed", "advice")
    assert found["seen"] == "403 no"


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([], ""),
        (["a"], "a"),
        ([1, 2, 3], "1, 2, 3"),
        (range(4), "0, 1, 2, 3"),
        (range(5), "0, 1, 2 and 2 more"),
    ],
)
def test_names(items, words):
    assert names(items, 3) == words


def test_settings_as_the_command_line_gives_them():
    settings = make_settings({"networks": "a, b", "minimum_nodes": "3", "nodes": None})
    assert (settings.networks, settings.minimum_nodes, settings.nodes) == (("a", "b"), 3, ())


@pytest.mark.parametrize(
    ("value", "nodes", "minimum"),
    [
        ("all", (), 2),
        (4, (), 4),
        ("4", (), 4),
        (1, (), 2),
        ([], (), 2),
        (["w1", "w2"], ("w1", "w2"), 2),
        ("w1,w2", ("w1", "w2"), 2),
    ],
)
def test_nodes_as_the_tests_take_them(value, nodes, minimum):
    settings = make_settings({"nodes": value})
    assert (settings.nodes, settings.minimum_nodes) == (nodes, minimum)


@pytest.mark.parametrize(
    "values",
    [
        {"namespace": ""},
        {"namespace": 3},
        {"networks": {"a": 1}},
        {"networks": [""]},
        {"networks": 3},
        {"minimum_nodes": 0},
        {"minimum_nodes": True},
        {"minimum_nodes": "two"},
        {"tests": []},
        {"tests": ["nccl"]},
        {"tolerations": "x"},
        {"tolerations": ["x"]},
        {"colour": "red"},
    ],
)
def test_settings_that_cannot_be_understood(values):
    with pytest.raises(ValueError, match=next(iter(values))):
        make_settings(values)
