"""The two kinds of machines, and how qemu is told to run them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from functools import cache as memoized
from pathlib import Path

from .image import Image

MAX_NODES = 32
MAX_RAILS = 4

_TRANSLATION_BUFFER_MIB = 64
_ADDRESS_SPACE_MARGIN_MIB = 2048
"""qemu's code, libraries, thread stacks and the image it loads; a bound, not a need."""


@dataclass(frozen=True)
class Shape:
    """A machine as qemu sees it. Both numbers are part of it because a saved state fits no other machine.

    `nodes` > 0: that many nodes, on virtual interfaces inside this one guest. `nodes` 0: one node of a group, with
    an interface to the outside for each of its `rails` and one for the cluster network of the pods.
    `accelerator`: "tcg" (emulation) or "kvm".
    """

    nodes: int
    rails: int
    accelerator: str
    memory_mib: int = 256

    @property
    def name(self) -> str:
        return f"{self.nodes}-nodes" if self.nodes else f"node-{self.rails}-rails"

    @property
    def interfaces(self) -> int:
        """To the outside, each on a switch of its own: the rails, then the cluster network."""
        return 0 if self.nodes else self.rails + 1

    @property
    def address_space_bytes(self) -> int:
        return (self.memory_mib + _TRANSLATION_BUFFER_MIB + _ADDRESS_SPACE_MARGIN_MIB) << 20

    def command(self, image: Image, directory: Path, snapshot: Path | None) -> list[str]:
        """The qemu command, without the back ends of the interfaces, which the keeper adds.

        It boots the image, or restores the snapshot. Its console and monitor are in `directory`.
        """
        command = [
            *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot"),
            *("-display", "none", "-machine", "pc", "-smp", "1", "-m", str(self.memory_mib)),
            *self._acceleration(),
            *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
            *("-append", "console=ttyS0 panic=-1 nokaslr mitigations=off quiet"),
            *("-serial", f"file:{directory / 'console'}"),
            *("-qmp", f"unix:{directory / 'monitor'},server=on,wait=off"),
            # The host reaches the guest by one port of 127.0.0.1, which the system chooses; the guest reaches nothing.
            *("-netdev", "user,id=host,ipv6=off,restrict=on,hostfwd=tcp:127.0.0.1:0-:5000"),
            *("-device", "virtio-net-pci,netdev=host,romfile="),
        ]
        for number in range(self.interfaces):
            command += ["-device", f"virtio-net-pci,netdev=net{number},romfile="]
        if snapshot:
            command += ["-incoming", f"exec:zstd -dcq {shlex.quote(str(snapshot))}"]
        return command

    def _acceleration(self) -> list[str]:
        if self.accelerator == "kvm":
            return ["-accel", "kvm", "-cpu", "host"]
        # String and carry-less multiplication instructions are emulated so slowly that the kernel's plain code for
        # copies and checksums, which it takes without them, needs a third less time.
        cpu = "max,-erms,-fsrm,-pclmulqdq"
        command = ["-accel", f"tcg,tb-size={_TRANSLATION_BUFFER_MIB}", "-cpu", cpu]
        if self.nodes:
            # Time in the guest is counted in instructions (4 ns each), so that figures do not depend on the host's
            # load. Not in a group: its guests would each have a time of their own.
            command += ["-icount", "shift=2,sleep=on"]
        return command


def kvm_is_worth_trying() -> bool:
    """Whether the processor says it can and the device is there to use. That it really works only a boot can tell."""
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        return False
    return (
        flags is not None
        and not {"vmx", "svm"}.isdisjoint(flags[1].split())
        and os.access("/dev/kvm", os.R_OK | os.W_OK)
    )


@memoized
def qemu_version() -> str:
    """The first line that qemu says of itself."""
    done = subprocess.run(
        ["qemu-system-x86_64", "--version"], stdout=subprocess.PIPE, text=True, check=False
    )
    return done.stdout.partition("\n")[0]
