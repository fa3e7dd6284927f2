"""Whatever happens to the run, pods go away or expire, and clean-up removes what is ours and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
from controller import ROOT

# Real time, one size for a minute: the run is still measuring when it is cut short.
LONG = ("-e", "rdma_test_sizes=65536", "-e", "rdma_test_duration=60", "--tags", "rdma")
MANIFEST = """
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {labels}
spec:
  activeDeadlineSeconds: {deadline}
  containers:
    - {{name: c, image: busybox, command: [sleep, "3600"]}}
"""


def pods(cluster) -> list[dict]:
    return cluster.state()["pods"]


def names(cluster) -> list[str]:
    return [pod["name"] for pod in pods(cluster)]


def wait_until(what, limit: float) -> bool:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.3)
    return False


def measuring(cluster) -> bool:
    return any("ib_write_bw" in str(pod.get("processes")) for pod in pods(cluster))


@pytest.mark.parametrize("cluster", [("--time-scale", "1.0")], indirect=True)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_pods_are_gone_after_the_run_was_cut_short(cluster, how):
    run = cluster.playbook("validate.yml", *LONG)
    try:
        assert wait_until(lambda: measuring(cluster), 90), run.communicate(timeout=90)[0]
        assert len(pods(cluster)) == 2
        run.send_signal(how)
        assert run.wait(60) != 0
        assert wait_until(lambda: not pods(cluster), 60), names(cluster)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)


def create(cluster, name: str, labels: str, deadline: int = 3600) -> None:
    env = {**cluster.env, "KUBECONFIG": str(cluster.folder / "kubeconfig")}
    manifest = MANIFEST.format(name=name, labels=labels, deadline=deadline)
    arguments = json.dumps({"definition": manifest, "namespace": "default"})
    subprocess.run(
        ["ansible", "localhost", "-m", "kubernetes.core.k8s", "-a", arguments],
        env=env,
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    )


def test_cleanup_removes_what_carries_our_label_and_nothing_else(cluster):
    managed = "app.kubernetes.io/managed-by: k8si.fabric"
    create(cluster, "ours-1", "{" + managed + ", fabric.k8si.io/run: r1}")
    create(cluster, "ours-2", "{" + managed + ", fabric.k8si.io/run: r2}")
    create(cluster, "half-ours", "{" + managed + "}")
    create(cluster, "not-ours", "{app: training, fabric.k8si.io/run: r1}")
    run = cluster.playbook("cleanup.yml", "-e", "fabric_run_id=r1")
    output = run.communicate(timeout=60)[0]
    assert run.returncode == 0, output
    assert sorted(names(cluster)) == ["half-ours", "not-ours", "ours-2"]
    run = cluster.playbook("cleanup.yml")
    output = run.communicate(timeout=60)[0]
    assert run.returncode == 0, output
    assert sorted(names(cluster)) == ["half-ours", "not-ours"]


def test_pods_end_by_themselves_when_nobody_is_left(cluster):
    create(cluster, "left-behind", "{app.kubernetes.io/managed-by: k8si.fabric}", deadline=2)
    assert wait_until(lambda: [p["phase"] for p in pods(cluster)] == ["Failed"], 15), pods(cluster)


def test_check_mode_creates_nothing_and_says_so(cluster):
    run = cluster.playbook("validate.yml", "--check", "--tags", "rdma")
    output = run.communicate(timeout=120)[0]
    assert run.returncode == 0, output
    assert "check mode: nothing was run" in output
    requests = cluster.state()["requests"]
    assert not [name for name in requests if name.startswith("create pods")], requests


def test_a_misspelt_variable_is_an_error(cluster):
    run = cluster.playbook("validate.yml", "--tags", "rdma", "-e", "rdma_test_treshold_percent=50")
    output = run.communicate(timeout=60)[0]
    assert run.returncode != 0
    assert "rdma_test_treshold_percent (did you mean rdma_test_threshold_percent?)" in output


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        (
            "report_baselin=old.json",
            "unknown variable report_baselin (did you mean report_baseline?)",
        ),
        ("report_baseline=no_such.json", "report_baseline=no_such.json: there is no such file"),
        ("report_formats=pdf", "report_formats"),
    ],
)
def test_what_is_wrong_with_the_report_is_told_before_anything_is_measured(
    cluster, variable, words
):
    run = cluster.playbook("validate.yml", "--tags", "rdma", "-e", variable)
    output = run.communicate(timeout=60)[0]
    assert run.returncode != 0
    assert "Nothing was run: " in output and words in output, output
    assert "create pods" not in " ".join(cluster.state()["requests"])
