"""Runs the role rdma_test on simulated clusters of growing size and prints what it costs, as a Markdown table.

    PYTHONPATH=tests python tests/bench/fleet.py [--nodes 2,8,64] [--rails 1] [--plan adaptive] [--time-scale 0.1]

Each size has a cluster of its own; it runs on this machine too and takes its share of the CPUs. Benchmark time is the sum over
rounds of the slowest link; overhead is the wall time of ansible-playbook without it; CPU is its own and its modules'. Memory is
the largest resident set of one of its processes. API requests are those that the simulated API server counted, an exec being one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from exec_three_ways import REPOSITORY, playbook, simulator

ROLE = {"ansible.builtin.include_role": {"name": "k8si.fabric.rdma_test"}}
LETTERS = "abcdefgh"


def variables(rails: int, plan: str) -> dict:
    """The role's variables: all nodes, and the rails as the simulated cluster names them."""
    made: dict = {"rdma_test_nodes": "all", "rdma_test_plan": plan}
    if rails > 1:
        made["rdma_test_rails"] = [
            {"network": f"rdma-net-rail-{k}", "resource": f"rdma/rdma_shared_device_{LETTERS[k]}"}
            for k in range(rails)
        ]
    return made


def run(where: Path, nodes: int, rails: int, plan: str, time_scale: float) -> dict:
    """One row of the table. Raises CalledProcessError when the role does not pass."""
    cluster, result = where / f"cluster-{nodes}", where / f"result-{nodes}.json"
    sizes = ("--nodes", str(nodes), "--rails", str(rails), "--time-scale", str(time_scale))
    kubeconfig = simulator("start", str(cluster), *sizes)["kubeconfig"]
    keep = {
        "ansible.builtin.copy": {
            "content": "{{ rdma_test_result.links | to_json }}",
            "dest": str(result),
            "mode": "0600",
        }
    }
    play = playbook(where, f"fleet-{nodes}", ROLE, keep)
    command = [*play, "-e", json.dumps(variables(rails, plan))]
    env = {
        **os.environ,
        "KUBECONFIG": kubeconfig,
        "K8S_AUTH_KUBECONFIG": kubeconfig,
        "ANSIBLE_CONFIG": str(where / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".build/collections"),
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    try:
        began = time.monotonic()
        log = where / f"log-{nodes}.txt"
        with log.open("w") as stream:
            done = subprocess.Popen(command, env=env, stdout=stream, stderr=subprocess.STDOUT)
            _pid, status, used = os.wait4(done.pid, 0)
        total = time.monotonic() - began
        if status:
            raise SystemExit(f"{nodes} nodes: the role did not pass\n{log.read_text()[-4000:]}")
        state = json.loads(state_of(cluster))
    finally:
        simulator("stop", str(cluster))
    links = json.loads(result.read_text())
    rounds: dict[int, float] = {}
    for link in links:
        rounds[link["round"]] = max(rounds.get(link["round"], 0.0), link["duration_s"])
    return {
        "nodes": nodes,
        "rounds": len(rounds),
        "measurements": len(links),
        "benchmarks": sum(rounds.values()),
        "total": total,
        "cpu": used.ru_utime + used.ru_stime,
        "memory": used.ru_maxrss / 1024,
        "requests": sum(n for what, n in state["requests"].items() if what != "get pods/exec"),
        "passed": sum(link["verdict"] == "passed" for link in links),
    }


def state_of(cluster: Path) -> str:
    command = [sys.executable, "-m", "simulator", "state", "--dir", str(cluster)]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY / "tests")}
    return subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def table(rows: list[dict]) -> str:
    lines = [
        "| nodes | rounds | measurements | benchmarks, s | total, s | overhead, s | a round, s | CPU, s | memory, MiB | API requests |",
        "| ---: " * 10 + "|",
    ]
    for r in rows:
        over = r["total"] - r["benchmarks"]
        lines.append(
            f"| {r['nodes']} | {r['rounds']} | {r['measurements']} | {r['benchmarks']:.1f} | {r['total']:.1f}"
            f" | {over:.1f} | {over / r['rounds']:.1f} | {r['cpu']:.1f} | {r['memory']:.0f} | {r['requests']} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", default="2,8,64,256,512")
    parser.add_argument("--rails", type=int, default=1)
    parser.add_argument("--plan", default="adaptive")
    parser.add_argument("--time-scale", type=float, default=0.1)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65536)), hard))
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        where = Path(temporary)
        (where / "ansible.cfg").write_text("")
        for nodes in map(int, options.nodes.split(",")):
            rows.append(run(where, nodes, options.rails, options.plan, options.time_scale))
            print(table(rows[-1:]).splitlines()[-1], file=sys.stderr)
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, load {load}\n")
    print(table(rows))


if __name__ == "__main__":
    main()
