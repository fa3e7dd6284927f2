"""Every test pod, view from inside one, and event of k8s_fixtures is judged as its entry in INDEX.json expects."""

from __future__ import annotations

import json
from ipaddress import IPv4Address

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import endpoints
from ansible_collections.k8si.fabric.plugins.plugin_utils.diagnosis_pods import diagnose_pod
from ansible_collections.k8si.fabric.plugins.plugin_utils.nodes import pod_states
from ansible_collections.k8si.fabric.plugins.plugin_utils.settings import make_settings

from .engine_data import VARIABLES
from .test_endpoints import FIXTURES, build, completed, pods_of, probe_text, view_of

INDEX = json.loads((FIXTURES / "INDEX.json").read_text(encoding="utf-8"))
GROUPS = ("testpods", "podview", "events")
TESTED: set[str] = set()  # by the tests below, each with what INDEX.json expects
VIEW = "macvlan-shared-8nics"
POD = {
    "metadata": {"name": "rdma-test-pod-1"},
    "spec": {"nodeName": "worker-gpu-01"},
    "status": {
        "phase": "Pending",
        "containerStatuses": [
            {"name": "test", "state": {"waiting": {"reason": "ContainerCreating"}}}
        ],
    },
}


def of(group: str) -> list:
    TESTED.update(name for name in INDEX if name.split("/")[0] == group)
    return [
        pytest.param(name.split("/")[1].removesuffix(".json"), entry["expect"], id=name)
        for name, entry in INDEX.items()
        if name.split("/")[0] == group
    ]


def networks_of(pod: dict) -> list[str]:
    """The networks that the pod asks for, as the variable would name them."""
    asked = pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"]
    if asked.lstrip().startswith("["):
        return [entry["name"] for entry in json.loads(asked)]
    return [name.strip() for name in asked.split(",")]


def own_view(pod: dict, network: str) -> str:
    """The probe in a pod whose only device holds the pod's own address."""
    text = probe_text(view_of(VIEW))
    try:
        address = IPv4Address(endpoints.secondary_network(pod, network)["ips"][0])
    except ValueError:
        return text
    held = IPv4Address("192.168.4.2").packed.hex(":", 2)
    assert held in text
    return text.replace(held, address.packed.hex(":", 2))


def codes(pods: list[dict], networks: list[str]) -> set[str]:
    """What the engine finds from the pods to the endpoints, as the role goes."""
    states = pod_states(pods, [], [pod["metadata"]["name"] for pod in pods])
    found = states["findings"] + states["waiting"]
    if not found:
        settings = make_settings({**VARIABLES, "networks": networks[:1]}, "rdma_test_")
        results = [completed(pod, own_view(pod, networks[0])) for pod in states["running"]]
        found = endpoints.build_endpoints(states["running"], results, settings)["findings"]
    return {finding["code"] for finding in found}


@pytest.mark.parametrize(("name", "expect"), of("testpods"))
def test_pods(name, expect):
    pods = pods_of(name)
    networks = networks_of(pods[0])
    if "code" in expect:
        assert codes(pods, networks) == {expect["code"]}
    if "rails" in expect:
        found = [endpoints.secondary_network(pods[0], network) for network in networks]
        assert len({entry["ips"][0] for entry in found}) == expect["rails"]
    if "server_ip" in expect:
        entry = endpoints.secondary_network(pods[0], networks[0])
        assert entry["ips"][0] == expect["server_ip"] != expect.get("not")
    if "interface" in expect:
        entry = endpoints.secondary_network(pods[0], networks[0])
        assert entry["interface"] == expect["interface"]
    if "rdma_device" in expect:
        # a device that the status does not name is found in the pod; one that it names twice stays open
        view = view_of("vf-exclusive")
        if expect["rdma_device"] == "ambiguous":
            view["class_infiniband"].append("mlx5_5")
            view["uverbs_ibdev"]["uverbs5"] = "mlx5_5"
            view["dev_infiniband"].append("uverbs5")
            view["gids"] += [{**gid, "dev": "mlx5_5"} for gid in view["gids"]]
        settings = make_settings({**VARIABLES, "networks": networks}, "rdma_test_")
        built = build(pods[0], probe_text(view), settings)
        if expect["rdma_device"] == "ambiguous":
            assert [found["code"] for found in built["findings"]] == ["ambiguous_device"]
        else:
            assert [end["device"] for end in built["endpoints"]] == ["mlx5_4"]


@pytest.mark.parametrize(("name", "expect"), of("podview"))
def test_views_from_inside(name, expect):
    view = view_of(name)
    pod = pods_of("device-info-no-rdma" if name == "vf-exclusive" else "macvlan-pair")[0]
    changes = {"rdma_cm": expect.get("rdma_cm", True), "networks": networks_of(pod)}
    if not changes["rdma_cm"]:
        changes["networks"] = []
    settings = make_settings({**VARIABLES, **changes}, "rdma_test_")
    built = build(pod, probe_text(view, lid="0x1f"), settings)
    if "code" in expect:
        assert [found["code"] for found in built["findings"]] == [expect["code"]]
        assert built["endpoints"] == []
    else:
        assert built["findings"] == []
        (end,) = built["endpoints"]
        assert end["device"] == expect["device"]
        assert end["gid_index"] == expect.get("gid_index")


@pytest.mark.parametrize(("name", "expect"), of("events"))
def test_events(name, expect):
    events = json.loads((FIXTURES / "events" / f"{name}.json").read_text())["items"]
    found = diagnose_pod(POD, events)
    assert found is not None
    # an event without trouble leaves a pod that has not started yet
    assert found["code"] == (expect["code"] or "pod_not_started")
    assert found["retry"] or expect["code"]


def test_every_fixture_has_a_test(capsys):
    """Counts them, so that a new kind of fixture without a test shows."""
    ours = {name for name in INDEX if name.split("/")[0] in GROUPS}
    assert ours == TESTED
    with capsys.disabled():
        print(f"\n{len(TESTED)} of {len(ours)} fixtures of the test pods tested against INDEX.json")
