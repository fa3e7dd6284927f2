"""What is in a healthy cluster before anybody does anything: nodes, operators, policies, networks, permissions."""

from __future__ import annotations

import json
import uuid
from typing import Any

import yaml

from . import addressing
from .api import Api
from .clock import timestamp
from .config import Config
from .schema import custom_definitions

Obj = dict[str, Any]
VERSION = "v1.34.2"
OPERATOR = "nvidia-network-operator"
GPU_OPERATOR = "gpu-operator"
_SPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")


def uid(text: str) -> str:
    """A uid that is the same on every start."""
    return str(uuid.uuid5(_SPACE, text))


def populate(api: Api, config: Config) -> None:
    """Fills an empty store."""
    put = _Putter(api)
    for name in (
        "default",
        "kube-system",
        "kube-node-lease",
        "kube-public",
        OPERATOR,
        GPU_OPERATOR,
    ):
        put("", "v1", "namespaces", _namespace(name))
    for definition in custom_definitions():
        _define(api, definition)
    for index, name in enumerate(config.node_names(), 1):
        put("", "v1", "nodes", node(config, index, name))
    _network_operator(put, config)
    _gpu_operator(put, config)
    _networks(put, config)
    if config.busy_gpus:
        _busy(put, config)


class _Putter:
    """Stores objects as they are, statuses included."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def __call__(self, group: str, version: str, plural: str, obj: Obj) -> Obj:
        resource = self._api.registry.find(group, version, plural)
        meta = obj["metadata"]
        meta.setdefault("uid", uid(f"{plural}/{meta.get('namespace', '')}/{meta['name']}"))
        if resource.custom or group in ("apps", "batch"):
            meta.setdefault("generation", 1)
        return self._api.put(resource, obj)


def _namespace(name: str) -> Obj:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _define(api: Api, definition: Obj) -> None:
    """Registers a custom type, through its CustomResourceDefinition."""
    from .api import _crd_status

    names, group = definition["names"], definition["group"]
    crd = {
        "metadata": {"name": f"{names['plural']}.{group}", "generation": 1},
        "spec": {
            "group": group,
            "scope": definition["scope"],
            "names": names,
            "conversion": {"strategy": "None"},
            "versions": [
                {
                    "name": v["name"],
                    "served": v["served"],
                    "storage": v["storage"],
                    "schema": {"openAPIV3Schema": v["schema"]},
                    **({"subresources": {"status": {}}} if v["status"] else {}),
                }
                for v in definition["versions"]
            ],
        },
    }
    crd["status"] = _crd_status(crd)
    api.put(api.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions"), crd)


# ---- nodes


def node(config: Config, index: int, name: str) -> Obj:
    """A GPU node."""
    capacity = {
        "cpu": "192",
        "memory": "2113407180Ki",
        "pods": "250",
        "ephemeral-storage": "1843269236Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "nvidia.com/gpu": str(config.gpus),
    }
    for rail in range(config.rails):
        capacity[config.rdma_resource(rail)] = "63"
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/worker": "",
        "topology.kubernetes.io/zone": f"rack-{(index - 1) // 8 + 1}",
        "feature.node.kubernetes.io/pci-15b3.present": "true",
        "feature.node.kubernetes.io/pci-15b3.sriov.capable": "true",
        "feature.node.kubernetes.io/rdma.available": "true",
        "feature.node.kubernetes.io/rdma.capable": "true",
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "feature.node.kubernetes.io/kernel-version.full": "6.8.0-60-generic",
        "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
        "network.nvidia.com/operator.mofed.wait": "false",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": str(config.gpus),
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/cuda.driver.major": "580",
    }
    now = timestamp()
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, status, reason, message in (
            (
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            (
                "PIDPressure",
                "False",
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
            ),
            ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        )
    ]
    return {
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"podCIDR": f"10.244.{index % 256}.0/24", "providerID": f"sim://{name}"},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": addressing.node_ip(index)},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": uid(f"machine/{name}").replace("-", ""),
                "systemUUID": uid(f"system/{name}"),
                "bootID": uid(f"boot/{name}"),
                "kernelVersion": "6.8.0-60-generic",
                "osImage": "Ubuntu 24.04.2 LTS",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


# ---- pods of the content


def _pod(
    namespace: str,
    name: str,
    node_name: str,
    labels: dict[str, str],
    containers: list[tuple[str, str]],
    owner: Obj | None,
    host_ip: str,
    resources: Obj | None = None,
) -> Obj:
    now = timestamp()
    meta: Obj = {"name": name, "namespace": namespace, "labels": labels}
    if owner:
        meta["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": owner["kind"],
                "name": owner["name"],
                "uid": owner["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    spec_containers = [
        {
            "name": c,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "resources": resources or {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
        for c, image in containers
    ]
    return {
        "metadata": meta,
        "spec": {
            "nodeName": node_name,
            "containers": spec_containers,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [{"operator": "Exists"}],
            "priority": 0,
            "enableServiceLinks": True,
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": t, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
                for t in (
                    "PodReadyToStartContainers",
                    "Initialized",
                    "Ready",
                    "ContainersReady",
                    "PodScheduled",
                )
            ],
            "hostIP": host_ip,
            "hostIPs": [{"ip": host_ip}],
            "podIP": host_ip,
            "podIPs": [{"ip": host_ip}],
            "startTime": now,
            "containerStatuses": [
                {
                    "name": c,
                    "image": image,
                    "imageID": "",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now}},
                    "lastState": {},
                }
                for c, image in containers
            ],
            "qosClass": "BestEffort" if not resources else "Burstable",
        },
    }


def _daemonset(
    put: _Putter,
    config: Config,
    namespace: str,
    name: str,
    labels: dict[str, str],
    containers: list[tuple[str, str]],
    selector: dict[str, str],
    extra_labels: dict[str, str] | None = None,
) -> None:
    """A DaemonSet and a Running pod of it on every node."""
    nodes = config.node_names()
    count = len(nodes)
    template_containers = [
        {
            "name": c,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
        for c, image in containers
    ]
    daemonset = put(
        "apps",
        "v1",
        "daemonsets",
        {
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": {**labels, **(extra_labels or {})}},
                    "spec": {
                        "nodeSelector": selector,
                        "containers": template_containers,
                        "restartPolicy": "Always",
                        "terminationGracePeriodSeconds": 30,
                        "dnsPolicy": "ClusterFirst",
                        "securityContext": {},
                        "schedulerName": "default-scheduler",
                        "tolerations": [{"operator": "Exists"}],
                    },
                },
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
                },
                "revisionHistoryLimit": 10,
            },
            "status": {
                "currentNumberScheduled": count,
                "desiredNumberScheduled": count,
                "numberAvailable": count,
                "numberMisscheduled": 0,
                "numberReady": count,
                "observedGeneration": 1,
                "updatedNumberScheduled": count,
            },
        },
    )
    owner = {"kind": "DaemonSet", "name": name, "uid": daemonset["metadata"]["uid"]}
    for index, node_name in enumerate(nodes, 1):
        pod = _pod(
            namespace,
            f"{name}-{uid(name + node_name)[:5]}",
            node_name,
            {
                **labels,
                **(extra_labels or {}),
                "controller-revision-hash": "5d5f7c8d9",
                "pod-template-generation": "1",
            },
            containers,
            owner,
            addressing.node_ip(index),
        )
        put("", "v1", "pods", pod)


def _deployment(
    put: _Putter, config: Config, namespace: str, name: str, labels: dict[str, str], image: str
) -> None:
    """A Deployment, its ReplicaSet and its one Running pod, on the first node."""
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": name, "image": image}], "restartPolicy": "Always"},
    }
    base = {"selector": {"matchLabels": labels}, "replicas": 1, "template": template}
    put(
        "apps",
        "v1",
        "deployments",
        {
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": base,
            "status": {
                "observedGeneration": 1,
                "replicas": 1,
                "updatedReplicas": 1,
                "readyReplicas": 1,
                "availableReplicas": 1,
                "conditions": [
                    {
                        "type": "Available",
                        "status": "True",
                        "reason": "MinimumReplicasAvailable",
                        "message": "Deployment has minimum availability.",
                        "lastUpdateTime": timestamp(),
                        "lastTransitionTime": timestamp(),
                    }
                ],
            },
        },
    )
    digest = uid(name).replace("-", "")[:10]
    replicaset = put(
        "apps",
        "v1",
        "replicasets",
        {
            "metadata": {"name": f"{name}-{digest}", "namespace": namespace, "labels": labels},
            "spec": base,
            "status": {
                "replicas": 1,
                "readyReplicas": 1,
                "availableReplicas": 1,
                "observedGeneration": 1,
            },
        },
    )
    owner = {"kind": "ReplicaSet", "name": f"{name}-{digest}", "uid": replicaset["metadata"]["uid"]}
    pod = _pod(
        namespace,
        f"{name}-{digest}-{uid(name + 'pod')[:5]}",
        config.node_names()[0],
        {**labels, "pod-template-hash": digest},
        [(name, image)],
        owner,
        addressing.node_ip(1),
    )
    put("", "v1", "pods", pod)


# ---- operators

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


def _network_operator(put: _Putter, config: Config) -> None:
    _deployment(
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
    _deployment(
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
        _daemonset(put, config, OPERATOR, name, labels, containers, selector, extra)
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


def _gpu_operator(put: _Putter, config: Config) -> None:
    _deployment(
        put,
        config,
        GPU_OPERATOR,
        "gpu-operator",
        {"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"},
        "nvcr.io/nvidia/gpu-operator:v26.3.1",
    )
    gpu = {"nvidia.com/gpu.present": "true"}
    _daemonset(
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
    _daemonset(
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


def _networks(put: _Putter, config: Config) -> None:
    """Pools, network resources of the operator and the attachment definitions that come of them."""
    infiniband = config.link == "infiniband"
    for rail in range(config.rails):
        subnet = addressing.rail_subnet(rail)
        put(
            "nv-ipam.nvidia.com",
            "v1alpha1",
            "ippools",
            {
                "metadata": {
                    "name": "rdma-pool" if rail == 0 else f"rdma-pool-{rail}",
                    "namespace": OPERATOR,
                },
                "spec": {
                    "subnet": str(subnet),
                    "perNodeBlockSize": addressing.BLOCK,
                    "gateway": str(subnet.network_address + 1),
                },
                "status": {
                    "allocations": [
                        {
                            "nodeName": name,
                            "startIP": addressing.rail_block(rail, i)[0],
                            "endIP": addressing.rail_block(rail, i)[1],
                        }
                        for i, name in enumerate(config.node_names(), 1)
                    ]
                },
            },
        )
    for name, rail in config.rail_networks():
        pool = "rdma-pool" if rail == 0 else f"rdma-pool-{rail}"
        master = f"ibs{rail + 1}" if infiniband else f"ens{rail + 1}f0np0"
        ipam = {"type": "nv-ipam", "poolName": pool}
        plural, field = ("ipoibnetworks", "ipoib") if infiniband else ("macvlannetworks", "macvlan")
        spec: Obj = {"networkNamespace": "default", "master": master, "ipam": json.dumps(ipam)}
        cni: Obj = {
            "cniVersion": "0.3.1",
            "name": name,
            "type": "ipoib" if infiniband else "macvlan",
            "master": master,
        }
        if not infiniband:
            spec |= {"mode": "bridge", "mtu": 9000}
            cni |= {"mode": "bridge", "mtu": 9000}
        network = put(
            "mellanox.com",
            "v1alpha1",
            plural,
            {
                "metadata": {"name": name},
                "spec": spec,
                "status": {
                    "state": "ready",
                    f"{field}NetworkAttachmentDef": "k8s.cni.cncf.io/v1, Kind=NetworkAttachmentDefinition,"
                    f" default/{name}",
                },
            },
        )
        put(
            "k8s.cni.cncf.io",
            "v1",
            "network-attachment-definitions",
            {
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "ownerReferences": [
                        {
                            "apiVersion": "mellanox.com/v1alpha1",
                            "kind": network["kind"],
                            "name": name,
                            "uid": network["metadata"]["uid"],
                            "controller": True,
                            "blockOwnerDeletion": True,
                        }
                    ],
                },
                "spec": {"config": json.dumps({**cni, "ipam": ipam})},
            },
        )


def _busy(put: _Putter, config: Config) -> None:
    """Pods of somebody else that use GPUs."""
    put("", "v1", "namespaces", _namespace("training"))
    for index, name in enumerate(config.node_names(), 1):
        limits = {"nvidia.com/gpu": str(config.busy_gpus)}
        put(
            "",
            "v1",
            "pods",
            _pod(
                "training",
                f"train-{index}",
                name,
                {"app": "train"},
                [("worker", "registry.example/train:1")],
                None,
                addressing.node_ip(index),
                {"limits": limits, "requests": limits},
            ),
        )


# ---- permissions

# What every caller may do.
EVERYBODY = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:basic-user", labels: {kubernetes.io/bootstrapping: rbac-defaults}}
rules:
  - apiGroups: [authorization.k8s.io]
    resources: [selfsubjectaccessreviews, selfsubjectrulesreviews]
    verbs: [create]
  - {apiGroups: [authentication.k8s.io], resources: [selfsubjectreviews], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:basic-user", labels: {kubernetes.io/bootstrapping: rbac-defaults}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:basic-user"}
subjects: [{kind: Group, name: "system:authenticated", apiGroup: rbac.authorization.k8s.io}]
"""

# What the collection is to get by with, when no manifest with its own is at hand.
BUILTIN_RBAC = """
apiVersion: v1
kind: Namespace
metadata: {name: k8si-fabric}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: fabric, namespace: k8si-fabric}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: k8si-fabric-read}
rules:
  - {apiGroups: [""], resources: [nodes, pods, namespaces, events], verbs: [get, list, watch]}
  - {apiGroups: [apps], resources: [daemonsets, deployments], verbs: [get, list, watch]}
  - {apiGroups: [mellanox.com], resources: ["*"], verbs: [get, list, watch]}
  - {apiGroups: [nvidia.com], resources: [clusterpolicies], verbs: [get, list, watch]}
  - {apiGroups: [nv-ipam.nvidia.com], resources: [ippools, cidrpools], verbs: [get, list, watch]}
  - {apiGroups: [k8s.cni.cncf.io], resources: [network-attachment-definitions], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: k8si-fabric-read}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: k8si-fabric-read}
subjects: [{kind: ServiceAccount, name: fabric, namespace: k8si-fabric}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: k8si-fabric-test, namespace: default}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [get, list, watch, create, patch, delete, deletecollection]}
  - {apiGroups: [""], resources: [pods/exec], verbs: [get, create]}
  - {apiGroups: [""], resources: [pods/log], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: k8si-fabric-test, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: k8si-fabric-test}
subjects: [{kind: ServiceAccount, name: fabric, namespace: k8si-fabric}]
"""


def permissions(api: Api, manifest: str) -> tuple[str, str]:
    """Stores the objects of a manifest; returns namespace and name of the service account that it binds."""
    account = ("k8si-fabric", "fabric")
    for obj in yaml.safe_load_all(manifest):
        if not obj:
            continue
        for item in obj.get("items") or [obj] if obj.get("kind", "").endswith("List") else [obj]:
            resource = api.registry.of_kind(item["apiVersion"], item["kind"])
            if resource is None:
                continue
            meta = item["metadata"]
            namespace = (meta.get("namespace") or "default") if resource.namespaced else None
            if resource.key == ("", "serviceaccounts"):
                account = (namespace or "default", meta["name"])
            if api.store.find(resource.key, namespace, meta["name"]) is None:
                if namespace and api.store.find(("", "namespaces"), None, namespace) is None:
                    api.create(
                        api.registry.find("", "v1", "namespaces"),
                        None,
                        {"metadata": {"name": namespace}},
                    )
                api.create(resource, namespace, item)
    return account
