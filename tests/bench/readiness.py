"""Readiness of a large cluster: the whole role on a simulated cluster, and the judging alone.

    python tests/bench/readiness.py [--nodes 1000] [--judge-only]

Needs what `make env` sets up. Ends with 1 when the role takes more than 20 s or 400 MiB. Memory is the peak of the
proportional set sizes of ansible-playbook and all its children together; the simulated cluster is not counted.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLLECTIONS = ROOT / ".build" / "collections"
LIMIT_S = 20.0
LIMIT_MIB = 400.0
PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  roles: [k8si.fabric.readiness]
"""


def judge_alone(nodes: int) -> None:
    """Times the pure functions on so many nodes with the labels of a real node each."""
    sys.path.insert(0, str(COLLECTIONS))
    from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness import report
    from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_reads import read_outcomes
    from ansible_collections.k8si.fabric.tests.unit.plugins.plugin_utils import (
        readiness_helpers as helpers,
    )

    template = helpers.fixture("nodes/capacity-1k.json")[0]
    many = [
        {**template, "metadata": {**template["metadata"], "name": f"node-{number}"}}
        for number in range(nodes)
    ]
    reads = helpers.healthy()
    reads["ip_pools"][0]["status"]["allocations"] = [
        {"nodeName": item["metadata"]["name"]} for item in many
    ]
    began = time.process_time()
    outcome = read_outcomes([{"item": {"id": "nodes", "kind": "Node"}, "resources": many}])
    reads["nodes"] = outcome["nodes"]["items"]
    words = report(helpers.context(reads))
    took = time.process_time() - began
    assert words["result"]["passed"], words["message"]
    print(f"judging alone, {nodes} nodes: {took:.2f} s of CPU")


class Peak(threading.Thread):
    """Samples the memory of a process and its descendants until it is told to stop."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.kib = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.2):
            self.kib = max(self.kib, sum(map(_pss_kib, _tree(self.pid))))


def _tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return [pid]
    return [pid, *(grandchild for child in children for grandchild in _tree(int(child)))]


def _pss_kib(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:"), 0)


def whole_role(nodes: int) -> bool:
    """Runs the role on a simulated cluster and tells whether it kept the limits."""
    simulator = [sys.executable, "-m", "simulator"]
    with tempfile.TemporaryDirectory(prefix="readiness-bench-") as folder:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "tests"),
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_HOME": f"{folder}/ansible",
            "KUBECONFIG": f"{folder}/kubeconfig",
        }
        play = Path(folder, "play.yml")
        play.write_text(PLAY, encoding="utf-8")
        cluster = ["--dir", folder]
        subprocess.run(
            [*simulator, "start", *cluster, "--nodes", str(nodes)], env=environment, check=True
        )
        try:
            began = time.monotonic()
            command = [Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", play]
            process = subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            peak = Peak(process.pid)
            peak.start()
            output = process.communicate()[0]
            took = time.monotonic() - began
            peak.done.set()
        finally:
            subprocess.run([*simulator, "stop", *cluster], env=environment, check=False)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        print(output)
    mib = peak.kib / 1024
    print(
        f"whole role, {nodes} nodes: exit code {process.returncode}, {took:.1f} s (limit {LIMIT_S:.0f}), "
        f"{usage.ru_utime + usage.ru_stime:.1f} s of CPU, {mib:.0f} MiB (limit {LIMIT_MIB:.0f})"
    )
    return process.returncode == 0 and took <= LIMIT_S and mib <= LIMIT_MIB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--judge-only", action="store_true")
    arguments = parser.parse_args()
    judge_alone(arguments.nodes)
    return 0 if arguments.judge_only or whole_role(arguments.nodes) else 1


if __name__ == "__main__":
    sys.exit(main())
