"""A backend of the simulated cluster whose commands run in guests: a pod is the guest of its node.

The pods stay virtual: they start, get addresses and end as ever. Only what is executed in them is real, and what it
sees there: devices, GIDs, limits, the network between the nodes. All pods of a node share its guest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from rdma_vm import STDOUT, GuestError, GuestProcess, Node, without_ipc_lock
from simulator.machine import Machine
from simulator.processes import SIGNALS, Context, Process

_LIST_PROGRAMS = (
    'for d in /usr/bin /bin /usr/sbin /sbin /bb; do for f in "$d"/*; do echo "$f"; done; done'
)

_EXTRA_PATH = "/bb"
"""Where the guest has the plain tools that an image would have in /usr/bin."""


class GuestBackend:
    """Starts commands in the guests of `nodes`, by the name of the pod's node."""

    def __init__(self, nodes: Mapping[str, Node], lacks: Callable[[Machine], set[str]]) -> None:
        """lacks: the commands that are missing in a pod's image, as a fault of the simulator has it."""
        self._nodes = nodes
        self._lacks = lacks
        some = next(iter(nodes.values()))  # all guests are of one image
        self._paths = set(some.check(["sh", "-c", _LIST_PROGRAMS]).split())
        self._names = {path.rpartition("/")[2] for path in self._paths}

    def knows(self, machine: Machine, command: str) -> bool:
        """Whether the pod has an executable of that name or path."""
        name = command.rpartition("/")[2]
        if machine.node not in self._nodes or name in self._lacks(machine):
            return False
        return command in self._paths if "/" in command else name in self._names

    def start(self, machine: Machine, argv: list[str], env: dict[str, str]) -> Process:
        """Starts a command; its output, end and exit status are those of the process in the guest."""
        return machine.processes.spawn(argv, env, self._run, machine)

    async def _run(self, context: Context) -> int:
        loop = asyncio.get_running_loop()
        pipes = (context.process.stdout, context.process.stderr)
        ended = asyncio.Event()

        def output(stream: int, data: bytes) -> None:
            pipe = pipes[0] if stream == STDOUT else pipes[1]
            _call(loop, pipe.write, data)

        def start() -> GuestProcess:
            node = self._nodes[context.machine.node]
            command = _command(context.machine, context.argv, context.env)
            return node.popen(command, on_output=output, on_end=lambda: _call(loop, ended.set))

        # Shielded, because a thread that connects cannot be cancelled: what it started must be known, to be killed.
        starting = asyncio.ensure_future(asyncio.to_thread(start))
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(GuestError):
                (await starting).close()
            raise
        for name, number in SIGNALS.items():
            context.process.handlers[name] = lambda number=number: process.send_signal(number)
        try:
            await ended.wait()
        except asyncio.CancelledError:  # SIGKILL, as when the pod is deleted
            process.send_signal(SIGNALS["KILL"])
            await asyncio.to_thread(process.close)
            raise
        if process.returncode is None:
            raise GuestError(f"the guest of {context.machine.node} is gone")
        return process.returncode


def _command(machine: Machine, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """argv with the container's environment and limits."""
    values = {**env, "PATH": f"{env['PATH']}:{_EXTRA_PATH}"}
    command = ["env", "-i", *(f"{name}={value}" for name, value in values.items()), *argv]
    if machine.ipc_lock:
        return command
    return without_ipc_lock(command, machine.memlock_kib or 64)


def _call(loop: asyncio.AbstractEventLoop, function: Callable, *arguments: object) -> None:
    """Calls a function in the loop's thread; nothing once the loop is closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)
