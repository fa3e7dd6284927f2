"""A fleet with a bad port and a bad path at once: the roles find both, in few rounds, and blame nobody else."""

from __future__ import annotations

import json

import pytest
import yaml

PORT = "gpu-node-5"
PATH = ["gpu-node-1", "gpu-node-2"]  # neighbours: the first round measures what is between them
BROKEN = (
    "--nodes=16",
    "--rails=2",
    f"--fault=slow_port:node={PORT},rail=1",
    f"--fault=one_way_slow_path:source={PATH[0]},target={PATH[1]}",
    f"--fault=one_way_slow_path:source={PATH[1]},target={PATH[0]}",
)
VARIABLES = {
    "rdma_test_nodes": "all",
    "rdma_test_rails": [
        {"network": f"rdma-net-rail-{k}", "resource": f"rdma/rdma_shared_device_{letter}"}
        for k, letter in enumerate("ab")
    ],
    "rdma_test_sizes": 65536,
}


def run_role(cluster, folder, variables: dict) -> dict:
    """The result that the role leaves, whether it passed or not."""
    target = folder / "result.json"
    role = {"ansible.builtin.include_role": {"name": "k8si.fabric.rdma_test"}}
    keep = {
        "ansible.builtin.copy": {
            "content": "{{ rdma_test_result | to_json }}",
            "dest": str(target),
            "mode": "0600",
        }
    }
    # the role ends with an assertion; what it left is what counts here
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": variables,
        "tasks": [{"block": [role], "always": [keep]}],
    }
    path = folder / "fleet.yml"
    path.write_text(yaml.safe_dump([play]), encoding="utf-8")
    process = cluster.playbook(str(path))
    output, _none = process.communicate(timeout=600)
    assert target.exists(), output[-4000:]
    return json.loads(target.read_text(encoding="utf-8"))


@pytest.mark.parametrize("cluster", [BROKEN], indirect=True)
def test_a_bad_port_and_a_bad_path(cluster, tmp_path):
    result = run_role(cluster, tmp_path, VARIABLES)
    assert result["verdict"] == "slow"
    blamed = {f["localisation"]: f["where"] for f in result["findings"]}
    assert len(result["findings"]) == 2
    assert (blamed["bad_port"]["node"], blamed["bad_port"]["rail"]) == (PORT, 1)
    assert blamed["bad_path"] == {"nodes": PATH, "rails": [0, 1]}
    # every node met a partner on both rails
    assert {(k["server_node"], k["rail"]) for k in result["links"]} == {
        (f"gpu-node-{n}", rail) for n in range(1, 17) for rail in (0, 1)
    }
    retests = {(k["round"], k["wave"]) for k in result["links"] if k["wave"]}
    assert result["round_count"] == 4 + len(retests)  # two rails, both directions, then retests
    assert max(wave for _round, wave in retests) <= 2
    assert not [p for p in cluster.state()["pods"] if p["namespace"] == "default"]
