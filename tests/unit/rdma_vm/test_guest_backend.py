"""The backend of the simulated cluster, with a stand-in for the guest's agent."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading

import pytest
from rdma_vm import Node, Rail

pytest.importorskip("aiohttp", reason="the simulated cluster needs aiohttp")

from simulator.machine import Machine
from simulator_rdma.backend import GuestBackend

ENVIRONMENT = {"PATH": "/usr/bin", "HOSTNAME": "pod"}


class Agent:
    """Answers as the agent does: the listing of programs, `sleep` until a signal comes, or `talk`."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        def send(kind: int, data: bytes) -> None:
            connection.sendall(struct.pack(">BI", kind, len(data)) + data)

        with connection:
            (length,) = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))
            request = connection.recv(length, socket.MSG_WAITALL)
            words = request.decode().split("\0")[1:-1]
            self.requests.append(words)
            send(5, struct.pack(">i", 7))
            if words[-1] == "sleep":
                signal = connection.recv(9, socket.MSG_WAITALL)
                if signal:  # else the host closed the connection
                    send(3, struct.pack(">i", -struct.unpack(">BII", signal)[2]))
            elif words[-1] == "talk":
                send(1, b"out")
                send(2, b"err")
                send(3, struct.pack(">i", 3))
            else:
                send(1, b"/usr/bin/sleep\n/usr/bin/talk\n/bin/sh\n")
                send(3, struct.pack(">i", 0))


@pytest.fixture
def agent():
    agent = Agent()
    yield agent
    agent.close()


@pytest.fixture
def gone() -> set[str]:
    """Programs that a fault has taken from the pods' image."""
    return set()


@pytest.fixture
def backend(agent: Agent, gone: set[str]) -> GuestBackend:
    rail = Rail("mlx5_0", "net1", "10.9.0.1", "02:00:00:09:00:01")
    return GuestBackend({"n1": Node(0, (rail,), agent.port, 1)}, lambda machine: gone)


def machine(**values) -> Machine:
    return Machine("uid", "default", "pod", values.pop("node", "n1"), **values)


def test_knows_what_the_guest_has(backend: GuestBackend, gone: set[str]) -> None:
    for command in ("talk", "sh", "/usr/bin/talk"):
        assert backend.knows(machine(), command)
    for command in ("none", "/bin/talk"):
        assert not backend.knows(machine(), command)
    assert not backend.knows(machine(node="other"), "talk")
    gone.add("talk")
    assert not backend.knows(machine(), "talk")


def test_output_and_status_come_from_the_guest(backend: GuestBackend, agent: Agent) -> None:
    async def run() -> tuple[bytes, bytes, int]:
        process = backend.start(machine(), ["talk"], ENVIRONMENT)
        code = await process.wait()
        return await process.stdout.read(), await process.stderr.read(), code

    assert asyncio.run(run()) == (b"out", b"err", 3)
    assert agent.requests[-1] == ["env", "-i", "PATH=/usr/bin:/bb", "HOSTNAME=pod", "talk"]


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("KILL", 137), ("INT", 130)])
def test_signals_reach_the_guest(backend: GuestBackend, name: str, code: int) -> None:
    async def run() -> int:
        process = backend.start(machine(), ["sleep"], ENVIRONMENT)
        while "TERM" not in process.handlers:
            await asyncio.sleep(0.01)
        process.signal(name)
        return await process.wait()

    assert asyncio.run(run()) == code


def test_the_end_of_a_pod_before_its_command_runs(backend: GuestBackend) -> None:
    async def run() -> int:
        process = backend.start(machine(), ["sleep"], ENVIRONMENT)
        await asyncio.sleep(0)
        process.signal("KILL")
        return await process.wait()

    assert asyncio.run(run()) == 137


def test_limits_of_a_pod_without_ipc_lock(backend: GuestBackend, agent: Agent) -> None:
    async def run() -> None:
        pod = machine(ipc_lock=False, memlock_kib=64)
        await backend.start(pod, ["talk"], ENVIRONMENT).wait()

    asyncio.run(run())
    assert agent.requests[-1][:2] == ["prlimit", "--memlock=65536:65536"]
    assert "--bounding-set=-ipc_lock,-sys_resource" in agent.requests[-1]
