"""What is done to a cluster, by what is there already."""

from __future__ import annotations

from typing import Any

from ansible_collections.k8si.fabric.plugins.plugin_utils import deploy_plan
from ansible_collections.k8si.fabric.plugins.plugin_utils.deploy_objects import (
    KINDS,
    LABELS,
    render,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.deploy_settings import make_settings

from . import deploy_data as data

NODE = {
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"feature.node.kubernetes.io/pci-15b3.present": "true"}},
    "spec": {"podCIDR": "10.244.1.0/24"},
    "status": {"addresses": [{"type": "InternalIP", "address": "10.10.0.1"}]},
}
NAMESPACE = {"kind": "Namespace", "metadata": {"name": "default"}}


def reads(*items: dict[str, Any], unknown: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The cluster as a loop of k8s_info gives it."""
    kinds = [kind.kind for kind in KINDS] + ["Node", "Namespace", "CIDRPool"]
    present = [NODE, NAMESPACE, *items]
    return [
        {
            "item": {"kind": kind},
            "api_found": kind not in unknown,
            "resources": [i for i in present if i["kind"] == kind],
        }
        for kind in kinds
    ]


def plan(
    name: str, *items: Any, unknown: tuple[str, ...] = (), check: bool = False, **more: Any
) -> Any:
    settings = make_settings(data.variables(**{**data.DEPLOYMENTS[name], **more}))
    return deploy_plan.plan(settings, reads(*items, unknown=unknown), check)


def item(
    kind: str, name: str, namespace: str = "", ours: bool = False, **spec: Any
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "uid": "u",
        "labels": dict(LABELS) if ours else {"a": "b"},
    }
    if namespace:
        metadata["namespace"] = namespace
    version = next((k.api_version for k in KINDS if k.kind == kind), "v1")
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def test_an_empty_cluster_gets_everything() -> None:
    found = plan("macvlan")
    assert [(o["definition"]["kind"], o["action"]) for o in found["objects"]] == [
        ("NicClusterPolicy", "create"),
        ("IPPool", "create"),
        ("MacvlanNetwork", "create"),
    ]
    assert found["problems"] == [] and found["stale"] == [] and found["nodes"] == 1


def test_what_was_made_is_updated_and_what_is_not_wanted_any_more_goes() -> None:
    before = render(make_settings(data.variables(**data.DEPLOYMENTS["macvlan"])))
    found = plan("ipoib", *before)
    assert [
        o["action"] for o in found["objects"] if o["definition"]["kind"] == "NicClusterPolicy"
    ] == ["update"]
    assert found["stale"] == [
        {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": "MacvlanNetwork",
            "metadata": {"name": "rdma-net-ipam"},
        },
        {
            "apiVersion": "nv-ipam.nvidia.com/v1alpha1",
            "kind": "IPPool",
            "metadata": {"name": "rdma-net-ipam-pool", "namespace": "nvidia-network-operator"},
        },
    ]
    assert found["problems"] == []


def test_a_policy_of_somebody_else_is_left_with_a_clear_message() -> None:
    foreign = item("NicClusterPolicy", "nic-cluster-policy", ofedDriver={}, nvIpam={})
    found = plan("macvlan", foreign)
    assert found["problems"] == [
        "NicClusterPolicy nic-cluster-policy exists and was not made by this role, so it is left as it is (it holds nvIpam,"
        " ofedDriver). To let the role set nvIpam, rdmaSharedDevicePlugin, secondaryNetwork in it and leave the rest alone, set"
        " deploy_adopt: true; --check --diff shows what would change"
    ]


def test_an_adopted_policy_gets_sections_and_no_labels() -> None:
    found = plan(
        "macvlan", item("NicClusterPolicy", "nic-cluster-policy", ofedDriver={}), adopt=True
    )
    policy = found["objects"][0]
    assert policy["action"] == "adopt" and found["problems"] == []
    assert "labels" not in policy["definition"]["metadata"]
    assert sorted(policy["definition"]["spec"]) == [
        "nvIpam",
        "rdmaSharedDevicePlugin",
        "secondaryNetwork",
    ]


def test_stale_objects_of_somebody_else_stay() -> None:
    assert plan("macvlan", item("IPoIBNetwork", "theirs"))["stale"] == []


def test_missing_operators_are_told_by_what_brings_them() -> None:
    missing = ("NicClusterPolicy", "MacvlanNetwork", "IPPool")
    assert plan("macvlan", unknown=missing)["problems"] == [
        "the API server does not know NicClusterPolicy, MacvlanNetwork: NVIDIA Network Operator is not installed; install it, or"
        " set deploy_install_operator: true"
    ]
    (problem,) = plan("sriov", unknown=("SriovNetwork", "SriovNetworkNodePolicy"))["problems"]
    assert "SR-IOV Network Operator" in problem
    # nv-ipam's kinds come with the policy
    found = plan("macvlan", unknown=("IPPool",))
    assert found["problems"] == []
    assert [o["known"] for o in found["objects"]] == [True, False, True]


def test_in_check_mode_an_operator_that_would_be_installed_is_no_problem() -> None:
    missing = ("NicClusterPolicy", "MacvlanNetwork")
    assert plan("macvlan", unknown=missing, check=True, install_operator=True)["problems"] == []
    assert plan("macvlan", unknown=missing, install_operator=True)["problems"]


def test_addresses_that_others_use() -> None:
    theirs = item("IPPool", "theirs", "other", subnet="192.168.0.0/16")
    (problem,) = plan("macvlan", theirs)["problems"]
    assert problem.startswith(
        "deploy_rails[0].subnet='192.168.4.0/24': it overlaps 192.168.0.0/16, IPPool other/theirs"
    )
    (problem,) = plan("macvlan", item("CIDRPool", "c", "other", cidr="192.168.4.0/28"))["problems"]
    assert "CIDRPool other/c" in problem
    rails = [{"interfaces": "ens1", "subnet": "10.244.0.0/16"}]
    (problem,) = plan("macvlan", rails=rails)["problems"]
    assert "the pod network of node n1" in problem
    rails = [{"interfaces": "ens1", "subnet": "10.10.0.0/24"}]
    (problem,) = plan("macvlan", rails=rails)["problems"]
    assert "the address of node n1" in problem
    # one's own pool, of this name or of another that goes, is none
    assert (
        plan("macvlan", item("IPPool", "old", "x", ours=True, subnet="192.168.4.0/24"))["problems"]
        == []
    )


def test_a_pool_must_hold_all_nodes_that_there_are() -> None:
    nodes = [
        {**NODE, "metadata": {**NODE["metadata"], "name": f"m{i}"}, "spec": {}, "status": {}}
        for i in range(16)
    ]
    (problem,) = plan("macvlan", *nodes)["problems"]
    assert (
        "it holds 15 blocks of 16 addresses, 17 are needed, one a node (17 nodes match deploy_node_selector)"
        in problem
    )


def test_a_namespace_that_is_not_there() -> None:
    (problem,) = plan("macvlan", namespace="fabric")["problems"]
    assert problem.startswith("fabric_namespace='fabric': there is no such namespace")


def test_removal_takes_only_what_is_labelled_networks_first() -> None:
    mine = [
        item("NicClusterPolicy", "nic-cluster-policy", ours=True),
        item("MacvlanNetwork", "a", ours=True),
    ]
    found = deploy_plan.ours(
        reads(*mine, item("MacvlanNetwork", "theirs"), item("IPPool", "p", "n", ours=True))
    )
    assert [(o["kind"], o["metadata"]) for o in found] == [
        ("MacvlanNetwork", {"name": "a"}),
        ("IPPool", {"name": "p", "namespace": "n"}),
        ("NicClusterPolicy", {"name": "nic-cluster-policy"}),
    ]


def test_half_a_label_is_not_ours() -> None:
    half = item("MacvlanNetwork", "a")
    half["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "k8si.fabric"}
    assert deploy_plan.ours(reads(half)) == []


def test_reads_are_narrow_for_removal() -> None:
    settings = make_settings(data.variables(state="absent", sriov_namespace="sriov"))
    kinds = {read["kind"]: read["namespace"] for read in deploy_plan.reads(settings)}
    assert "Node" not in kinds and kinds["SriovNetwork"] == "sriov" and kinds["IPPool"] == ""


def test_fields_that_the_api_server_dropped() -> None:
    sent = {"spec": {"a": 1, "b": {"c": 1, "d": 2}}}
    assert deploy_plan.dropped(sent, {"spec": {"a": 1, "b": {"c": 5}, "e": 1}}) == ["spec.b.d"]
    assert deploy_plan.dropped(sent, {}) == ["spec.a", "spec.b"]
