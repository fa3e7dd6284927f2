"""Variables of role deploy as its defaults give them, and the deployments whose objects are kept as golden files."""

from __future__ import annotations

from typing import Any

DEFAULTS: dict[str, Any] = {
    "state": "present",
    "network_type": "macvlan",
    "link_layer": "",
    "rails": [],
    "networks": None,
    "rdma_resources": None,
    "ipam": "nv-ipam",
    "namespace": "default",
    "operator_namespace": "nvidia-network-operator",
    "sriov_namespace": "",
    "image_pull_secrets": [],
    "node_selector": {"feature.node.kubernetes.io/pci-15b3.present": "true"},
    "minimum_nodes": 2,
    "driver": False,
    "multus": True,
    "cni_plugins": True,
    "rdma_hca_max": 63,
    "rdma_mode": "",
    "versions": {},
    "repository": "",
    "nic_cluster_policy_overrides": {},
    "adopt": False,
    "timeout": 1800,
    "install_operator": False,
    "operator_chart": "network-operator",
    "operator_chart_repo": "https://helm.ngc.nvidia.com/nvidia",
    "operator_chart_version": "26.4.1",
    "operator_release": "network-operator",
    "operator_values": {},
    "helm_binary": "helm",
}

MACVLAN_RAIL = {"interfaces": "ens1f0np0", "subnet": "192.168.4.0/24"}


def variables(**changes: Any) -> dict[str, Any]:
    """The defaults with changes; without `rails`, one that macvlan can use."""
    return {**DEFAULTS, "rails": [MACVLAN_RAIL], **changes}


def eight_rails(**more: Any) -> list[dict[str, Any]]:
    return [
        {"interfaces": f"ens{k + 1}f0np0", "subnet": f"10.{k}.0.0/16", "mtu": 9000, **more}
        for k in range(8)
    ]


_RESOURCES_8 = [f"rdma/rdma_shared_device_{c}" for c in "abcdefgh"]
_RAILS_8 = [f"rdma-net-rail-{k}" for k in range(8)]

# name -> changes of the defaults
DEPLOYMENTS: dict[str, dict[str, Any]] = {
    "macvlan": {"rails": [{**MACVLAN_RAIL, "mtu": 9000, "gateway": "192.168.4.1"}]},
    "macvlan-driver-overrides": {
        "driver": True,
        "image_pull_secrets": ["ngc"],
        "repository": "registry.example:5000/mellanox",
        "versions": {"multus": "v4.2.1", "driver": {"version": "doca3.3.0-26.01-1.0.0.0-0"}},
        "node_selector": {"feature.node.kubernetes.io/pci-15b3.present": "true", "pool": "train"},
        "nic_cluster_policy_overrides": {
            "ofedDriver": {"env": [{"name": "UNLOAD_STORAGE_MODULES", "value": "true"}]},
            "nicFeatureDiscovery": {
                "image": "nic-feature-discovery",
                "repository": "nvcr.io/nvidia/mellanox",
                "version": "network-operator-v26.4.1",
            },
        },
    },
    "macvlan-eight-rails": {
        "networks": _RAILS_8,
        "rdma_resources": _RESOURCES_8,
        "rails": eight_rails(block_size=32),
    },
    "macvlan-two-rails-one-resource-one-pool": {
        "networks": ["rail-0", "fabric/rail-1"],
        "rdma_resources": ["rdma/rdma_shared_device_a"],
        "rails": [
            {"interfaces": "ens1f0np0", "subnet": "10.9.0.0/20", "pool": "both"},
            {
                "interfaces": "ens2f0np0",
                "subnet": "10.9.0.0/20",
                "pool": "both",
                "meta_plugins": [],
            },
        ],
    },
    "macvlan-whereabouts": {
        "ipam": "whereabouts",
        "rails": [
            {
                **MACVLAN_RAIL,
                "gateway": "192.168.4.1",
                "range_start": "192.168.4.10",
                "range_end": "192.168.4.200",
                "exclude": ["192.168.4.64-192.168.4.79", "192.168.4.100"],
                "routes": ["192.168.0.0/16"],
            }
        ],
    },
    "macvlan-host-local": {
        "ipam": "host-local",
        "rails": [{**MACVLAN_RAIL, "range_start": "192.168.4.10"}],
    },
    "macvlan-static": {
        "ipam": "static",
        "multus": False,
        "cni_plugins": False,
        "rails": [{"interfaces": "ens1f0np0", "addresses": ["192.168.4.2/24"]}],
    },
    "ipoib": {
        "network_type": "ipoib",
        "networks": ["ib-a", "ib-b"],
        "rdma_resources": ["rdma/rdma_shared_device_a", "rdma/rdma_shared_device_b"],
        "rails": [
            {
                "interfaces": "ibs1f0",
                "subnet": "192.168.5.0/24",
                "exclude": ["192.168.5.200/29"],
                "gateway": "192.168.5.1",
                "routes": ["192.168.0.0/16"],
            },
            {"interfaces": "ibs2f0", "subnet": "192.168.6.0/24"},
        ],
    },
    "host-device": {
        "network_type": "host_device",
        "networks": ["hostdev-net"],
        "rdma_resources": ["nvidia.com/hostdev"],
        "rails": [{"subnet": "192.168.3.0/24", "device_ids": ["1021", "1023"]}],
    },
    "host-device-two-rails": {
        "network_type": "host_device",
        "networks": ["hostdev-0", "hostdev-1"],
        "rdma_resources": ["nvidia.com/hostdev_0", "nvidia.com/hostdev_1"],
        "rails": [
            {"subnet": "192.168.3.0/24", "pci_addresses": ["0000:1a:00.0"]},
            {"subnet": "fd00:4::/64", "interfaces": "ens2f0np0"},
        ],
    },
    "sriov": {
        "network_type": "sriov",
        "networks": ["sriov-rdma-network"],
        "rdma_resources": ["nvidia.com/sriov_resource"],
        "rails": [{"subnet": "192.168.2.0/24", "mtu": 9000}],
    },
    "sriov-exclusive-two-rails": {
        "network_type": "sriov",
        "rdma_mode": "exclusive",
        "sriov_namespace": "openshift-sriov-network-operator",
        "networks": ["rail-0", "rail-1"],
        "rdma_resources": ["openshift.io/rail_0", "openshift.io/rail_1"],
        "rails": [
            {"subnet": "10.0.0.0/20", "interfaces": "ens1f0np0", "num_vfs": 16},
            {"subnet": "10.1.0.0/20", "pci_addresses": ["0000:3a:00.0"], "device_ids": "1021"},
        ],
    },
    "sriov-infiniband": {
        "network_type": "sriov",
        "link_layer": "infiniband",
        "networks": ["sriov-ib-network"],
        "rdma_resources": ["nvidia.com/mlnxnics"],
        "rails": [{"subnet": "192.168.6.0/24", "mtu": 4092, "interfaces": "ibs1f0"}],
    },
    "ib-shared": {
        "network_type": "ib_shared",
        "networks": [],
        "rdma_resources": None,
        "rails": [],
    },
    "ib-shared-two-resources": {
        "network_type": "ib_shared",
        "networks": [],
        "rdma_resources": ["rdma/ib_a", "example.com/ib_b"],
        "rails": [{"interfaces": ["ibs1f0", "ibs2f0"]}, {"device_ids": ["1021"]}],
    },
}
