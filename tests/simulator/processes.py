"""Virtual processes: coroutines with a pid, two output streams and signals, in a table a pod.

A program is a coroutine function `program(context) -> exit status`. It knows nothing of the API; it writes to
`context.stdout` and `context.stderr`, which buffer as the C library does on a pipe.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

SIGNALS = {
    name: int(getattr(signal, f"SIG{name}"))
    for name in ("HUP", "INT", "QUIT", "KILL", "SEGV", "TERM", "USR1", "USR2", "STOP", "CONT")
}


class Pipe:
    """Bytes from a process to whoever reads; nobody has to."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._ready = asyncio.Event()
        self._closed = False
        self.discard = False  # the reader is gone

    def write(self, data: bytes) -> None:
        if data and not self.discard and not self._closed:
            self._chunks.append(data)
            self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def read(self) -> bytes:
        """What has been written since the last read; b"" at the end."""
        while not self._chunks and not self._closed:
            await self._ready.wait()
            self._ready.clear()
        data = b"".join(self._chunks)
        self._chunks.clear()
        if not self._closed:
            self._ready.clear()
        return data


class Output:
    """A C stream on a pipe: `block` keeps 4096 bytes, `line` lets whole lines go, `none` everything at once."""

    BLOCK = 4096

    def __init__(self, pipe: Pipe, mode: str = "block") -> None:
        self.pipe = pipe
        self.mode = mode
        self._kept = bytearray()

    def write(self, text: str | bytes) -> None:
        self._kept += text.encode() if isinstance(text, str) else text
        if self.mode == "none":
            self.flush()
        elif self.mode == "line":
            end = self._kept.rfind(b"\n") + 1
            self.pipe.write(bytes(self._kept[:end]))
            del self._kept[:end]
        elif len(self._kept) >= self.BLOCK:
            whole = len(self._kept) // self.BLOCK * self.BLOCK
            self.pipe.write(bytes(self._kept[:whole]))
            del self._kept[:whole]

    def flush(self) -> None:
        """Lets everything go."""
        self.pipe.write(bytes(self._kept))
        self._kept.clear()


class Stdin:
    """What a client sends; at its end, b""."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._closed = False

    def feed(self, data: bytes) -> None:
        """More input."""
        if not self._closed:
            self._queue.put_nowait(data)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._queue.put_nowait(b"")

    async def read(self) -> bytes:
        data = await self._queue.get()
        if not data:
            self._queue.put_nowait(b"")
        return data


@dataclass
class Context:
    """What a program gets."""

    argv: list[str]
    env: dict[str, str]
    stdin: Stdin
    stdout: Output
    stderr: Output
    process: Process
    machine: Any  # the pod as a machine (see machine.py); programs of plain tools do not look at it


Program = Callable[[Context], Awaitable[int]]


@dataclass(eq=False)
class Process:
    """One virtual process."""

    pid: int
    argv: list[str]
    stdin: Stdin = field(default_factory=Stdin)
    stdout: Pipe = field(default_factory=Pipe)
    stderr: Pipe = field(default_factory=Pipe)
    handlers: dict[str, Callable[[], None]] = field(default_factory=dict)
    status: int | None = None  # exit status; negative: ended by that signal
    _task: asyncio.Task[None] | None = None
    _done: asyncio.Event = field(default_factory=asyncio.Event)
    _killed_by: int = 0

    @property
    def alive(self) -> bool:
        return self.status is None

    @property
    def exit_code(self) -> int:
        """As a shell or a container runtime tells it: 128 + n for a signal."""
        assert self.status is not None
        return self.status if self.status >= 0 else 128 - self.status

    def signal(self, name: str) -> None:
        """Delivers a signal: the program's handler when it has one, else the default action, which ends it."""
        if not self.alive:
            return
        handler = self.handlers.get(name) if name != "KILL" else None
        if handler is not None:
            handler()
            return
        if self._task is not None and not self._killed_by:
            self._killed_by = SIGNALS[name]
            self._task.cancel()

    async def wait(self) -> int:
        """Waits for the end; returns the exit code."""
        await self._done.wait()
        return self.exit_code

    def start(self, program: Program, context: Context) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(program, context))

    async def _run(self, program: Program, context: Context) -> None:
        status = 1
        try:
            status = await program(context)
            context.stdout.flush()
            context.stderr.flush()
        except asyncio.CancelledError:
            status = -self._killed_by or -SIGNALS["KILL"]
        except (
            Exception
        ) as error:  # a fault of the simulator must be seen, not look like a tool's failure
            print(f"program {self.argv}: {error!r}", file=sys.stderr, flush=True)
            context.stderr.write(f"simulator: {error!r}\n")
            context.stderr.flush()
            status = 70
        finally:
            self.status = status
            self.stdout.close()
            self.stderr.close()
            self._done.set()


class Table:
    """The processes of one pod."""

    _pids = itertools.count(1000)

    def __init__(self) -> None:
        self._alive: dict[int, Process] = {}
        self.started = 0

    def spawn(
        self, argv: list[str], env: dict[str, str], program: Program, machine: Any
    ) -> Process:
        """Starts a program as a new process."""
        process = Process(next(self._pids), list(argv))
        context = Context(
            list(argv),
            env,
            process.stdin,
            Output(process.stdout),
            Output(process.stderr, "none"),
            process,
            machine,
        )
        self.started += 1
        self._alive[process.pid] = process

        async def run(inner: Context) -> int:
            try:
                return await program(inner)
            finally:
                self._alive.pop(process.pid, None)

        process.start(run, context)
        return process

    def find(self, pid: int) -> Process | None:
        """A live process by pid."""
        return self._alive.get(pid)

    def alive(self) -> list[Process]:
        return list(self._alive.values())

    def kill_all(self) -> None:
        """As when a container is stopped."""
        for process in self.alive():
            process.signal("KILL")


class Backend(Protocol):
    """Runs commands for pods. The default one runs coroutines; another may run them in a guest (a pod is then an RDMA device
    and an address there)."""

    def knows(self, machine: Any, command: str) -> bool:
        """Whether the container has an executable of this name."""

    def start(self, machine: Any, argv: list[str], env: dict[str, str]) -> Process:
        """Starts a command in a pod."""
