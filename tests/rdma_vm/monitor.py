"""A client of qemu's monitor protocol (QMP), as much of it as is needed here."""

from __future__ import annotations

import json
import shlex
import socket
import time
from pathlib import Path
from typing import Any

from .errors import GuestError


class Monitor:
    """A connection to one qemu; a context manager."""

    def __init__(self, path: Path, timeout: float = 30) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._file = self._socket.makefile("rw", encoding="utf-8")
        self._file.readline()  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: Any) -> Any:
        """Runs a command and returns what it returns. Raises GuestError with qemu's words when it refuses."""
        self._file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._file.flush()
        while line := self._file.readline():
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise GuestError(f"qemu refuses {command}: {answer['error'].get('desc')}")
        raise GuestError(f"qemu ended during {command}")

    def save(self, file: Path, timeout: float = 120) -> None:
        """Writes the state of the whole machine to a file, compressed, and leaves the machine stopped."""
        self.execute("migrate", uri=f"exec:zstd -1 -q -f -o {shlex.quote(str(file))}")
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            state = self.execute("query-migrate")
            if state.get("status") == "completed":
                return
            if state.get("status") in ("failed", "cancelled"):
                raise GuestError(f"the snapshot failed: {state.get('error-desc', state['status'])}")
            time.sleep(0.05)
        raise GuestError(f"the snapshot was not done after {timeout} s")

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        self._socket.close()
