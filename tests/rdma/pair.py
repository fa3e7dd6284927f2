"""A server and a client of perftest on two nodes."""

from __future__ import annotations

import re
import signal
import time
from dataclasses import dataclass

from rdma_vm import GuestProcess, Node, Result

LOST_RACE = "RDMA_CM_EVENT_REJECTED; error: 8"
"""With -R, perftest connects twice: to exchange data, then for the test. Its server listens for the second time only
after it has closed the first connection. A client that is faster is rejected (no such service), and 6.06 then crashes.
On a busy host that is one run in fifteen; the next one works."""


@dataclass(frozen=True)
class Run:
    """Both ends of a measurement that has ended."""

    server: Result
    client: Result


def start_server(
    node: Node, *options: str, tool: str = "ib_write_bw", rail: int = 0
) -> GuestProcess:
    """Starts a server on a device of a node and waits until it listens."""
    server = node.popen(["stdbuf", "-oL", tool, "-d", node.rails[rail].device, *options])
    node.wait_listening()
    return server


def start_client(
    node: Node, server: Node, *options: str, tool: str = "ib_write_bw", rail: int = 0
) -> GuestProcess:
    command = ["stdbuf", "-oL", tool, "-d", node.rails[rail].device, *options]
    return node.popen([*command, server.rails[rail].address])


def measure(
    server: Node, client: Node, *options: str, tool: str = "ib_write_bw", rail: int = 0
) -> Run:
    """A whole measurement. A server whose client failed would wait for ever: it is ended."""
    for _ in range(4):
        serving = start_server(server, *options, tool=tool, rail=rail)
        result = start_client(client, server, *options, tool=tool, rail=rail).wait(120)
        if result.returncode != 0:
            serving.send_signal(signal.SIGTERM)
        run = Run(serving.wait(60), result)
        if LOST_RACE not in result.err:
            break
    return run


def start_both(
    server: Node, client: Node, *options: str, packets: int = 300
) -> tuple[GuestProcess, GuestProcess]:
    """A server and a client of which the client has sent that many packets: the measurement is under way."""
    counter = ["cat", f"/sys/class/net/{client.interface}/statistics/tx_packets"]
    for _ in range(4):
        before = int(client.check(counter))
        serving = start_server(server, *options)
        measuring = start_client(client, server, *options)
        deadline = time.monotonic() + 60
        while measuring.poll() is None and time.monotonic() < deadline:
            if int(client.check(counter)) > before + packets:
                return serving, measuring
        serving.send_signal(signal.SIGTERM)
        assert LOST_RACE.encode() in measuring.stderr, (measuring.stdout, measuring.stderr)
        serving.wait(10)
    raise AssertionError("no measurement came under way")


def row(text: str, size: int) -> list[float]:
    """The numbers of the row of that message size, size and iterations included."""
    found = re.search(rf"^ *{size} +[\d. \t]+$", text, re.M)
    assert found, f"no row of {size} bytes in:\n{text}"
    return [float(word) for word in found[0].split()]


def gids(text: str) -> list[str]:
    """The GIDs that a perftest printed: its own, then the other end's."""
    return re.findall(r"^ GID: (\S+)", text, re.M)
