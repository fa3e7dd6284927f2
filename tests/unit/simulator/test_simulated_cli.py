"""The command line, as scenarios and the demo use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from simulator.faults import FAULTS

TESTS = Path(__file__).resolve().parents[2]


def simulator(*words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    return subprocess.run(
        [sys.executable, "-m", "simulator", *words],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    yield tmp_path / "sim"
    simulator("stop", "--dir", str(tmp_path / "sim"))


def test_from_start_to_stop(folder):
    where = ("--dir", str(folder))
    done = simulator(
        "start", *where, "--nodes", "2", "--fault", "slow_node:factor=0.5", "--rails", "2"
    )
    assert done.returncode == 0, done.stderr
    started = json.loads(done.stdout)
    assert started["kubeconfig"] == str(folder / "kubeconfig")
    config = yaml.safe_load((folder / "kubeconfig-fabric").read_text())
    assert config["clusters"][0]["cluster"]["server"] == started["url"]
    assert (folder / "kubeconfig").stat().st_mode & 0o077 == 0
    assert "already runs" in simulator("start", *where).stderr
    state = json.loads(simulator("state", *where).stdout)
    assert state["faults"] == [
        {"name": "slow_node", "parameters": {"node": "gpu-node-2", "factor": 0.5}}
    ]
    assert state["config"]["rails"] == 2
    assert simulator("fault", *where, "no_gid", "memlock").returncode == 0
    assert len(json.loads(simulator("state", *where).stdout)["faults"]) == 2
    wrong = simulator("fault", *where, "no_such_fault")
    assert (wrong.returncode, "no fault is called 'no_such_fault'" in wrong.stderr) == (1, True)
    assert simulator("fault", *where, "none").returncode == 0
    assert simulator("reset", *where).returncode == 0
    assert simulator("stop", *where).returncode == 0
    process = Path(f"/proc/{started['pid']}/cmdline")
    assert not process.exists() or process.read_bytes() == b""  # gone, or not yet buried
    assert (folder / "log").read_text() == ""
    assert simulator("state", *where).returncode == 1
    assert simulator("stop", *where).returncode == 0


def test_list_of_faults():
    rows = json.loads(simulator("faults", "--json").stdout)
    assert [r["name"] for r in rows] == list(FAULTS)
    assert all(set(r) == {"name", "summary", "description", "parameters"} for r in rows)
    lines = simulator("faults").stdout.splitlines()
    assert len(lines) == len(FAULTS)


def test_a_misspelt_fault_is_refused_before_anything_starts(tmp_path):
    done = simulator("start", "--dir", str(tmp_path / "x"), "--fault", "slow_nod")
    assert done.returncode == 1
    assert not (tmp_path / "x").exists()
