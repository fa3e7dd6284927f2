"""The Network Operator and the GPU Operator: their workloads and their policies, ready."""

from __future__ import annotations

import json

from ..clock import timestamp
from ..config import Config
from .common import GPU_OPERATOR, OPERATOR, Putter
from .workloads import daemonset, deployment

_REPOSITORY = "nvcr.io/nvidia/mellanox"
_RELEASE = "network-operator-v26.4.0"
_STATES = [
    ("state-multus-cni", "ready"),
    ("state-container-networking-plugins", "ready"),
    ("state-ipoib-cni", "ignore"),
    ("state-OFED", "ready"),
    ("state-SRIOV-device-plugin", "ignore"),
    ("state-RDMA-device-plugin", "ready"),
    ("state-ib-kubernetes", "ignore"),
    ("state-nv-ipam-cni", "ready"),
    ("state-nic-feature-discovery", "ignore"),
    ("state-doca-telemetry-service", "ignore"),
    ("state-nic-configuration-operator", "ignore"),
    ("state-spectrum-x-operator", "ignore"),
]


def network_operator(put: Putter, config: Config) -> None:
    """The Network Operator, its operands and a policy that is ready."""
    deployment(
        put,
        config,
        OPERATOR,
        "network-operator",
        {
            "app.kubernetes.io/name": "network-operator",
            "app.kubernetes.io/instance": "network-operator",
            "control-plane": "network-operator-controller",
            "nvidia.com/ofed-driver-upgrade-drain.skip": "true",
        },
        "nvcr.io/nvidia/cloud-native/network-operator:v26.4.0",
    )
    deployment(
        put,
        config,
        OPERATOR,
        "nv-ipam-controller",
        {"app": "nv-ipam-controller"},
        f"{_REPOSITORY}/nvidia-k8s-ipam:{_RELEASE}",
    )
    nic = {"feature.node.kubernetes.io/pci-15b3.present": "true"}
    mofed = "mofed-ubuntu24.04-6f5b9c8d7f"
    sets = [
        (
            f"{mofed}-ds",
            {"app": mofed, "nvidia.com/ofed-driver": "", "ds-owner": "NicClusterPolicy"},
            [
                (
                    "mofed-container",
                    f"{_REPOSITORY}/doca-driver:doca3.4.0-26.04-1.0.0.0-0-ubuntu24.04-amd64",
                )
            ],
            nic,
        ),
        (
            "rdma-shared-dp-ds",
            {"app": "rdma-shared-dp", "ds-owner": "NicClusterPolicy"},
            [("rdma-shared-dp", f"{_REPOSITORY}/k8s-rdma-shared-dev-plugin:{_RELEASE}")],
            {**nic, "network.nvidia.com/operator.mofed.wait": "false"},
        ),
        (
            "kube-multus-ds",
            {"tier": "node", "app": "multus", "name": "multus"},
            [("kube-multus", f"{_REPOSITORY}/multus-cni:{_RELEASE}")],
            {},
        ),
        (
            "cni-plugins-ds",
            {"tier": "node", "app": "cni-plugins", "name": "cni-plugins"},
            [("cni-plugins", f"{_REPOSITORY}/plugins:{_RELEASE}")],
            {},
        ),
        (
            "nv-ipam-node",
            {"tier": "node", "app": "nv-ipam-node", "name": "nv-ipam-node"},
            [("kube-ipam-node", f"{_REPOSITORY}/nvidia-k8s-ipam:{_RELEASE}")],
            {},
        ),
    ]
    for name, labels, containers, selector in sets:
        extra = {"kernel": "6.8.0-60-generic"} if name.startswith("mofed") else None
        daemonset(put, config, OPERATOR, name, labels, containers, selector, extra)
    configs = [
        {
            "resourceName": config.rdma_resource(k).split("/")[1],
            "rdmaHcaMax": 63,
            "selectors": {"ifNames": [f"ens{k + 1}f0np0"]},
        }
        for k in range(config.rails)
    ]
    image = {"repository": _REPOSITORY, "version": _RELEASE, "imagePullSecrets": []}
    put(
        "mellanox.com",
        "v1alpha1",
        "nicclusterpolicies",
        {
            "metadata": {"name": "nic-cluster-policy", "generation": 2},
            "spec": {
                "ofedDriver": {
                    "image": "doca-driver",
                    "repository": _REPOSITORY,
                    "version": "doca3.4.0-26.04-1.0.0.0-0",
                    "imagePullSecrets": [],
                    "forcePrecompiled": False,
                    "terminationGracePeriodSeconds": 300,
                },
                "rdmaSharedDevicePlugin": {
                    "image": "k8s-rdma-shared-dev-plugin",
                    **image,
                    "config": json.dumps({"configList": configs}),
                },
                "nvIpam": {"image": "nvidia-k8s-ipam", **image, "enableWebhook": False},
                "secondaryNetwork": {
                    "cniPlugins": {"image": "plugins", **image},
                    "multus": {"image": "multus-cni", **image},
                },
            },
            "status": {
                "appliedStates": [{"name": n, "state": s} for n, s in _STATES],
                "state": "ready",
            },
        },
    )


def gpu_operator(put: Putter, config: Config) -> None:
    """The GPU Operator, its operands and a policy that is ready."""
    deployment(
        put,
        config,
        GPU_OPERATOR,
        "gpu-operator",
        {"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"},
        "nvcr.io/nvidia/gpu-operator:v26.3.1",
    )
    gpu = {"nvidia.com/gpu.present": "true"}
    daemonset(
        put,
        config,
        GPU_OPERATOR,
        "nvidia-driver-daemonset",
        {"app": "nvidia-driver-daemonset", "app.kubernetes.io/component": "nvidia-driver"},
        [
            ("nvidia-driver-ctr", "nvcr.io/nvidia/driver:580.95.05-ubuntu24.04"),
            ("nvidia-peermem-ctr", "nvcr.io/nvidia/driver:580.95.05-ubuntu24.04"),
        ],
        gpu,
    )
    daemonset(
        put,
        config,
        GPU_OPERATOR,
        "nvidia-device-plugin-daemonset",
        {"app": "nvidia-device-plugin-daemonset"},
        [("nvidia-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.18.1")],
        gpu,
    )
    now = timestamp()
    put(
        "nvidia.com",
        "v1",
        "clusterpolicies",
        {
            "metadata": {"name": "cluster-policy"},
            "spec": {
                "driver": {
                    "enabled": True,
                    "repository": "nvcr.io/nvidia",
                    "image": "driver",
                    "version": "580.95.05",
                    "kernelModuleType": "open",
                    "rdma": {"enabled": True, "useHostMofed": False},
                },
                "toolkit": {"enabled": True},
                "devicePlugin": {"enabled": True},
                "operator": {"defaultRuntime": "containerd"},
            },
            "status": {
                "namespace": GPU_OPERATOR,
                "state": "ready",
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "Reconciled",
                        "message": "",
                        "lastTransitionTime": now,
                    },
                    {
                        "type": "Error",
                        "status": "False",
                        "reason": "Ready",
                        "message": "",
                        "lastTransitionTime": now,
                    },
                ],
            },
        },
    )
