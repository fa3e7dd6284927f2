"""A server and a client of perftest on two nodes."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from rdma_vm import GuestProcess, Node, Result


@dataclass(frozen=True)
class Run:
    """Both ends of a measurement that has ended."""

    server: Result
    client: Result


def start_server(node: Node, *options: str, tool: str = "ib_write_bw") -> GuestProcess:
    """Starts a server on the first device of a node and waits until it listens."""
    server = node.popen(["stdbuf", "-oL", tool, "-d", node.device, *options])
    node.wait_listening()
    return server


def start_client(
    node: Node, server: Node, *options: str, tool: str = "ib_write_bw"
) -> GuestProcess:
    return node.popen(["stdbuf", "-oL", tool, "-d", node.device, *options, server.address])


def measure(server: Node, client: Node, *options: str, tool: str = "ib_write_bw") -> Run:
    """A whole measurement. A server whose client failed would wait for ever: it is ended."""
    serving = start_server(server, *options, tool=tool)
    result = start_client(client, server, *options, tool=tool).wait(120)
    if result.returncode != 0:
        serving.send_signal(signal.SIGTERM)
    return Run(serving.wait(60), result)


def row(text: str, size: int) -> list[float]:
    """The numbers of the row of that message size, size and iterations included."""
    found = re.search(rf"^ *{size} +[\d. \t]+$", text, re.M)
    assert found, f"no row of {size} bytes in:\n{text}"
    return [float(word) for word in found[0].split()]


def gids(text: str) -> list[str]:
    """The GIDs that a perftest printed: its own, then the other end's."""
    return re.findall(r"^ GID: (\S+)", text, re.M)
