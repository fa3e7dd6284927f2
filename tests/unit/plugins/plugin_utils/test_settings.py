from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.settings import make_settings

from .engine_data import GPU_VARIABLES, VARIABLES

PREFIX = "rdma_test_"


def test_defaults():
    made = make_settings(VARIABLES, PREFIX)
    assert made["rails"] == [
        {
            "index": 0,
            "network": "rdma-net-ipam",
            "resource": "rdma/rdma_shared_device_a",
            "device": "",
            "port": 0,
        }
    ]
    assert made["gpu_resource"] == "" and made["sizes"] == "all"


def test_types_are_cast_as_extra_vars_bring_texts():
    texts = {
        **VARIABLES,
        "nodes": "4",
        "sizes": "65536",
        "threshold_percent": "92.5",
        "bidirectional": "yes",
        "timeout": "120",
    }
    made = make_settings(texts, PREFIX)
    assert (made["nodes"], made["sizes"], made["threshold_percent"]) == (4, 65536, 92.5)
    assert made["bidirectional"] is True and made["timeout_s"] == 120


def test_nodes_by_name():
    assert make_settings({**VARIABLES, "nodes": "a, b"}, PREFIX)["nodes"] == ["a", "b"]
    assert make_settings({**VARIABLES, "nodes": ["a", "b", "a"]}, PREFIX)["nodes"] == ["a", "b"]


def test_pull_secrets_may_have_dots_in_their_names():
    made = make_settings({**VARIABLES, "image_pull_secrets": "reg.example.com,b"}, PREFIX)
    assert made["image_pull_secrets"] == ["reg.example.com", "b"]


def test_rdma_cm_where_there_are_networks():
    assert make_settings({**VARIABLES, "rdma_cm": "auto"}, PREFIX)["rdma_cm"] is True
    bare = {**VARIABLES, "networks": []}
    assert make_settings({**bare, "rdma_cm": "auto"}, PREFIX)["rdma_cm"] is False
    assert make_settings({**bare, "rdma_cm": "no"}, PREFIX)["rdma_cm"] is False
    with pytest.raises(
        ValueError,
        match=r"rdma_test_rdma_cm=True: rdma_cm \(-R\) needs the address of a secondary net",
    ):
        make_settings({**bare, "rdma_cm": True}, PREFIX)
    mixed = {**VARIABLES, "rails": [{"network": "a"}, {"device": "mlx5_1"}]}
    with pytest.raises(ValueError, match="rail 1 has no network and others have one"):
        make_settings({**mixed, "rdma_cm": "auto"}, PREFIX)
    assert make_settings({**mixed, "rdma_cm": False}, PREFIX)["rdma_cm"] is False


def test_several_rails():
    several = {**VARIABLES, "networks": ["net-a", "net-b"], "devices": ["mlx5_0", "mlx5_1"]}
    rails = make_settings(several, PREFIX)["rails"]
    assert [(r["index"], r["network"], r["resource"], r["device"]) for r in rails] == [
        (0, "net-a", "rdma/rdma_shared_device_a", "mlx5_0"),
        (1, "net-b", "rdma/rdma_shared_device_a", "mlx5_1"),
    ]


def test_gpu():
    made = make_settings(GPU_VARIABLES, "gpudirect_test_")
    assert (made["gpu_resource"], made["gpu_count"], made["cuda_method"]) == (
        "nvidia.com/gpu",
        1,
        "auto",
    )
    assert made["cuda_device"] == "auto"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("nodes", 1, "it must be a number from 2"),
        ("nodes", ["a"], "two or more different nodes"),
        ("nodes", "many", "it must be a number from 2"),
        ("sizes", "big", "one message size in bytes"),
        ("sizes", 1, "one message size in bytes"),
        ("qps", 0, "from 1 to 16384"),
        ("qps", 1.5, "a whole number"),
        ("timeout", "soon", "it must be a number"),
        ("bidirectional", "maybe", "true or false"),
        ("tool", "rm", "one of ib_write_bw"),
        ("namespace", "Default", "a name of lower-case letters, digits and hyphens"),
        ("image_pull_secrets", ["a_b"], "lower-case letters, digits, hyphens and dots"),
        ("threshold_percent", "nan", "from 0 to 100"),
        ("networks", ["a b"], "the form"),
        ("networks", ["a", "a"], "a network of its own"),
        ("networks", ["a", "b", "c"], "ok"),
        ("rdma_resources", ["rdma_shared_device_a"], "the form"),
        ("devices", ["mlx5_0; rm"], "the form"),
        ("tolerations", ["x"], "a list of dictionaries"),
        ("threshold_percent", 101, "from 0 to 100"),
        ("threshold_percent", 0, "every link would pass"),
        ("duration", 10, "cannot run all sizes for a duration"),
        ("pod_lifetime", 500, "pods would expire while they are used"),
        ("image", "", "not empty"),
    ],
)
def test_bad_values_are_named(name, value, words):
    if words == "ok":
        assert len(make_settings({**VARIABLES, name: value}, PREFIX)["rails"]) == 3
        return
    with pytest.raises(ValueError, match=words) as caught:
        make_settings({**VARIABLES, name: value}, PREFIX)
    assert f"{PREFIX}{name}" in str(caught.value)


def test_lists_of_different_length_are_an_error():
    with pytest.raises(ValueError, match=r"rdma_test_devices.*2 entries, the rails are 3"):
        make_settings({**VARIABLES, "networks": ["a", "b", "c"], "devices": ["d0", "d1"]}, PREFIX)


@pytest.mark.parametrize("value", [{"label": "gpu=H100"}, "gpu=H100"])
def test_nodes_by_label(value):
    assert make_settings({**VARIABLES, "nodes": value}, PREFIX)["nodes"] == {"label": "gpu=H100"}


@pytest.mark.parametrize("value", [{"label": "a>b"}, {"labels": "a=b"}, {"label": 3}])
def test_bad_selectors(value):
    with pytest.raises(ValueError, match="rdma_test_nodes="):
        make_settings({**VARIABLES, "nodes": value}, PREFIX)


def test_rails_one_by_one():
    rails = [{"network": "a", "resource": "rdma/x"}, {"device": "mlx5_3", "port": "2"}]
    made = make_settings({**VARIABLES, "rails": rails, "rdma_cm": False}, PREFIX)["rails"]
    assert made == [
        {"index": 0, "network": "a", "resource": "rdma/x", "device": "", "port": 0},
        {"index": 1, "network": "", "resource": "", "device": "mlx5_3", "port": 2},
    ]


@pytest.mark.parametrize(
    ("rails", "words"),
    [
        ([{"nettwork": "a"}], "unknown keys: nettwork"),
        ([{"network": "a"}, {"network": "a"}], "a network of its own"),
        ([{"resource": "x"}], "rail 0: resource 'x'"),
        ([{"port": 300}], "rail 0: port"),
    ],
)
def test_bad_rails(rails, words):
    with pytest.raises(ValueError, match=words):
        make_settings({**VARIABLES, "rails": rails}, PREFIX)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "threshold_us=0"),
        ({"threshold_us": 3, "bidirectional": True}, "bidirectional is for bandwidth"),
    ],
)
def test_what_latency_needs(changes, words):
    with pytest.raises(ValueError, match=words):
        make_settings({**VARIABLES, "tool": "ib_send_lat", **changes}, PREFIX)


def test_no_write_latency_in_gpu_memory():
    changes = {"tool": "ib_write_lat", "threshold_us": 5}
    with pytest.raises(ValueError, match="no write latency in GPU memory"):
        make_settings({**GPU_VARIABLES, **changes}, "gpudirect_test_")


def test_figures_in_host_memory():
    links = [
        {"id": "a", "verdict": "passed", "bandwidth_average_gbps": 390.0},
        {"id": "b", "verdict": "slow", "bandwidth_average_gbps": 90.0},
    ]
    changes = {"threshold_host_percent": "95", "host_result": {"links": links}}
    made = make_settings({**GPU_VARIABLES, **changes}, "gpudirect_test_")
    assert made["host_gbps"] == {"a": 390.0} and made["threshold_host_percent"] == 95
