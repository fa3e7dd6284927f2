"""Whole runs of ansible-playbook against a simulated cluster of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Cluster:
    """A simulated cluster: its kubeconfig, its state, and ansible-playbook against it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.env = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "tests"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build" / "collections"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "KUBECONFIG": str(folder / "kubeconfig-fabric"),
        }

    def simulator(self, *words: str) -> str:
        command = [
            sys.executable,
            "-m",
            "simulator",
            words[0],
            "--dir",
            str(self.folder),
            *words[1:],
        ]
        done = subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def state(self) -> dict:
        return json.loads(self.simulator("state"))

    def playbook(self, name: str, *words: str) -> subprocess.Popen:
        return subprocess.Popen(
            ["ansible-playbook", str(ROOT / "playbooks" / name), *words],
            env=self.env,
            cwd=self.folder,  # the report goes there
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


@pytest.fixture
def cluster(tmp_path, request):
    made = Cluster(tmp_path)
    made.simulator("start", "--nodes", "4", *getattr(request, "param", ()))
    try:
        yield made
    finally:
        made.simulator("stop")
