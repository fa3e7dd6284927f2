"""Saved states of machines, from which a guest is restored in a fraction of a second."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from . import machine
from .cache import lock
from .errors import GuestError
from .image import Image
from .machine import Machine
from .monitor import Monitor
from .node import pod_address, rails_of_group_node
from .process import GuestProcess
from .shape import Shape, kvm_is_worth_trying, qemu_version

_BARE = "bare"
"""Suffix of the state of a group's guest before it has an address: the others are made from it, without a boot."""


def ensure(shape: Shape, image: Image, cache: Path, index: int) -> Path:
    """The saved state of a guest with all nodes in it, or of the guest of node `index` of a group.

    When it is missing, it is made: a boot (about 7 s), then about 2 s for each node of a group. Raises GuestError.
    """
    path = _path(shape, image, cache, "" if shape.nodes else f"-{index + 1}")
    if path.exists():
        return path
    with lock(cache):
        path.parent.mkdir(exist_ok=True)
        if shape.nodes:
            _make(path, shape, image, None, [["/usr/lib/rdma_vm/nodes", str(shape.nodes)]])
        else:
            bare = _path(shape, image, cache, f"-{_BARE}")
            _make(bare, shape, image, None, [])
            attach = [
                [
                    "/usr/lib/rdma_vm/attach",
                    rail.device,
                    rail.interface,
                    rail.mac,
                    f"{rail.address}/24",
                ]
                for rail in rails_of_group_node(index, shape.rails)
            ]
            joins = ["/usr/lib/rdma_vm/join", f"net{shape.rails + 1}", f"{pod_address(index)}/24"]
            _make(path, shape, image, bare, [*attach, joins])
    return path


def working_shape(shape: Shape, image: Image, cache: Path) -> Shape:
    """The same shape with KVM where KVM is seen to work: once per image a guest is booted to find out."""
    refused = cache / f"kvm-refused-{image.identity}"
    if not kvm_is_worth_trying() or refused.exists():
        return shape
    with_kvm = Shape(shape.nodes, shape.rails, "kvm", shape.memory_mib)
    try:
        ensure(with_kvm, image, cache, 0)
    except GuestError as error:
        refused.write_text(f"{error}\n")
        return shape
    return with_kvm


def _path(shape: Shape, image: Image, cache: Path, suffix: str) -> Path:
    """Another image, qemu or (with KVM) processor means another file: a state fits no other."""
    placeless = replace(image, kernel=Path("vmlinux"), initrd=Path("initrd.img"))
    parts = [*shape.command(placeless, Path("."), None), image.identity, qemu_version()]
    if shape.accelerator == "kvm":
        with suppress(OSError):
            parts += re.findall(r"^model name\s*:.*$", Path("/proc/cpuinfo").read_text(), re.M)[:1]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return cache / "snapshots" / f"{shape.name}-{key}{suffix}.zst"


def _make(
    path: Path, shape: Shape, image: Image, origin: Path | None, commands: list[list[str]]
) -> None:
    """Boots, or restores `origin`, runs the commands and saves the state; nothing if it was made meanwhile."""
    if path.exists():
        return
    partial = path.with_suffix(".partial")
    keeper, (made,) = machine.start(shape, image, [origin])
    try:
        for command in commands:
            _run(made, command)
        with Monitor(made.monitor) as qemu:
            qemu.save(partial)
    finally:
        keeper.close()
    partial.rename(path)
    key = path.name.removeprefix(f"{shape.name}-")[:12]
    for old in path.parent.glob(f"{shape.name}-*.zst"):
        if not old.name.startswith(f"{shape.name}-{key}"):
            old.unlink(missing_ok=True)


def _run(made: Machine, argv: list[str]) -> None:
    with GuestProcess(made.port, argv) as process:
        result = process.wait(120)
    if result.returncode != 0:
        raise GuestError(f"{argv[0]} failed in the new guest ({result.returncode}): {result.err}")
