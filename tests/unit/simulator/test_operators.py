"""What is applied to a simulated cluster comes to life, as the operators would do it."""

from __future__ import annotations

import json

import pytest

MELLANOX = "/apis/mellanox.com/v1alpha1"
POOLS = "/apis/nv-ipam.nvidia.com/v1alpha1/namespaces/nvidia-network-operator/ippools"
NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions"
SRIOV = "/apis/sriovnetwork.openshift.io/v1/namespaces/nvidia-network-operator"
POLICY = f"{MELLANOX}/nicclusterpolicies/nic-cluster-policy"
NODE = "/api/v1/nodes/gpu-node-1"


def create(cluster, path, kind, name, spec):
    """Posts an object; the path tells its version."""
    body = {
        "apiVersion": "/".join(path.split("/")[2:4]),
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    answer = cluster.post(path, body)
    assert answer.code == 201, answer.body


def allocatable(cluster, name):
    return cluster.get(NODE).json["status"]["allocatable"].get(name)


def test_a_network_becomes_an_attachment_and_goes_with_it(cluster):
    ipam = {"type": "nv-ipam", "poolName": "extra-pool"}
    spec = {"networkNamespace": "default", "master": "ens2f0np0", "ipam": json.dumps(ipam)}
    spec["metaPlugins"] = '{"type":"sbr"}'
    create(cluster, f"{MELLANOX}/macvlannetworks", "MacvlanNetwork", "extra", spec)
    cluster.until(lambda: cluster.get(f"{NADS}/extra").code == 200, 5)
    config = json.loads(cluster.get(f"{NADS}/extra").json["spec"]["config"])
    assert [p["type"] for p in config["plugins"]] == ["macvlan", "sbr"]
    assert config["plugins"][0]["ipam"] == ipam
    assert cluster.get(f"{MELLANOX}/macvlannetworks/extra").json["status"]["state"] == "ready"
    assert cluster.request("DELETE", f"{MELLANOX}/macvlannetworks/extra").code == 200
    cluster.until(lambda: cluster.get(f"{NADS}/extra").code == 404, 5)


def test_a_network_that_is_no_json_is_in_error(cluster):
    spec = {"ipam": "{", "master": "ens1f0np0"}
    create(cluster, f"{MELLANOX}/macvlannetworks", "MacvlanNetwork", "broken", spec)
    path = f"{MELLANOX}/macvlannetworks/broken"
    cluster.until(lambda: "status" in cluster.get(path).json, 5)
    assert cluster.get(path).json["status"]["state"] == "error"


@pytest.mark.parametrize(("size", "nodes"), [(16, 4), (100, 2)])
def test_a_pool_gets_blocks_while_there_is_room(cluster, size, nodes):
    spec = {"subnet": "192.168.70.0/24", "perNodeBlockSize": size}
    create(cluster, POOLS, "IPPool", "extra-pool", spec)
    cluster.until(lambda: "status" in cluster.get(f"{POOLS}/extra-pool").json, 5)
    blocks = cluster.get(f"{POOLS}/extra-pool").json["status"]["allocations"]
    assert len(blocks) == nodes and blocks[0]["startIP"] == "192.168.70.2"


def test_a_policy_is_not_ready_at_first_and_serves_what_it_says(cluster):
    entry = {"resourceName": "hostdev", "selectors": {"pciAddresses": ["0000:1b:00.0"]}}
    plugin = {
        "image": "sriov-network-device-plugin",
        "config": json.dumps(
            {"resourceList": [entry, {"resourceName": "none", "selectors": {"devices": ["1017"]}}]}
        ),
    }
    assert cluster.patch(POLICY, {"spec": {"sriovDevicePlugin": plugin}}).code == 200
    cluster.until(lambda: cluster.get(POLICY).json["status"]["state"] == "notReady", 5)
    cluster.until(lambda: allocatable(cluster, "nvidia.com/hostdev") == "1", 10)
    assert allocatable(cluster, "nvidia.com/none") == "0"
    assert cluster.get(POLICY).json["status"]["state"] == "ready"
    cluster.patch(POLICY, {"spec": {"sriovDevicePlugin": None}})
    cluster.until(lambda: allocatable(cluster, "nvidia.com/hostdev") is None, 10)
    assert allocatable(cluster, "rdma/rdma_shared_device_a") == "63"


def test_virtual_functions(cluster):
    spec = {
        "resourceName": "vf",
        "nodeSelector": {},
        "nicSelector": {"pfNames": ["ens2f0np0"]},
        "numVfs": 6,
    }
    path = f"{SRIOV}/sriovnetworknodepolicies"
    create(cluster, path, "SriovNetworkNodePolicy", "vf", spec)
    state = f"{SRIOV}/sriovnetworknodestates/gpu-node-1"
    cluster.until(lambda: allocatable(cluster, "nvidia.com/vf") == "6", 10)
    assert cluster.get(state).json["status"]["interfaces"][0]["numVfs"] == 6
    network = {"resourceName": "vf", "networkNamespace": "default", "ipam": "{}"}
    create(cluster, f"{SRIOV}/sriovnetworks", "SriovNetwork", "vf-net", network)
    cluster.until(lambda: cluster.get(f"{NADS}/vf-net").code == 200, 5)
    notes = cluster.get(f"{NADS}/vf-net").json["metadata"]["annotations"]
    assert notes == {"k8s.v1.cni.cncf.io/resourceName": "nvidia.com/vf"}
    cluster.request("DELETE", f"{SRIOV}/sriovnetworks/vf-net")
    cluster.until(lambda: cluster.get(f"{NADS}/vf-net").code == 404, 5)
    cluster.request("DELETE", f"{SRIOV}/sriovnetworknodepolicies/vf")
    cluster.until(lambda: allocatable(cluster, "nvidia.com/vf") is None, 5)


def test_a_fault_that_takes_the_policy_away_leaves_what_it_serves(cluster):
    cluster.faults("policy_absent")
    assert cluster.get(POLICY).code == 404
    assert allocatable(cluster, "rdma/rdma_shared_device_a") == "63"
    cluster.faults()
    assert cluster.get(POLICY).json["status"]["state"] == "ready"
