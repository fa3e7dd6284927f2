"""A fleet with a bad port and a bad path at once: the roles find both, in few rounds, and blame nobody else."""

from __future__ import annotations

import json

import pytest

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


@pytest.mark.parametrize("cluster", [BROKEN], indirect=True)
def test_a_bad_port_and_a_bad_path(cluster):
    result = cluster.role("rdma_test", VARIABLES)
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


def test_a_link_that_got_slower_since_an_earlier_run(cluster, tmp_path):
    variables = {"rdma_test_nodes": "all", "rdma_test_sizes": 65536}
    first = cluster.role("rdma_test", variables, report=True)
    assert first["passed"]
    baseline = tmp_path / "results.json"
    variables["rdma_test_baseline"] = str(baseline)
    assert cluster.role("rdma_test", variables)["passed"]

    # as if the path between two nodes had been a third faster then
    document = json.loads(baseline.read_text(encoding="utf-8"))
    for link in document["tests"][0]["links"]:
        if {link["server_node"], link["client_node"]} == set(PATH):
            link["bandwidth_average_gbps"] *= 1.3
    baseline.write_text(json.dumps(document), encoding="utf-8")
    result = cluster.role("rdma_test", variables)
    assert (result["verdict"], result["reason"]) == ("slow", "regression")
    (finding,) = result["findings"]
    assert finding["localisation"] == "bad_path" and finding["where"]["nodes"] == PATH
    assert "the same link in run" in finding["seen"]
    assert any("held against the threshold alone: " in words for words in result["notes"])

    # and an error before anything is measured where the figures are of something else
    variables["rdma_test_qps"] = 2
    with pytest.raises(AssertionError, match="qps 1 then, 2 now"):
        cluster.role("rdma_test", variables)


@pytest.mark.parametrize("cluster", [("--fault=listen_race:times=3",)], indirect=True)
def test_what_perftest_itself_spoilt_is_run_again(cluster):
    run = cluster.start_role("rdma_test", {"rdma_test_sizes": 65536})
    result = run.result()
    assert result["passed"], result["findings"]
    # three clients were rejected: of either link, or two and one
    assert sum(k.get("attempts", 1) - 1 for k in result["links"]) == 3
    assert "client came between the two times" in " ".join(run.output.split())
