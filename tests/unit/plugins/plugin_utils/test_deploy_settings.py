"""Bad input of role deploy is a sentence that names variable, value and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.deploy_addresses import check_sizes
from ansible_collections.k8si.fabric.plugins.plugin_utils.deploy_settings import (
    make_settings,
    merge,
    variables_for_tests,
)
from hypothesis import given
from hypothesis import strategies as st

from . import deploy_data as data


def rail(**changes: Any) -> dict[str, Any]:
    return {**data.MACVLAN_RAIL, **changes}


def two(first: dict[str, Any], second: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Two macvlan rails with names."""
    return {
        "networks": ["a", "b"],
        "rdma_resources": ["rdma/a", "rdma/b"],
        "rails": [
            {"interfaces": "ens1", "subnet": "10.0.0.0/24", **first},
            {"interfaces": "ens2", "subnet": "10.1.0.0/24", **second},
        ],
        **more,
    }


HOSTDEV = {"network_type": "host_device", "rdma_resources": ["nvidia.com/hostdev"]}
SRIOV = {"network_type": "sriov", "rdma_resources": ["nvidia.com/vf"]}
IB_SHARED = {"network_type": "ib_shared", "networks": []}
SUBNET = {"subnet": "10.0.0.0/24"}

BAD: list[tuple[dict[str, Any], str]] = [
    # types and plain values
    (
        {"network_type": "macvlna"},
        "deploy_network_type='macvlna': it must be one of macvlan, .*did you mean macvlan",
    ),
    ({"network_type": None}, "deploy_network_type=None: it must be one of"),
    ({"state": "gone"}, "deploy_state='gone': it must be one of present, absent"),
    ({"ipam": "dhcp"}, "deploy_ipam='dhcp': it must be one of nv-ipam, whereabouts"),
    ({"link_layer": "token"}, "deploy_link_layer='token': it must be one of ethernet, infiniband"),
    ({"namespace": "Default"}, "deploy_namespace='Default': it must be a name of lower-case"),
    (
        {"operator_namespace": ""},
        "deploy_operator_namespace='': it must be a text that is not empty",
    ),
    ({"adopt": "maybe"}, "deploy_adopt='maybe': it must be true or false"),
    ({"rdma_hca_max": 0}, "deploy_rdma_hca_max=0: it must be from 1 to"),
    ({"rdma_hca_max": "many"}, "deploy_rdma_hca_max='many': it must be a whole number"),
    ({"timeout": -1}, "deploy_timeout=-1: it must be from 0"),
    ({"minimum_nodes": True}, "deploy_minimum_nodes=True: it must be a whole number"),
    ({"node_selector": "gpu"}, "deploy_node_selector='gpu': it must be a dictionary"),
    ({"node_selector": {"gpu": True}}, "'gpu': True must be a label and its value, both texts"),
    ({"node_selector": {"a b": "x"}}, "'a b': 'x' must be a label"),
    ({"image_pull_secrets": [1]}, r"deploy_image_pull_secrets=\[1\]: it must be a list of texts"),
    (
        {"nic_cluster_policy_overrides": []},
        "deploy_nic_cluster_policy_overrides=.*it must be a dictionary",
    ),
    (
        {"nic_cluster_policy_overrides": {"spec": {}}},
        "merged into the policy's spec, so spec has no place there",
    ),
    (
        {"versions": {"multsu": "1"}},
        r"deploy_versions: 'multsu' is no component \(did you mean multus\?\)",
    ),
    ({"versions": {"multus": 4.2}}, "deploy_versions.multus.version=4.2: it must be a text"),
    (
        {"versions": {"multus": {"tag": "1"}}},
        "deploy_versions.multus: 'tag' is not one of image, repository, version",
    ),
    ({"versions": "26.4.1"}, "deploy_versions='26.4.1': it must map components"),
    (
        {"install_operator": True, "operator_chart": ""},
        "deploy_operator_chart='': it must be a text",
    ),
    (
        {"install_operator": True, "operator_values": "x"},
        "deploy_operator_values='x': it must be a dictionary",
    ),
    # rails
    ({"rails": "ens1"}, "deploy_rails='ens1': it must be a list with a dictionary for each rail"),
    ({"rails": []}, r"deploy_rails\[0\].subnet=None: nv-ipam needs the subnet of the rail"),
    (
        {"rails": [rail(interface="x")]},
        r"deploy_rails\[0\].interface: there is no such key \(did you mean interfaces\?\)",
    ),
    (
        {"rails": [SUBNET]},
        r"deploy_rails\[0\].interfaces=None: macvlan needs exactly one interface",
    ),
    ({"rails": [rail(interfaces=["a", "b"])]}, "macvlan needs exactly one interface"),
    (
        {"rails": [rail(interfaces="a-name-that-is-too-long")]},
        "must be the name of an interface, at most 15",
    ),
    (
        {"rails": [rail(interfaces=7)]},
        r"deploy_rails\[0\].interfaces=7: it must be a list of texts",
    ),
    ({"rails": [rail(pci_addresses="0000:1a:00.0")]}, "macvlan uses, cannot select by PCI address"),
    ({"rails": [rail(vendors="mlx")]}, "'mlx' must be four lower-case hexadecimal digits"),
    (
        {"rails": [rail(num_vfs=8)]},
        r"deploy_rails\[0\].num_vfs=8: macvlan makes no virtual functions",
    ),
    ({"rails": [rail(meta_plugins=["sbr"])]}, "it must be a list of CNI plugins"),
    (
        {**HOSTDEV, "rails": [{**SUBNET, "pci_addresses": "1a:00.0"}]},
        "'1a:00.0' must be a PCI address like",
    ),
    ({**SRIOV, "rails": [{**SUBNET, "num_vfs": 0}]}, "num_vfs=0: it must be from 1 to 256"),
    (
        {**SRIOV, "rails": [{**SUBNET, "device_ids": ["1021", "1023"]}]},
        "a SriovNetworkNodePolicy selects by one",
    ),
    # macvlan and InfiniBand
    (
        {"link_layer": "infiniband"},
        "a macvlan cannot be made on an InfiniBand interface; with infiniband use .*ipoib",
    ),
    (
        {"rails": [rail(interfaces="ibs1f0")]},
        "ibs1f0 is an InfiniBand interface by its name: a macvlan cannot be made on InfiniBand",
    ),
    (
        {"network_type": "ipoib", "rails": [rail()]},
        "ens1f0np0 is an Ethernet interface by its name: ipoib needs InfiniBand",
    ),
    (
        {"network_type": "ipoib", "link_layer": "ethernet"},
        "ipoib is for infiniband only; with ethernet use .*macvlan",
    ),
    ({**SRIOV, "rails": [{**SUBNET, "interfaces": "ibs1"}]}, "set deploy_link_layer: infiniband"),
    (
        {**SRIOV, "link_layer": "infiniband", "rails": [{**SUBNET, "interfaces": "ens1"}]},
        "set deploy_link_layer: ethernet",
    ),
    (
        {"rdma_mode": "exclusive"},
        "deploy_rdma_mode='exclusive': the SR-IOV operator sets it, and macvlan does not use that",
    ),
    (
        {**SRIOV, "rails": [SUBNET], "rdma_mode": "own"},
        "deploy_rdma_mode='own': it must be one of shared, exclusive",
    ),
    # MTU
    ({"rails": [rail(mtu=500)]}, r"deploy_rails\[0\].mtu=500: it must be from 1280 to 9216"),
    ({"rails": [rail(mtu=65520)]}, "mtu=65520: it must be from 1280 to 9216"),
    (
        {**HOSTDEV, "rails": [{**SUBNET, "mtu": 9000}]},
        "the network object of host_device has no MTU",
    ),
    (
        {"network_type": "ipoib", "rails": [rail(interfaces="ib0", mtu=4092)]},
        "the network object of ipoib has no MTU",
    ),
    # names
    (
        {"networks": ["Net"]},
        r"fabric_networks\[0\]='Net': it must be name, namespace/name or name@interface",
    ),
    (two({}, {}, networks=["a", "a"]), r"deploy_networks=\['a', 'a'\]: 'a' is there twice"),
    (two({}, {}, networks=["a", "other/a"]), r"fabric_networks\[1\]='a': rail 0 has the same name"),
    (two({}, {}, networks=["a"]), r"fabric_networks has 1 entries \(a\), deploy_rails has 2 rails"),
    (two({}, {}, networks=None), "fabric_networks is not set, and there are 2 rails"),
    (
        two({"network": "x"}, {}),
        r"deploy_rails\[0\].network='x': fabric_networks names 'a' for this rail",
    ),
    ({"networks": []}, r"fabric_networks=\[\]: macvlan makes a network for each rail"),
    (
        {**IB_SHARED, "networks": None},
        r"fabric_networks=None: ib_shared makes no secondary network; set fabric_networks: \[\]",
    ),
    ({**IB_SHARED, "networks": ["a"]}, "ib_shared makes no secondary network"),
    (
        {**IB_SHARED, "rails": [SUBNET]},
        r"deploy_rails\[0\].subnet='10.0.0.0/24': ib_shared makes no secondary network",
    ),
    # resources
    (
        {"rdma_resources": ["rdma_shared_device_a"]},
        r"fabric_rdma_resources\[0\]='rdma_shared_device_a': it must be prefix/name",
    ),
    ({"rdma_resources": ["rdma/shared-a"]}, "of letters, digits and underscores"),
    ({"rdma_resources": ["RDMA/a"]}, "the prefix a DNS name"),
    (
        {"network_type": "host_device", "rails": [SUBNET]},
        r"fabric_rdma_resources is not set, .*\[nvidia.com/hostdev\]",
    ),
    (
        {**HOSTDEV, "rdma_resources": ["rdma/hostdev"], "rails": [SUBNET]},
        "the prefix nvidia.com; use nvidia.com/hostdev",
    ),
    (
        {
            **HOSTDEV,
            "networks": ["a", "b"],
            "rails": [
                {**SUBNET, "interfaces": "e1"},
                {"subnet": "10.1.0.0/24", "interfaces": "e2"},
            ],
        },
        "rail 0 has the same resource; each rail needs its own",
    ),
    # which adapter
    (
        two({}, {"interfaces": "ens1"}),
        r"deploy_rails\[1\].interfaces=\['ens1'\]: rail 0 has ens1 too",
    ),
    (
        {
            **SRIOV,
            "networks": ["a", "b"],
            "rdma_resources": ["nvidia.com/a", "nvidia.com/b"],
            "rails": [SUBNET, {"subnet": "10.1.0.0/24", "interfaces": "ens2"}],
        },
        r"deploy_rails\[0\] selects every adapter of vendor 15b3, and there are 2 rails",
    ),
    (
        {
            **IB_SHARED,
            "rdma_resources": ["rdma/ib"],
            "rails": [{"interfaces": "ib0"}, {"device_ids": "1021"}],
        },
        "select the same way, or name two resources",
    ),
    # addresses
    ({"rails": [rail(subnet="192.168.4.0")]}, "'192.168.4.0' must be a network with its prefix"),
    ({"rails": [rail(subnet="192.168.4.7/24")]}, "did you mean 192.168.4.0/24"),
    ({"rails": [rail(subnet="192.168.4/24/1")]}, "must be a network with its prefix"),
    (
        {"rails": [rail(gateway="192.168.5.1")]},
        r"gateway='192.168.5.1': 192.168.5.1 is not in the subnet 192.168.4.0/24",
    ),
    ({"rails": [rail(gateway="192.168.4.0")]}, "is the address of the subnet itself"),
    ({"rails": [rail(gateway="router")]}, "'router' must be an address"),
    ({"rails": [rail(routes="10.0.0.0/8")]}, r"routes need deploy_rails\[0\].gateway"),
    ({"rails": [rail(exclude="192.168.4.9-192.168.4.2")]}, "the last is before the first"),
    ({"rails": [rail(exclude="10.0.0.1")]}, "10.0.0.1 is not in the subnet"),
    ({"rails": [rail(exclude="a few")]}, "'a few' must be an address, first-last, or a network"),
    ({"rails": [rail(range_start="192.168.4.9")]}, "nv-ipam does not use it; it uses pool, subnet"),
    ({"rails": [rail(block_size=0)]}, "block_size=0: it must be from 1"),
    ({"rails": [rail(pool="My Pool")]}, "pool='My Pool': it must be a name"),
    (
        {
            "ipam": "whereabouts",
            "rails": [rail(range_start="192.168.4.9", range_end="192.168.4.2")],
        },
        r"range_end='192.168.4.2': it is before deploy_rails\[0\].range_start \(192.168.4.9\)",
    ),
    ({"ipam": "whereabouts", "rails": [rail(pool="p")]}, "pool='p': whereabouts does not use it"),
    ({"ipam": "static", "rails": [{"interfaces": "ens1"}]}, "static needs addresses with prefix"),
    (
        {"ipam": "static", "rails": [{"interfaces": "ens1", "addresses": "10.0.0.2"}]},
        "'10.0.0.2' must be an address with its prefix",
    ),
    (
        two({}, {"subnet": "10.0.0.128/25"}),
        r"deploy_rails\[1\].subnet='10.0.0.128/25': it overlaps 10.0.0.0/24 of rail 0",
    ),
    (
        two({"pool": "p"}, {"pool": "p"}),
        r"deploy_rails\[1\].subnet='10.1.0.0/24': rail 0 has the same pool p with '10.0.0.0/24'",
    ),
    # too small
    (
        {"rails": [rail(subnet="192.168.4.0/28")]},
        "too small: it holds 0 blocks of 16 addresses, 2 are needed, one a node",
    ),
    ({"rails": [rail(subnet="192.168.4.0/27")]}, "too small: it holds 1 blocks of 16"),
    (
        {"minimum_nodes": 16},
        r"it holds 15 blocks of 16 addresses, 16 are needed.*deploy_minimum_nodes=16",
    ),
    (
        {"rails": [rail(block_size=1, gateway="192.168.4.1")]},
        r"block_size=1: a node needs 2 addresses .*\(1 rails and the gateway\)",
    ),
    (
        two(
            {"pool": "p", "subnet": "10.0.0.0/24", "block_size": 1},
            {"pool": "p", "subnet": "10.0.0.0/24", "block_size": 1},
        ),
        "block_size=1: a node needs 2 addresses of pool p",
    ),
    (
        {"ipam": "whereabouts", "rails": [rail(subnet="10.0.0.0/30", gateway="10.0.0.1")]},
        "too small: 1 addresses are free for pods, 2 are needed",
    ),
    (
        {"ipam": "whereabouts", "rails": [rail(exclude="192.168.4.2-192.168.4.254")]},
        "too small: 1 addresses are free",
    ),
    (
        {
            "ipam": "host-local",
            "rails": [rail(subnet="10.0.0.0/31", gateway="10.0.0.0", range_end="10.0.0.0")],
        },
        "too small: 0 addresses",
    ),
]


@pytest.mark.parametrize(("changes", "words"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_bad_input(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_settings(data.variables(**changes))


@pytest.mark.parametrize("name", data.DEPLOYMENTS)
def test_good_input(name: str) -> None:
    settings = make_settings(data.variables(**data.DEPLOYMENTS[name]))
    assert [r["index"] for r in settings["rails"]] == list(range(len(settings["rails"])))


def test_absent_needs_no_network() -> None:
    settings = make_settings(data.variables(state="absent", network_type="whatever", rails="x"))
    assert settings == {
        "state": "absent",
        "namespace": "default",
        "operator_namespace": "nvidia-network-operator",
        "sriov_namespace": "nvidia-network-operator",
        "timeout_s": 1800,
    }


def test_texts_of_the_command_line_are_taken() -> None:
    settings = make_settings(
        data.variables(
            driver="yes", adopt="false", timeout="60", rails=[rail(mtu="9000", block_size="8")]
        )
    )
    assert settings["driver"] is True and settings["adopt"] is False and settings["timeout_s"] == 60
    assert settings["rails"][0]["mtu"] == 9000 and settings["rails"][0]["pool"]["block_size"] == 8


def test_names_may_come_from_the_rails() -> None:
    rails = [
        {"network": "x", "resource": "rdma/x", "interfaces": "ens1", "subnet": "10.0.0.0/24"},
        {"network": "ns/y", "resource": "rdma/y", "interfaces": "ens2", "subnet": "10.1.0.0/24"},
    ]
    settings = make_settings(data.variables(rails=rails))
    assert [(r["network_namespace"], r["network"]) for r in settings["rails"]] == [
        ("default", "x"),
        ("ns", "y"),
    ]
    assert variables_for_tests(settings) == {
        "fabric_networks": ["x", "ns/y"],
        "fabric_rdma_resources": ["rdma/x", "rdma/y"],
    }


def test_the_defaults_need_nothing_said_to_the_tests() -> None:
    assert variables_for_tests(make_settings(data.variables())) == {}


def test_ib_shared_tells_that_there_is_no_network() -> None:
    settings = make_settings(data.variables(**data.DEPLOYMENTS["ib-shared"]))
    assert variables_for_tests(settings) == {"fabric_networks": []}


def test_sriov_asks_the_chart_for_its_operator() -> None:
    changes = {**data.DEPLOYMENTS["sriov"], "install_operator": True}
    settings = make_settings(data.variables(**changes, operator_values={"nfd": {"enabled": False}}))
    assert settings["operator"]["values"] == {
        "sriovNetworkOperator": {"enabled": True},
        "nfd": {"enabled": False},
    }
    over = {"sriovNetworkOperator": {"enabled": False}}
    settings = make_settings(data.variables(**changes, operator_values=over))
    assert settings["operator"]["values"] == over


@given(prefix=st.integers(16, 30), block=st.integers(2, 512), nodes=st.integers(2, 4000))
def test_a_pool_that_is_accepted_holds_a_block_for_each_node(
    prefix: int, block: int, nodes: int
) -> None:
    changes = {
        "rails": [rail(subnet=f"172.16.0.0/{prefix}", block_size=block)],
        "minimum_nodes": nodes,
    }
    usable = 2 ** (32 - prefix) - 2
    try:
        settings = make_settings(data.variables(**changes))
    except ValueError:
        assert usable // block < nodes
    else:
        assert usable // block >= nodes
        check_sizes(settings["rails"], nodes, "test")


TREE = st.recursive(
    st.integers(),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(base=TREE, over=TREE)
def test_merge_keeps_what_is_laid_on_top(base: Any, over: Any) -> None:
    merged = merge(base, over)
    assert merge(merged, over) == merged
    if not isinstance(over, dict):
        assert merged == over
    elif isinstance(base, dict):
        assert set(merged) == set(base) | set(over)
