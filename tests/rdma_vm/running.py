"""Guests that outlive the command that started them (`up`, `exec`, `down`), by a file in the cache folder."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

from .errors import GuestError
from .guest import Guest, GuestGroup
from .node import Node


def up(cache: Path, nodes: int, group: bool, lifetime_s: float) -> list[Node]:
    """Starts a guest or a group that ends after `lifetime_s` seconds or by `down`. One at a time a cache folder."""
    if _read(cache) is not None:
        raise GuestError("guests of this cache folder are up; `down` ends them")
    kind = GuestGroup if group else Guest
    fabric = kind(nodes, cache, lifetime_s=lifetime_s, detached=True)
    state = {
        "keeper": fabric.keeper.process.pid,
        "directory": str(fabric.keeper.directory),
        "nodes": [node.as_dict() for node in fabric.nodes],
    }
    _file(cache).write_text(json.dumps(state, indent=2) + "\n")
    fabric.keeper.forget()
    return fabric.nodes


def nodes(cache: Path) -> list[Node]:
    """The nodes that `up` made. Raises GuestError when none are up."""
    state = _read(cache)
    if state is None:
        raise GuestError("no guests of this cache folder are up; `up` starts them")
    return [Node.from_dict(node) for node in state["nodes"]]


def down(cache: Path, timeout: float = 10) -> None:
    """Ends them and waits until they are gone. Harmless when none are up."""
    state = _read(cache)
    if state is not None:
        os.kill(state["keeper"], signal.SIGTERM)
        deadline = time.monotonic() + timeout
        while _read(cache) is not None:
            if time.monotonic() > deadline:
                raise GuestError(f"the keeper, process {state['keeper']}, does not end")
            time.sleep(0.02)
    _file(cache).unlink(missing_ok=True)


def _file(cache: Path) -> Path:
    return cache / "up.json"


def _read(cache: Path) -> dict | None:
    """The state, if its keeper still runs: it removes its folder as the last thing it does."""
    try:
        state = json.loads(_file(cache).read_text())
        command = Path(f"/proc/{state['keeper']}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return state if b"keeper.py" in command and Path(state["directory"]).is_dir() else None
