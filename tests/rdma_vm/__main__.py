"""Command line: python -m rdma_vm build|snapshot|up|exec|down"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from . import image, running
from .cache import default_cache
from .errors import RdmaVmError
from .guest import Guest, GuestGroup
from .machine import DEFAULT_LIFETIME_S
from .process import STDOUT


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns its exit code. `exec` ends with the code of the program in the guest."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except (RdmaVmError, ValueError, TimeoutError) as error:
        print(f"rdma_vm: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _build(options: argparse.Namespace) -> int:
    began = time.monotonic()
    built = image.build(options.cache)
    print(
        f"built in {time.monotonic() - began:.1f} s: "
        f"kernel {built.kernel_version}, perftest {built.perftest_version}"
    )
    return 0


def _snapshot(options: argparse.Namespace) -> int:
    began = time.monotonic()
    with (GuestGroup if options.group else Guest)(options.nodes, options.cache) as fabric:
        print(
            f"ready in {time.monotonic() - began:.1f} s; from now on {fabric.restore_s:.1f} s ({fabric.shape.accelerator})"
        )
    return 0


def _up(options: argparse.Namespace) -> int:
    for node in running.up(options.cache, options.nodes, options.group, options.lifetime):
        print(f"{node.name} {node.device} {node.interface} {node.address}")
    return 0


def _exec(options: argparse.Namespace) -> int:
    found = running.nodes(options.cache)
    if not 1 <= options.node <= len(found):
        raise ValueError(f"node {options.node} is not in 1..{len(found)}")

    def show(stream: int, data: bytes) -> None:
        file = sys.stdout.buffer if stream == STDOUT else sys.stderr.buffer
        file.write(data)
        file.flush()

    with found[options.node - 1].popen(options.command, on_output=show) as process:
        signal.signal(signal.SIGTERM, lambda number, frame: process.send_signal(number))
        result = process.wait(options.timeout)
    if process.start_error is not None:
        print(f"rdma_vm: the guest cannot run {options.command[0]}", file=sys.stderr)
    return result.returncode if result.returncode >= 0 else 128 - result.returncode


def _down(options: argparse.Namespace) -> int:
    running.down(options.cache)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rdma_vm", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        sub.add_argument(
            "--cache",
            type=lambda text: Path(text).absolute(),
            default=default_cache(),
            help="folder of image and snapshots (%(default)s)",
        )
        return sub

    def shape(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--nodes", type=int, default=2, help="number of nodes (%(default)s)")
        sub.add_argument(
            "--group",
            action="store_true",
            help="a guest for each node, as -R needs; else one for all",
        )

    command("build", _build, "build the image from Debian packages")
    shape(command("snapshot", _snapshot, "make what a quick start needs, image included"))
    sub = command("up", _up, "start guests in the background and name their nodes")
    shape(sub)
    sub.add_argument(
        "--lifetime",
        type=float,
        default=DEFAULT_LIFETIME_S,
        help="seconds until they end (%(default)s)",
    )
    sub = command("exec", _exec, "run a program on a node of the guests that are up")
    sub.add_argument("--timeout", type=float, default=600, help="seconds (%(default)s)")
    sub.add_argument("node", type=int, help="number of the node, from 1")
    sub.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments")
    command("down", _down, "end the guests that are up")
    return parser


if __name__ == "__main__":
    sys.exit(main())
