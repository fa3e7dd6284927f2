"""The command line: python -m simulator start | stop | faults | fault | state | reset."""

from __future__ import annotations

import argparse
import json
import sys

from . import client
from .config import Config
from .perftest.options import VERSIONS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m simulator", description="A simulated GPU cluster."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    defaults = Config()

    start = commands.add_parser(
        "start", help="start a cluster in the background; returns when it is ready"
    )
    start.add_argument(
        "--dir", required=True, help="its folder: kubeconfig, kubeconfig-fabric, pid, log, control"
    )
    start.add_argument("--nodes", type=int, default=defaults.nodes)
    start.add_argument(
        "--rails", type=int, default=defaults.rails, choices=range(1, 9), help="RDMA ports a node"
    )
    start.add_argument("--gpus", type=int, default=defaults.gpus, help="GPUs a node")
    start.add_argument(
        "--busy-gpus", type=int, default=0, help="GPUs a node that others already use"
    )
    start.add_argument("--fault", action="append", default=[], metavar="NAME[:key=value,...]")
    start.add_argument("--port", type=int, default=0, help="of the API server; 0 takes a free one")
    start.add_argument("--seed", type=int, default=defaults.seed)
    start.add_argument(
        "--perftest", choices=VERSIONS, default=defaults.perftest, help="version in the images"
    )
    start.add_argument(
        "--time-scale",
        type=float,
        default=defaults.time_scale,
        help="1.0: perftest takes real time",
    )
    start.add_argument(
        "--start-delay", type=float, default=defaults.start_delay, help="seconds until a pod runs"
    )
    start.add_argument(
        "--stop-delay",
        type=float,
        default=defaults.stop_delay,
        help="seconds until a deleted pod is gone",
    )
    start.add_argument(
        "--ip",
        choices=("4", "6", "46"),
        default=defaults.ip,
        help="families of the pods' addresses",
    )
    start.add_argument("--link", choices=("ethernet", "infiniband"), default=defaults.link)
    start.add_argument("--line-rate", type=float, default=defaults.line_rate, help="Gb/s of a rail")
    start.add_argument(
        "--rbac", default="", help="manifest with the service account of kubeconfig-fabric"
    )

    for name, text in (
        ("stop", "stop a cluster"),
        ("state", "pods, processes, counts of requests, as JSON"),
        ("reset", "remove what was not there at the start"),
    ):
        commands.add_parser(name, help=text).add_argument("--dir", required=True)
    listing = commands.add_parser("faults", help="list the faults")
    listing.add_argument("--json", action="store_true", help="with parameters and the whole text")
    change = commands.add_parser(
        "fault", help="switch faults on, and all others off; none: all off"
    )
    change.add_argument("--dir", required=True)
    change.add_argument("name", nargs="+", metavar="NAME[:key=value,...]")
    commands.add_parser("serve").add_argument("settings")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs a command; returns the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        return _run(arguments)
    except client.SimulatorError as error:
        print(f"simulator: {error}", file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    command = arguments.command
    if command == "serve":
        from .server import run

        run(**json.loads(arguments.settings))
    elif command == "start":
        values = vars(arguments)
        config = Config(
            **{k: values[k] for k in Config.__dataclass_fields__ if k in values},
            faults=arguments.fault,
        )
        _check(arguments.fault)
        print(json.dumps(client.start(arguments.dir, config, arguments.port)))
    elif command == "stop":
        client.stop(arguments.dir)
    elif command == "state":
        print(json.dumps(client.state(arguments.dir), indent=2))
    elif command == "reset":
        client.reset(arguments.dir)
    elif command == "fault":
        print(
            json.dumps(client.set_faults(arguments.dir, [n for n in arguments.name if n != "none"]))
        )
    elif command == "faults":
        _faults(arguments.json)
    return 0


def _check(faults: list[str]) -> None:
    from .faults import UnknownFault, parse

    for text in faults:
        try:
            parse(text)
        except UnknownFault as error:
            raise client.SimulatorError(str(error)) from error


def _faults(as_json: bool) -> None:
    from .faults import FAULTS

    if as_json:
        rows = [
            {"name": f.name, "summary": f.summary, "description": f.text, "parameters": f.defaults}
            for f in FAULTS.values()
        ]
        print(json.dumps(rows, indent=2))
        return
    width = max(map(len, FAULTS))
    for found in FAULTS.values():
        print(f"{found.name:<{width}}  {found.summary}")
