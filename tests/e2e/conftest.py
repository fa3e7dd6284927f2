"""Whole runs of ansible-playbook against a simulated cluster of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from controller import Controller


class Cluster(Controller):
    """A simulated cluster, its state, and ansible-playbook against it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, folder / "kubeconfig-fabric")

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


@pytest.fixture
def cluster(tmp_path, request):
    made = Cluster(tmp_path)
    made.simulator("start", "--nodes", "4", *getattr(request, "param", ()))
    try:
        yield made
    finally:
        made.simulator("stop")
