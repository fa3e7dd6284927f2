"""The process that owns the qemus of a guest or a group, so that none of them outlives its purpose.

It is started by `machine.py` and reads one line of JSON from its standard input: what to run, for whom, how long. It ends every qemu and
itself when
  * its owner ends, in whatever way, SIGKILL included (a pidfd of the owner, and the end of standard input),
  * the lifetime is over,
  * one of the qemus ends, because a group without one of its guests is of no use,
  * it is asked to (SIGTERM, SIGINT, SIGHUP).
If the keeper itself is killed, the kernel kills the qemus (PR_SET_PDEATHSIG). So no signal handler is installed in the
owner's process. The keeper is also the switch between the guests: all of a group's traffic stays in socket pairs.

Runs as a script, with nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field

PR_SET_PDEATHSIG = 1
NICENESS = 10
QUEUE_BYTES = 16 << 20
"""What a switch port holds for a slow guest before it drops frames. rxe has at most 128 packets of 4 KiB under way."""


@dataclass
class Port:
    """The switch's end of one network interface of one guest; frames are preceded by their length (qemu's format)."""

    segment: int
    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    waiting: deque[bytes] = field(default_factory=deque)
    waiting_bytes: int = 0

    def frames(self) -> list[bytes]:
        """The complete frames received, each with its length before it."""
        data, start, frames = self.received, 0, []
        while len(data) - start >= 4:
            end = start + 4 + int.from_bytes(data[start : start + 4], "big")
            if len(data) < end:
                break
            frames.append(bytes(data[start:end]))
            start = end
        del data[:start]
        return frames

    def queue(self, frame: bytes) -> None:
        """Keeps a frame for sending, or drops it, as a switch does whose buffer is full."""
        if self.waiting_bytes + len(frame) <= QUEUE_BYTES:
            self.waiting.append(frame)
            self.waiting_bytes += len(frame)

    def flush(self) -> None:
        """Sends what can be sent without waiting."""
        while self.waiting:
            chunk = b"".join(
                [self.waiting.popleft() for _unused in range(min(len(self.waiting), 32))]
            )
            try:
                sent = self.socket.send(chunk)
            except BlockingIOError:
                sent = 0
            self.waiting_bytes -= sent
            if sent < len(chunk):
                self.waiting.appendleft(chunk[sent:])
                return


class Switch:
    """Ethernet switches, one a segment, that learn which address is behind which port."""

    def __init__(self) -> None:
        self.ports: list[Port] = []
        self._behind: dict[tuple[int, bytes], Port] = {}

    def plug(self, segment: int) -> tuple[Port, socket.socket]:
        """A new port, and the end that the guest gets."""
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for end in (here, there):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        here.setblocking(False)
        port = Port(segment, here)
        self.ports.append(port)
        return port, there

    def receive(self, port: Port) -> bool:
        """Moves what a guest sent to the ports it is for. False when the guest closed its end."""
        try:
            data = port.socket.recv(1 << 18)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        port.received += data
        for frame in port.frames():
            destination, source = frame[4:10], frame[10:16]
            self._behind[port.segment, source] = port
            known = self._behind.get((port.segment, destination))
            for other in [known] if known else self.ports:
                if other is not port and other.segment == port.segment:
                    other.queue(frame)
        for other in self.ports:
            other.flush()
        return True


def start_qemu(guest: dict, switch: Switch) -> subprocess.Popen[bytes]:
    """Starts one guest, with its interfaces plugged into the switch, so that it dies with this process."""
    keeper = os.getpid()
    libc = ctypes.CDLL(None, use_errno=True)
    command = list(guest["command"])
    ends = []
    for number in range(guest["interfaces"]):
        _unused, end = switch.plug(number)
        ends.append(end)
        command += ["-netdev", f"socket,id=net{number},fd={end.fileno()}"]

    def in_child() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:  # it ended before the line above
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_AS, (guest["address_space"], guest["address_space"]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with open(guest["log"], "ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[end.fileno() for end in ends],
            preexec_fn=in_child,  # this process has one thread
        )
    for end in ends:
        end.close()
    return process


def keep(spec: dict) -> str:
    """Runs the guests of `spec` until the first reason to end, and returns that."""
    deadline = time.monotonic() + spec["lifetime_s"]
    selector = selectors.DefaultSelector()
    switch = Switch()
    qemus: list[subprocess.Popen[bytes]] = []
    ending: list[int] = []
    wake_read, wake_write = os.pipe()
    for end in (wake_read, wake_write):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: ending.append(number))
    selector.register(wake_read, selectors.EVENT_READ, "a signal")
    try:
        if spec["owner"] is not None:
            selector.register(sys.stdin.buffer, selectors.EVENT_READ, "its owner ended")
            try:
                owner = os.pidfd_open(spec["owner"])
            except ProcessLookupError:
                return "its owner ended"
            selector.register(owner, selectors.EVENT_READ, "its owner ended")
        for number, guest in enumerate(spec["guests"]):
            qemus.append(start_qemu(guest, switch))
            end = os.pidfd_open(qemus[-1].pid)
            selector.register(end, selectors.EVENT_READ, f"qemu of guest {number} ended")
        for port in switch.ports:
            selector.register(port.socket, selectors.EVENT_READ, port)
        say([qemu.pid for qemu in qemus])
        while not ending:
            left = deadline - time.monotonic()
            if left <= 0:
                return f"its lifetime of {spec['lifetime_s']} s is over"
            for key, events in selector.select(left):
                if isinstance(key.data, str):
                    return key.data
                port = key.data
                if events & selectors.EVENT_WRITE:
                    port.flush()
                if events & selectors.EVENT_READ and not switch.receive(port):
                    return "a guest closed its network interface"
            for port in switch.ports:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if port.waiting else 0)
                if selector.get_key(port.socket).events != wanted:
                    selector.modify(port.socket, wanted, port)
        return f"signal {ending[0]}"
    finally:
        for qemu in qemus:
            qemu.kill()
        for qemu in qemus:
            qemu.wait()


def say(message: object) -> None:
    """One line of JSON for the owner, who may be gone."""
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")


def last_words(spec: dict) -> str:
    """What the qemus and the guests' consoles said last."""
    texts = []
    for guest in spec["guests"]:
        for file in (guest["log"], guest["console"]):
            with contextlib.suppress(OSError), open(file, errors="replace") as text:
                texts.append(text.read()[-2000:].strip())
    return "\n".join(filter(None, texts))


def main() -> None:
    spec = json.loads(sys.stdin.buffer.raw.readline())  # unbuffered: select() must see what follows
    os.nice(NICENESS)
    try:
        reason = keep(spec)
        say({"ended": reason, "log": last_words(spec)})
    finally:
        shutil.rmtree(spec["directory"], ignore_errors=True)


if __name__ == "__main__":
    main()
