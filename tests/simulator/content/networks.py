"""Secondary networks: address pools, network resources, attachment definitions."""

from __future__ import annotations

import json

from .. import addressing
from ..config import Config
from .common import OPERATOR, Obj, Putter


def networks(put: Putter, config: Config) -> None:
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
