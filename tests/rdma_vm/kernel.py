"""A kernel package, made ready for qemu: the uncompressed kernel and the modules in loading order."""

from __future__ import annotations

import gzip
import lzma
import re
import struct
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import packages
from .errors import BuildError

MODULES = (
    "virtio_pci",
    "virtio_net",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
    "veth",
    "bridge",
    "crc32_generic",
    "crc32_pclmul",
    "sch_netem",
    "sch_tbf",
)
"""What the guest loads, with all that these need."""

_MODULE_PATHS = re.compile(
    r"/kernel/(drivers/(infiniband/(core|sw)|virtio|net/(veth|virtio_net|net_failover))"
    r"|net/(core|ipv4|ipv6|bridge|llc|802|sched)|arch/x86/crypto/crc32|crypto/crc32|fs/configfs)"
)


@dataclass(frozen=True)
class Kernel:
    """`elf` is the kernel as an ELF file, `modules` the (name, content) in the order in which they load."""

    elf: bytes
    modules: list[tuple[str, bytes]]


def read_kernel(deb: Path) -> Kernel:
    """The kernel and the modules of a linux-image package."""
    image = None
    files: dict[str, bytes] = {}
    for path, entry in packages.contents(deb):
        if path.startswith("boot/vmlinuz"):
            image = entry.data
        elif ".ko" in path and _MODULE_PATHS.search(path):
            name = path.rpartition("/")[2].partition(".ko")[0].replace("-", "_")
            files[name] = _decompress_module(path, entry.data)
    if image is None:
        raise BuildError(f"{deb.name} holds no kernel")
    return Kernel(decompress_image(image), loading_order(MODULES, files))


def decompress_image(image: bytes) -> bytes:
    """The ELF kernel inside a bzImage (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length).

    qemu starts it by its PVH entry, so that nothing is unpacked under emulation, which would take longest of all.
    """
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length]
    if payload.startswith(b"\xfd7zXZ\0"):
        # The size is appended to the stream, hence no plain decompress().
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(b"\x1f\x8b"):
        return gzip.decompress(payload[:-4])
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd(payload[:-4])
    raise BuildError(f"the kernel is compressed in an unknown way (it begins with {payload[:4]!r})")


def loading_order(wanted: Iterable[str], files: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """The wanted modules and what they depend on, dependencies first (from their .modinfo sections).

    A module that is not in the package is built into the kernel, or not needed by it.
    """
    order: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name not in files or name in order:
            return
        depends = re.search(rb"\0depends=([^\0]*)\0", files[name])
        for needed in depends[1].decode().split(",") if depends else []:
            add(needed.replace("-", "_"))
        order[name] = files[name]

    for name in wanted:
        add(name)
    return list(order.items())


def _decompress_module(path: str, data: bytes) -> bytes:
    if path.endswith(".xz"):
        return lzma.decompress(data)
    if path.endswith(".zst"):
        return _zstd(data)
    return data


def _zstd(data: bytes) -> bytes:
    done = subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise BuildError("zstd could not unpack the kernel")
    return done.stdout
