"""GPU nodes."""

from __future__ import annotations

from .. import addressing
from ..clock import timestamp
from ..config import Config
from .common import VERSION, Obj, uid


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
