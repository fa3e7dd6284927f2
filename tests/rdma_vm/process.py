"""A program that runs in a guest, as seen from the host."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .errors import GuestError

_OUT, _ERR, _EXIT, _SIGNAL, _PID, _FAILED = range(1, 7)  # frame types: see guest/agent.c

STDOUT = 1
STDERR = 2

OutputCallback = Callable[[int, bytes], None]
"""Called from a thread of the process, with STDOUT or STDERR and the bytes, as they arrive."""


@dataclass(frozen=True)
class Result:
    """A finished program: both streams, and its exit code, or minus the number of the signal that ended it."""

    stdout: bytes
    stderr: bytes
    returncode: int

    @property
    def out(self) -> str:
        return self.stdout.decode(errors="replace")

    @property
    def err(self) -> str:
        return self.stderr.decode(errors="replace")


class GuestProcess:
    """One program in a guest. Its standard input is empty; it leads a process group of its own.

    `linger` False: closing this object, or the end of this Python process, kills the process group.
    `linger` True: it then runs on, as a command does whose `kubectl exec` lost its connection.
    """

    def __init__(
        self,
        port: int,
        argv: Sequence[str],
        *,
        linger: bool = False,
        on_output: OutputCallback | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """Starts argv through the agent that listens on that port of 127.0.0.1. Raises GuestError when it is not there.

        `on_output` and `on_end` are called from a thread of this object: for every piece of output, and once when
        the program has ended or is lost.
        """
        if not argv:
            raise ValueError("argv is empty")
        self.argv = list(argv)
        self.pid: int | None = None
        """Its pid in the guest, from the moment it runs."""
        self.returncode: int | None = None
        """Exit code, or minus the number of a signal; None while it runs. 127 or 126: it could not be started."""
        self.start_error: int | None = None
        """The errno when it could not be started."""
        self._on_output = on_output
        self._on_end = on_end
        self._streams = {STDOUT: bytearray(), STDERR: bytearray()}
        self._changed = threading.Condition()
        self._ended = False
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
            self._socket.settimeout(None)
            words = ["linger" if linger else "bound", *argv]
            request = b"".join(os.fsencode(word) + b"\0" for word in words)
            self._socket.sendall(struct.pack(">I", len(request)) + request)
        except OSError as error:
            raise GuestError(f"the guest does not answer on port {port}: {error}") from error
        self._reader = threading.Thread(target=self._read, name=f"guest {argv[0]}", daemon=True)
        self._reader.start()

    @property
    def stdout(self) -> bytes:
        """What it has written so far."""
        with self._changed:
            return bytes(self._streams[STDOUT])

    @property
    def stderr(self) -> bytes:
        with self._changed:
            return bytes(self._streams[STDERR])

    @property
    def lost(self) -> bool:
        """The connection ended before the program did: it was closed, or the guest is gone."""
        with self._changed:
            return self._ended and self.returncode is None

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        with self._changed:
            return self.returncode

    def wait(self, timeout: float = 60) -> Result:
        """The result once it has ended. Raises TimeoutError (it runs on) or GuestError (the guest is gone)."""
        self._wait_until(lambda: self._ended, timeout, f"{self.argv} still runs after {timeout} s")
        if self.returncode is None:
            raise GuestError(f"lost the guest while {self.argv} was running")
        return Result(self.stdout, self.stderr, self.returncode)

    def wait_started(self, timeout: float = 30) -> None:
        """Returns when it runs or could not be started: then `pid` or `start_error` is known."""
        self._wait_until(
            lambda: self.pid is not None or self._ended, timeout, f"{self.argv} did not start"
        )

    def wait_for(self, text: bytes, timeout: float = 30) -> bool:
        """Waits until its standard output holds a text. False when it ended without; TimeoutError after that time.

        perftest writes to a pipe in blocks: run it under `stdbuf -oL`.
        """
        out = self._streams[STDOUT]
        self._wait_until(lambda: text in out or self._ended, timeout, f"no {text!r} so far")
        return text in self.stdout

    def send_signal(self, number: int) -> None:
        """Sends a signal to its whole process group."""
        with contextlib.suppress(OSError):  # it has ended
            self._socket.sendall(struct.pack(">BII", _SIGNAL, 4, number))

    def close(self) -> None:
        """Gives up the connection; see `linger` for what becomes of the program. Harmless when it has ended."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._reader:
            self._reader.join(10)

    def __enter__(self) -> GuestProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _wait_until(self, condition: Callable[[], bool], timeout: float, message: str) -> None:
        deadline = time.monotonic() + timeout
        with self._changed:
            if not self._changed.wait_for(condition, max(0, deadline - time.monotonic())):
                raise TimeoutError(message)

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while self.returncode is None:
                kind, length = struct.unpack(">BI", self._receive(5))
                self._take(kind, self._receive(length))
        self._socket.close()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._on_end:
            self._on_end()

    def _take(self, kind: int, data: bytes) -> None:
        if kind in (_OUT, _ERR) and self._on_output:
            self._on_output(STDOUT if kind == _OUT else STDERR, data)
        with self._changed:
            if kind in (_OUT, _ERR):
                self._streams[STDOUT if kind == _OUT else STDERR] += data
            elif kind == _PID:
                self.pid = int.from_bytes(data, "big")
            elif kind == _FAILED:
                self.start_error = int.from_bytes(data, "big")
                self.returncode = 127 if self.start_error == 2 else 126
            elif kind == _EXIT:
                self.returncode = int.from_bytes(data, "big", signed=True)
            self._changed.notify_all()

    def _receive(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            chunk = self._socket.recv(length - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)
