"""Running machines: the keeper process that owns them, and how each is booted, restored and saved."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .errors import GuestError
from .image import Image
from .monitor import Monitor
from .process import GuestProcess
from .shape import Shape

BOOT_SECONDS = 120
RESTORE_SECONDS = 30
DEFAULT_LIFETIME_S = 1800


@dataclass(frozen=True)
class Machine:
    """One running qemu: its folder, and the port of 127.0.0.1 that leads to its agent."""

    directory: Path
    port: int

    @property
    def monitor(self) -> Path:
        return self.directory / "monitor"


class Keeper:
    """The process that owns the qemus (see keeper.py), seen from its owner."""

    def __init__(self, commands: list[dict], directory: Path, lifetime_s: float, detached: bool):
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("keeper.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Who waits for the end of our own streams must not wait for guests that run on.
            stderr=subprocess.DEVNULL if detached else None,
            # A terminal's Ctrl-C is for the owner, which then ends its guests in order.
            start_new_session=True,
        )
        self._end = weakref.finalize(self, _end, self.process)
        spec = {
            "owner": None if detached else os.getpid(),
            "lifetime_s": lifetime_s,
            "directory": str(directory),
            "guests": commands,
        }
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(spec).encode() + b"\n")
        self.process.stdin.flush()
        self.qemu_pids: list[int] = self._line(10)

    def check(self) -> None:
        """Raises GuestError, with the last words of qemu and console, when the keeper has ended."""
        if self.process.poll() is not None:
            self._line(1)
            raise GuestError("the guest's keeper ended")

    def forget(self) -> None:
        """Leaves the keeper to itself: it ends with its lifetime."""
        self._end.detach()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def close(self) -> None:
        """Ends the qemus and waits until they are gone."""
        self._end()

    def _line(self, timeout: float):
        stdout = self.process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], timeout)[0]:
            raise GuestError(f"the guest's keeper said nothing in {timeout} s")
        line = stdout.readline()
        message = json.loads(line) if line else {"ended": "it was killed", "log": ""}
        if isinstance(message, dict):
            self.close()
            raise GuestError(f"the guest ended: {message['ended']}\n{message['log']}".strip())
        return message


def _end(process: subprocess.Popen) -> None:
    with suppress(OSError):
        process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()  # the kernel then kills the qemus
        process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            pipe.close()


def start(
    shape: Shape,
    image: Image,
    snapshots: Sequence[Path | None],
    *,
    lifetime_s: float = DEFAULT_LIFETIME_S,
    detached: bool = False,
) -> tuple[Keeper, list[Machine]]:
    """Starts machines of one shape under one keeper, and returns when their agents answer.

    One machine for each snapshot, restored from it; None means that it boots. Raises GuestError; nothing is left
    running then.
    """
    # Short, because the monitor's socket is in it and such a path has at most 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="rdma_vm-", dir="/tmp"))
    guests = []
    for number, snapshot in enumerate(snapshots):
        own = directory / str(number)
        own.mkdir()
        guests.append(
            {
                "command": shape.command(image, own, snapshot),
                "interfaces": shape.interfaces,
                "address_space": shape.address_space_bytes,
                "log": str(own / "log"),
                "console": str(own / "console"),
            }
        )
    keeper = Keeper(guests, directory, lifetime_s, detached)
    deadline = time.monotonic() + (RESTORE_SECONDS if all(snapshots) else BOOT_SECONDS)
    try:
        machines = [
            _wait_until_ready(keeper, directory / str(number), snapshot is not None, deadline)
            for number, snapshot in enumerate(snapshots)
        ]
    except BaseException:
        keeper.close()
        raise
    return keeper, machines


def _wait_until_ready(keeper: Keeper, directory: Path, restored: bool, deadline: float) -> Machine:
    port = 0
    while True:
        keeper.check()
        if time.monotonic() > deadline:
            console = (directory / "console").read_text(errors="replace")[-2000:]
            raise GuestError(f"the guest was not ready in time. Its console:\n{console}")
        with suppress(OSError):  # not there yet
            if restored or _says_ready(directory / "console"):
                port = port or _running_on_port(directory / "monitor")
        if port:
            with suppress(GuestError, TimeoutError), GuestProcess(port, ["true"]) as process:
                if process.wait(1 if restored else 10).returncode == 0:
                    return Machine(directory, port)
        time.sleep(0.02)


def _says_ready(console: Path) -> bool:
    return b"READY" in console.read_bytes()


def _running_on_port(monitor: Path) -> int:
    """The port of the agent, or 0 while the state is still being read."""
    with Monitor(monitor) as qemu:
        status = qemu.execute("query-status")["status"]
        if status == "inmigrate":
            return 0
        if status != "running":
            qemu.execute("cont")
        answer = qemu.execute("human-monitor-command", **{"command-line": "info usernet"})
    found = re.search(r"HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)", answer)
    if not found:
        raise GuestError(f"qemu does not tell the port of the guest:\n{answer}")
    return int(found[1])
