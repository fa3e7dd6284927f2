"""What the tools share, what can be wrong with them, and one run of one of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from ..fabric import Fabric
from ..machine import Machine
from ..processes import Context
from ..wire import Session, Wire
from . import gpu
from .options import Options

# What parts of a run take in reality, in seconds: multiplied by the time scale.
STARTUP = 0.15
LISTEN_DELAY = 0.25  # from a server's banner to its listening socket
GPU_SETUP = 0.6
UNREACHABLE = 3.0  # until a connection to an address that nobody has is given up
RETRIES_EXHAUSTED = 3.5  # a queue pair's timeout and seven retries


@dataclass
class Quirks:
    """Faults that the tools of one pod show. All off by default."""

    never_listens: bool = False
    listen_race: dict[str, int] | None = None  # {times}: so many clients with -R are still rejected
    dies_after_rows: int | None = None  # server: the process ends in the middle of a run
    hangs: bool = False  # client: stops after the header, for ever
    no_peer_memory: bool = False
    dmabuf_errno: int | None = None
    no_cuda_driver: bool = False
    without_cuda: bool = False
    on_host_anyway: bool = False  # behaves as if --use_cuda had not been given
    wrong_path: bool = False  # with -R the kernel takes another device, whatever -d says
    memlock: bool = False


@dataclass
class World:
    """The fabric, the network, the version of perftest and the pace."""

    fabric: Fabric
    wire: Wire
    version: str = "6.29"
    scale: float = 0.1
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    gpu: gpu.Gpu = field(default_factory=gpu.Gpu)
    quirks: Callable[[Machine], Quirks] = lambda _machine: Quirks()


class Exit(Exception):
    """Ends a run with a status, after what has been printed."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@dataclass
class Run:
    """One execution of a tool: where it prints, what it was asked to do, and what it holds."""

    world: World
    context: Context
    options: Options
    quirks: Quirks
    session: Session | None = None
    gpu_base: int = 0  # address of its GPU memory; 0 as long as it has none

    @property
    def machine(self) -> Machine:
        """The pod it runs in."""
        return self.context.machine  # type: ignore[no-any-return]

    @property
    def version(self) -> str:
        """perftest's version."""
        return self.world.version

    @property
    def role(self) -> str:
        """server or client."""
        return "server" if self.options.server else "client"

    @property
    def quiet(self) -> bool:
        """--output: nothing but a number is printed."""
        return self.options.output is not None

    @property
    def largest(self) -> int:
        """Bytes of the largest message."""
        return 2**23 if self.options.all_sizes else max(self.options.size, 2048)

    @property
    def buffer(self) -> int:
        """Bytes of the registered memory."""
        return self.largest * 2 * self.options.queue_pairs

    def print(self, text: str) -> None:
        """To stdout."""
        self.context.stdout.write(text)

    def complain(self, text: str) -> None:
        """To stderr."""
        self.context.stderr.write(text)

    async def pause(self, seconds: float) -> None:
        """Waits, in seconds of reality."""
        await asyncio.sleep(seconds * self.world.scale)

    def fail(self, text: str, status: int = 1) -> Exit:
        """What to raise after a complaint."""
        self.complain(text)
        return Exit(status)

    def finish(self, text: str = "", status: int = 1) -> Exit:
        """What to raise at the end of a run: GPU memory is given back first, which is seen on stdout."""
        if self.gpu_base:
            self.print(gpu.release(self.version, self.gpu_base))
        return self.fail(text, status)


async def for_ever() -> None:
    """What a process does that waits for something that never comes."""
    await asyncio.Event().wait()
