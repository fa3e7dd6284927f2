"""Runs the double with the command lines of a real capture and compares what both print."""

from __future__ import annotations

import asyncio
import random
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from simulator.fabric import Fabric, Port
from simulator.machine import Device, Gid, Machine
from simulator.perftest.gpu import Gpu
from simulator.perftest.options import TOOLS
from simulator.perftest.tool import Quirks, World, perftest
from simulator.wire import Wire


@dataclass
class Printed:
    """One end of a run."""

    out: str
    err: str
    status: int | None  # None: did not end by itself


def command(path: Path) -> list[str] | None:
    """The tool's own command line out of a .cmd file, without what it was wrapped in."""
    if not path.exists():
        return None
    words = shlex.split(path.read_text())
    starts = [i for i, w in enumerate(words) if w.rsplit("/", 1)[-1] in TOOLS]
    return words[starts[0] :] if starts else None


def captured(folder: Path, side: str) -> Printed:
    """What a capture holds of one end."""

    def text(kind: str) -> str:
        path = folder / f"{side}.{kind}"
        return path.read_text(errors="replace") if path.exists() else ""

    status = text("rc").strip()
    code = int(status) if status not in ("", "None", "-") else None
    return Printed(text("out"), text("err"), None if code in (-15, -9, 124) else code)


def soft_device(name: str, node: int, cuda: bool) -> Device:
    """A device as those of the captures are: software RDMA, or the stand-in of the CUDA captures."""
    if cuda:
        gids = [Gid(0, "::ffff:10.0.0.5", "RoCE v2", "eth0")]
        return Device(name, Port(f"n{node}"), gids=gids, new_post_send=False)
    gids = [
        Gid(0, f"fe80::{node}:2", "RoCE v2", "veth0"),
        Gid(1, f"::ffff:10.9.0.{node}", "RoCE v2", "veth0"),
    ]
    transport = "IW" if name.startswith("siw") else "IB"
    return Device(
        name,
        Port(f"n{node}"),
        gids=gids,
        recognised=False,
        new_post_send=False,
        outstanding_reads=128,
        transport=transport,
    )


def run(
    folder: Path,
    version: str,
    cuda: bool = False,
    quirks: dict[str, Quirks] | None = None,
    gpus: int = 1,
    devices: bool = True,
    up: bool = True,
    mtu: int = 4096,
    idle: float = 0.05,
) -> dict[str, Printed]:
    """Replays a capture: both ends that have a command line; an end that does not end is killed."""
    return asyncio.run(_run(folder, version, cuda, quirks or {}, gpus, devices, up, mtu, idle))


async def _run(
    folder: Path,
    version: str,
    cuda: bool,
    quirks: dict[str, Quirks],
    gpus: int,
    devices: bool,
    up: bool,
    mtu: int,
    idle: float,
) -> dict[str, Printed]:
    wire = Wire()
    world = World(
        Fabric(line_rate_gbps=0.4, noise=0.05, message_rate_mpps=0.05),
        wire,
        version,
        0.0,
        random.Random(3),
        Gpu("NVIDIA H200", ("00:06",)),
    )
    world.quirks = lambda machine: quirks.get(machine.name, Quirks())
    machines = {}
    for number, side in enumerate(("server", "client"), 1):
        argv = command(folder / f"{side}.cmd")
        if argv is None:
            continue
        machine = Machine(side, "default", side, f"n{number}", image="cuda" if cuda else "plain")
        machine.gpus = gpus
        machine.addresses = [f"10.9.0.{number}", f"10.7.0.{number}"]
        if side == "server":
            machine.addresses.append("127.0.0.1")
        for name in ("rxe0", "rxe1", "siw0", "siw1", "mlx5_0") if devices else ():
            device = soft_device(name, number, name == "mlx5_0")
            device.up, device.mtu = up, mtu
            for extra in ("127.0.0.1", f"10.7.0.{number}"):
                device.gids.append(Gid(9, f"::ffff:{extra}", "IB/RoCE v1", "x"))
            machine.devices.append(device)
        wire.plug(machine)
        machines[side] = (machine, argv)
    processes = {}

    async def program(context):
        return await perftest(world, context)

    for side, (machine, argv) in machines.items():
        processes[side] = machine.processes.spawn(argv, {}, program, machine)
        for _unused in range(20):
            await asyncio.sleep(0)
    waits = [asyncio.ensure_future(p.wait()) for p in processes.values()]
    await asyncio.wait(waits, timeout=idle)
    out = {}
    for side, process in processes.items():
        ended = not process.alive
        if not ended:
            process.signal("TERM")
            await process.wait()
        texts = [(await p.read()).decode() for p in (process.stdout, process.stderr)]
        out[side] = Printed(texts[0], texts[1], process.exit_code if ended else None)
    return out


NUMBER = r"(?:-?\d+\.\d+|-?\d+|-?nan|-?inf)"


def normalised(text: str) -> list[str]:
    """Text without its numbers: hexadecimal, decimal and GIDs; the padding of table rows goes with them."""
    lines = []
    for line in text.split("\n"):
        if re.match(rf"^ \d+ +\d+ +{NUMBER} ", line):
            line = re.sub(NUMBER, "N", line)
            line = re.sub(r"[ \t]+", " ", line).rstrip()
        else:
            line = re.sub(r"GID: [\d:]+", "GID: G", line)
            line = re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{16}\b", "X", line)
            line = re.sub(r"\d+(?:\.\d+)?", "N", line)
        lines.append(line)
    return lines
