"""The process of a cluster with guests, and what starts and stops it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import simulator.server
from rdma_vm import GuestGroup, Node, default_cache
from simulator import client
from simulator.client import SimulatorError
from simulator.config import Config

from .cluster import GuestCluster

PACKAGE_PARENT = Path(__file__).resolve().parents[1]
LIFETIME_S = 3600
START_SECONDS = 300
"""The first start downloads packages and boots; with a snapshot it takes about 2 s."""


def start(
    folder: str | os.PathLike[str], config: Config, cache: Path | None = None
) -> dict[str, Any]:
    """Starts a cluster in the background and returns when it is ready: `kubeconfig`, `kubeconfig_fabric`, `pid`.

    `folder` also gets nodes.json, with which `nodes` finds the guests. Stop it with `stop`; its guests end with it,
    and after an hour at the latest. Raises SimulatorError.
    """
    where = Path(folder).resolve()
    where.mkdir(parents=True, exist_ok=True)
    for name in ("pid", "control", "nodes.json"):
        (where / name).unlink(missing_ok=True)
    settings = json.dumps(
        {
            "config": config.as_dict(),
            "folder": str(where),
            "cache": str((cache or default_cache()).absolute()),
        }
    )
    paths = [str(PACKAGE_PARENT), os.environ.get("PYTHONPATH", "")]
    with open(where / "log", "ab") as log:
        # The word "simulator" is what the simulator's own client knows its processes by.
        child = subprocess.Popen(
            [sys.executable, "-m", "simulator_rdma", "simulator", settings],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            cwd="/",
            start_new_session=True,
        )
    end = time.monotonic() + START_SECONDS
    while not (where / "pid").exists():
        if child.poll() is not None or time.monotonic() > end:
            child.kill()
            child.wait()
            text = (where / "log").read_text(errors="replace")[-2000:]
            raise SimulatorError(f"the cluster with guests did not start:\n{text}")
        time.sleep(0.02)
    return {
        "kubeconfig": str(where / "kubeconfig"),
        "kubeconfig_fabric": str(where / "kubeconfig-fabric"),
        "pid": int((where / "pid").read_text()),
    }


def stop(folder: str | os.PathLike[str]) -> bool:
    """Stops the cluster and its guests; False when none ran."""
    return client.stop(folder)


def nodes(folder: str | os.PathLike[str]) -> dict[str, Node]:
    """{name of a Kubernetes node: its guest's node}: to cut links, to limit them, to look for processes."""
    stored = json.loads((Path(folder) / "nodes.json").read_text())
    return {name: Node.from_dict(node) for name, node in stored.items()}


def run(config: dict[str, Any], folder: str, cache: str) -> None:
    """The body of the background process."""
    settings = Config(**config)
    group = GuestGroup(settings.nodes, Path(cache), rails=settings.rails, lifetime_s=LIFETIME_S)
    with group:
        names = settings.node_names()
        stored = {name: node.as_dict() for name, node in zip(names, group.nodes, strict=True)}
        (Path(folder) / "nodes.json").write_text(json.dumps(stored, indent=2) + "\n")

        def make(made_of: Config, trees: str) -> GuestCluster:
            return GuestCluster(made_of, trees, group)

        simulator.server.run(config, folder, port=0, make=make)
