"""The part of a pod's file system that a probe reads, written to disk when a script first wants it.

Every path a probe reads is prefixed with FABRIC_PROBE_ROOT, which is the root of such a tree: sysfs of the RDMA devices, the
device files, the network interfaces and the limits. Beside it lies a folder of small scripts that stand for the image's tools.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
from pathlib import Path

from .machine import Device, Machine
from .perftest.help import usage
from .perftest.options import TOOLS

GID_TABLE = 8  # entries that are listed at least; a real port has up to 256
EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
_RATES = {
    400: "400 Gb/sec (4X NDR)",
    200: "200 Gb/sec (4X HDR)",
    100: "100 Gb/sec (4X EDR)",
    800: "800 Gb/sec (8X NDR)",
}
_DEFAULT_CAPABILITIES = 0xA80425FB
_IPC_LOCK = 1 << 14


class PodTrees:
    """Makes and drops the trees."""

    def __init__(
        self, folder: str, version: str, has_cuda: object, gpu_name: str = "NVIDIA H100 80GB HBM3"
    ) -> None:
        """has_cuda: callable, whether a machine's perftest has CUDA."""
        self._folder = folder
        self._version = version
        self._has_cuda = has_cuda
        self._gpu_name = gpu_name
        self._made: dict[tuple[bool, frozenset[str]], str] = {}

    def of(self, machine: Machine, lacks: set[str]) -> tuple[str, str]:
        """(root of the tree, search path of tools) of a pod; made on the first call."""
        base = Path(self._folder) / machine.uid
        shared = self._tools(bool(self._has_cuda(machine)), frozenset(lacks))
        if not machine.root:
            self._write_root(machine, base / "root")
            if machine.gpus:
                (base / "bin").mkdir()
                _script(base / "bin" / "nvidia-smi", _nvidia_smi(machine, self._gpu_name))
            machine.root = str(base)
        return str(base / "root"), f"{base / 'bin'}:{shared}"

    def forget(self, machine: Machine) -> None:
        """Drops a pod's tree; the next call of `of` writes it anew."""
        if machine.root:
            shutil.rmtree(machine.root, ignore_errors=True)
            machine.root = ""

    # ---- tools
    def _tools(self, cuda: bool, lacks: frozenset[str]) -> str:
        """The folder of tools that all pods with the same image share."""
        if (cuda, lacks) not in self._made:
            folder = Path(self._folder) / f"tools-{len(self._made)}"
            folder.mkdir(parents=True, exist_ok=True)
            for tool in TOOLS:
                if tool not in lacks:
                    _script(
                        folder / tool,
                        f"case \" $* \" in *' --version '*|*' -V '*) echo 'Version: {self._version}'; exit 1;; esac\n"
                        f"cat <<'END_OF_USAGE'\n{usage(tool, self._version, cuda)}END_OF_USAGE\nexit 1\n",
                    )
            if "stdbuf" not in lacks:
                _script(
                    folder / "stdbuf",
                    'while case "$1" in -*) :;; *) false;; esac; do shift; done; exec "$@"\n',
                )
            self._made[(cuda, lacks)] = str(folder)
        return self._made[(cuda, lacks)]

    # ---- the tree
    def _write_root(self, machine: Machine, root: Path) -> None:
        files: dict[str, str] = {}
        for number, device in enumerate(machine.devices):
            files |= _hca(device, number)
            files[f"sys/class/infiniband_verbs/uverbs{number}/ibdev"] = device.name
            if device.granted:
                files[f"dev/infiniband/uverbs{number}"] = ""
                files[f"dev/infiniband/umad{number}"] = ""
                files["dev/infiniband/rdma_cm"] = ""
        infiniband = any(d.infiniband for d in machine.devices)
        files |= _interfaces(machine, infiniband)
        files["proc/net/if_inet6"] = _if_inet6(machine)
        files["proc/self/limits"] = _limits(machine)
        capabilities = _DEFAULT_CAPABILITIES | (_IPC_LOCK if machine.ipc_lock else 0)
        files["proc/self/status"] = (
            f"Name:\tsh\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nCapEff:\t{capabilities:016x}\nCapBnd:\t{capabilities:016x}\n"
        )
        for number, device in enumerate(machine.devices):
            link = root / "sys/class/infiniband" / device.name / "device"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(f"../../../devices/pci0000:00/{pci_slot(number)}")
        made: set[str] = set()
        for name, content in files.items():
            path = os.path.join(root, name)
            parent = os.path.dirname(path)
            if parent not in made:
                os.makedirs(parent, exist_ok=True)
                made.add(parent)
            with open(path, "w") as handle:
                handle.write(content if not content or content.endswith("\n") else content + "\n")


def _script(path: Path, body: str) -> None:
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)


def pci_slot(number: int) -> str:
    """The PCI address of a node's n-th adapter."""
    return f"0000:{0x1A + 16 * number:02x}:00.0"


def _hca(device: Device, number: int) -> dict[str, str]:
    base = f"sys/class/infiniband/{device.name}"
    slot = pci_slot(number)
    pci = f"sys/devices/pci0000:00/{slot}"
    port = f"{base}/ports/1"
    rate = _RATES.get(int(device.rate_gbps), f"{device.rate_gbps:g} Gb/sec (4X NDR)")
    files = {
        f"{base}/node_guid": device.guid,
        f"{base}/fw_ver": "28.43.2026",
        f"{base}/hca_type": "MT4129",
        f"{base}/board_id": "MT_0000000838",
        f"{pci}/numa_node": str(device.numa),
        f"{pci}/vendor": "0x15b3",
        f"{pci}/device": "0x1021",
        f"{pci}/uevent": f"DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:1021\nPCI_SLOT_NAME={slot}",
        f"{port}/state": "4: ACTIVE" if device.up else "1: DOWN",
        f"{port}/phys_state": "5: LinkUp" if device.up else "3: Disabled",
        f"{port}/rate": rate,
        f"{port}/link_layer": "InfiniBand" if device.infiniband else "Ethernet",
        f"{port}/lid": f"{device.lid:#x}",
    }
    for index in range(GID_TABLE):
        files[f"{port}/gids/{index}"] = EMPTY_GID
    for gid in device.gids:
        files[f"{port}/gids/{gid.index}"] = gid.sysfs
        if not device.infiniband:
            files[f"{port}/gid_attrs/ndevs/{gid.index}"] = gid.interface
        files[f"{port}/gid_attrs/types/{gid.index}"] = gid.kind
    return files


def _interfaces(machine: Machine, infiniband: bool) -> dict[str, str]:
    rows = [
        ("lo", "00:00:00:00:00:00", 65536, 772, "unknown"),
        ("eth0", "0a:58:0a:f4:01:0b", 1450, 1, "up"),
    ]
    for attachment in machine.attachments:
        kind, mtu = (32, 4092) if infiniband else (1, 9000)
        device = next((d for d in machine.devices if d.port.rail == attachment.rail), None)
        if device is not None and device.mtu < 4096:
            mtu = 1500
        rows.append((attachment.interface, attachment.mac, mtu, kind, "up"))
    files = {}
    for name, mac, mtu, kind, state in rows:
        base = f"sys/class/net/{name}"
        files |= {
            f"{base}/address": mac,
            f"{base}/mtu": str(mtu),
            f"{base}/type": str(kind),
            f"{base}/operstate": state,
            f"{base}/dev_port": "0",
        }
    return files


def _if_inet6(machine: Machine) -> str:
    lines = ["00000000000000000000000000000001 01 80 10 80       lo"]
    rows = [("eth0", a, 64) for a in machine.addresses]
    rows += [(x.interface, a, 64) for x in machine.attachments for a in x.addresses]
    numbers: dict[str, int] = {}
    for interface, text, prefix in rows:
        address = ipaddress.ip_address(text)
        number = numbers.setdefault(interface, len(numbers) + 2)
        if address.version == 6:
            lines.append(f"{int(address):032x} {number:02x} {prefix:02x} 00 80 {interface:>8}")
    return "\n".join(lines)


def _limits(machine: Machine) -> str:
    locked = "unlimited" if machine.memlock_kib is None else str(machine.memlock_kib * 1024)
    rows = [
        ("Limit", "Soft Limit", "Hard Limit", "Units"),
        ("Max cpu time", "unlimited", "unlimited", "seconds"),
        ("Max stack size", "8388608", "unlimited", "bytes"),
        ("Max processes", "unlimited", "unlimited", "processes"),
        ("Max open files", "1048576", "1048576", "files"),
        ("Max locked memory", locked, locked, "bytes"),
        ("Max address space", "unlimited", "unlimited", "bytes"),
    ]
    return "\n".join(f"{a:<25} {b:<20} {c:<20} {d:<10}" for a, b, c, d in rows)


def _nvidia_smi(machine: Machine, name: str) -> str:
    gpus = range(machine.gpus)
    listing = "".join(f"GPU {i}: {name} (UUID: GPU-{machine.uid[:-2]}{i:02x})\n" for i in gpus)
    nics = [f"NIC{i}" for i in range(len(machine.devices))]
    names = [f"GPU{i}" for i in gpus] + nics
    head = "\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    rows = [f"\x1b[4m{head}\x1b[0m"]
    for i, own in enumerate(names):
        cells = [_relation(machine, i, j) for j in range(len(names))]
        tail = (
            ["0-95" if i % 8 < 4 else "96-191", "0" if i % 8 < 4 else "1", "N/A"]
            if own.startswith("GPU")
            else ["", "", ""]
        )
        rows.append("\t".join([own, *cells, *tail]).rstrip())
    legend = "\nNIC Legend:\n\n" + "".join(
        f"  NIC{i}: {d.name}\n" for i, d in enumerate(machine.devices)
    )
    topology = "\n".join(rows) + "\n" + legend
    return (
        f"case \"$*\" in\n-L) cat <<'END'\n{listing}END\n;;\n'topo -m') cat <<'END'\n{topology}END\n;;\n"
        f"*) echo 'NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0' ;;\nesac\n"
    )


def _relation(machine: Machine, i: int, j: int) -> str:
    if i == j:
        return " X "
    count = machine.gpus
    if i < count and j < count:
        return "NV18"
    if i >= count and j >= count:
        return "NODE"
    gpu, device = (i, machine.devices[j - count]) if i < count else (j, machine.devices[i - count])
    if device.port.rail is None:
        return "NODE"
    if device.port.rail == gpu:
        return "PIX"
    return "NODE" if (device.port.rail < 4) == (gpu < 4) else "SYS"
