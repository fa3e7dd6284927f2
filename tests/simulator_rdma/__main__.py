"""The command line: python -m simulator_rdma start | stop."""

from __future__ import annotations

import argparse
import json
import sys

from rdma_vm import RdmaVmError
from simulator.client import SimulatorError
from simulator.config import Config

from . import server


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m simulator_rdma", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="start a cluster with a guest for each node")
    start.add_argument("--dir", required=True, help="its folder: kubeconfig, log, nodes.json")
    start.add_argument("--nodes", type=int, default=2, help="guests (%(default)s)")
    start.add_argument("--rails", type=int, default=1, help="RDMA ports a node (%(default)s)")
    start.add_argument("--gpus", type=int, default=0, help="GPUs a node claims (%(default)s)")
    commands.add_parser("stop", help="stop it and its guests").add_argument("--dir", required=True)
    commands.add_parser("simulator").add_argument("settings")
    options = parser.parse_args(arguments)
    try:
        if options.command == "start":
            print(
                json.dumps(
                    server.start(
                        options.dir, guest_config(options.nodes, options.rails, options.gpus)
                    )
                )
            )
        elif options.command == "stop":
            server.stop(options.dir)
        else:
            server.run(**json.loads(options.settings))
    except (SimulatorError, RdmaVmError, ValueError) as error:
        print(f"simulator_rdma: {error}", file=sys.stderr)
        return 1
    return 0


def guest_config(nodes: int = 2, rails: int = 1, gpus: int = 0) -> Config:
    """The settings of a cluster with guests: what the simulator says of itself must fit what is in them."""
    return Config(
        nodes=nodes,
        rails=rails,
        gpus=gpus,
        perftest="6.06",
        start_delay=0.05,
        stop_delay=0.05,
        time_scale=1.0,
    )


if __name__ == "__main__":
    sys.exit(main())
