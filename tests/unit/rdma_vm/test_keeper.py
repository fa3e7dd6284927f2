"""The keeper with stand-ins for qemu: nothing outlives its owner, and frames go where they belong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rdma_vm import keeper as keeper_module
from rdma_vm.keeper import Switch

KEEPER = keeper_module.__file__

OWNER = """
import json, os, subprocess, sys, time
spec = json.loads(sys.argv[1])
spec["owner"] = os.getpid() if spec.pop("tied") else None
keeper = subprocess.Popen([sys.executable, "-I", sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
keeper.stdin.write(json.dumps(spec).encode() + b"\\n")
keeper.stdin.flush()
print(keeper.pid, keeper.stdout.readline().decode(), flush=True)
if os.fork() == 0:
    time.sleep(60)  # a child that inherited the pipe must not keep the guests alive
time.sleep(60)
"""


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(*pids: int, seconds: float = 5, directory: Path | None = None) -> bool:
    """Whether the processes end, and the folder goes, in that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(alive(pid) for pid in pids) and not (directory and directory.exists()):
            return True
        time.sleep(0.02)
    return False


class Running:
    """An owner process, its keeper and two stand-ins for qemu."""

    def __init__(self, directory: Path, lifetime_s: float = 60, tied: bool = True) -> None:
        self.directory = directory
        # It ignores the signals that a shell would send.
        stubborn = "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
        guest = {
            "command": [sys.executable, "-c", stubborn],
            "interfaces": 0,
            "address_space": 4 << 30,
            "log": str(directory / "log"),
            "console": str(directory / "console"),
        }
        spec = {
            "lifetime_s": lifetime_s,
            "directory": str(directory),
            "guests": [guest, guest],
            "tied": tied,
        }
        self.owner = subprocess.Popen(
            [sys.executable, "-c", OWNER, json.dumps(spec), KEEPER],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.owner.stdout
        keeper, _unused, qemus = self.owner.stdout.readline().partition(" ")
        self.keeper = int(keeper)
        self.qemus: list[int] = json.loads(qemus)

    @property
    def all_gone(self) -> bool:
        return gone(self.keeper, *self.qemus, directory=self.directory)

    def clean(self) -> None:
        for pid in (*self.qemus, self.keeper):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        os.killpg(self.owner.pid, signal.SIGKILL)
        self.owner.wait()
        assert self.owner.stdout
        self.owner.stdout.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[type]:
    started: list[Running] = []

    def start(**options) -> Running:
        directory = tmp_path / str(len(started))
        directory.mkdir()
        started.append(Running(directory, **options))
        return started[-1]

    yield start
    for running in started:
        running.clean()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV])
def test_guests_end_with_their_owner_however_it_ends(run, number: int) -> None:
    running = run()
    assert all(map(alive, running.qemus))
    os.kill(running.owner.pid, number)
    assert running.all_gone


def test_guests_end_when_the_keeper_is_killed(run) -> None:
    running = run()
    os.kill(running.keeper, signal.SIGKILL)
    assert gone(*running.qemus)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_keeper_ends_its_guests_when_asked_to(run, number: int) -> None:
    running = run()
    os.kill(running.keeper, number)
    assert running.all_gone


def test_guests_end_with_their_lifetime(run) -> None:
    assert run(lifetime_s=0.3, tied=False).all_gone


def test_guests_that_are_not_tied_outlive_their_owner(run) -> None:
    running = run(tied=False)
    os.kill(running.owner.pid, signal.SIGKILL)
    running.owner.wait()
    time.sleep(0.3)
    assert all(map(alive, running.qemus))
    os.kill(running.keeper, signal.SIGTERM)
    assert running.all_gone


def test_a_group_ends_when_one_guest_does(run) -> None:
    running = run()
    os.kill(running.qemus[0], signal.SIGKILL)
    assert running.all_gone


def frame(destination: int, source: int, payload: bytes = b"x" * 50) -> bytes:
    data = bytes(5) + bytes([destination]) + bytes(5) + bytes([source]) + payload
    return len(data).to_bytes(4, "big") + data


BROADCAST = b"\xff" * 6


@pytest.fixture
def switch() -> Iterator[tuple[Switch, list[socket.socket]]]:
    switch = Switch()
    ends = [switch.plug(segment)[1] for segment in (0, 0, 0, 1)]
    yield switch, ends
    for end in ends:
        end.close()
    for port in switch.ports:
        port.socket.close()


def received(end: socket.socket) -> bytes:
    try:
        return end.recv(1 << 20, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return b""


def test_unknown_destinations_are_flooded_within_their_segment(switch) -> None:
    device, ends = switch
    ends[0].send(frame(2, 1))
    assert device.receive(device.ports[0])
    assert [received(end) for end in ends] == [b"", frame(2, 1), frame(2, 1), b""]


def test_known_destinations_get_their_frames_alone(switch) -> None:
    device, ends = switch
    ends[1].send(frame(9, 2))
    device.receive(device.ports[1])
    for end in ends:
        received(end)
    ends[0].send(frame(2, 1) + frame(2, 1, b"y" * 20))
    device.receive(device.ports[0])
    assert [received(end) for end in ends] == [
        b"",
        frame(2, 1) + frame(2, 1, b"y" * 20),
        b"",
        b"",
    ]


def test_frames_in_pieces_are_put_together(switch) -> None:
    device, ends = switch
    for byte in frame(2, 1):
        ends[0].send(bytes([byte]))
        assert device.receive(device.ports[0])
    assert received(ends[1]) == frame(2, 1)


def test_a_slow_guest_gets_what_fits_and_in_order(switch, monkeypatch) -> None:
    device, ends = switch
    big = [frame(2, 1, bytes([n]) * 60000) for n in range(200)]
    monkeypatch.setattr(keeper_module, "QUEUE_BYTES", 3_000_000)
    for one in big:
        ends[0].sendall(one)
        device.receive(device.ports[0])
    assert device.ports[1].waiting_bytes <= 3_000_000
    taken = bytearray()
    while chunk := received(ends[1]):
        taken += chunk
        device.ports[1].flush()
    assert len(big[0]) * 40 < len(taken) < len(big[0]) * 200
    assert bytes(taken) == b"".join(big[: len(taken) // len(big[0])])


def test_a_closed_interface_is_noticed(switch) -> None:
    device, ends = switch
    ends[0].close()
    assert not device.receive(device.ports[0])
