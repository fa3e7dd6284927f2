# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPU of a pod is nearest to a NIC, and how the NIC gets at its memory. Pure: a probe in, choices out.

The distance is the class that `nvidia-smi topo -m` prints (PIX, PXB, PHB, NODE, SYS: its own legend, from near to far); where it
lists no NIC, it is read from the PCI paths of both devices in sysfs.
"""

from __future__ import annotations

import re

CLASSES = ("PIX", "PXB", "PHB", "NODE", "SYS")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU(\d+)")
_LEGEND = re.compile(r"\s*(NIC\d+):\s*(\S+)")


def topology(lines: list[str]) -> dict[int, dict[str, str]]:
    """GPU index -> RDMA device -> class, from what `nvidia-smi topo -m` prints. NICs are named in its legend, or by their columns."""
    rows = [_ESCAPE.sub("", line).split("\t") for line in lines]
    legend = {m[1]: m[2] for m in (_LEGEND.fullmatch(_ESCAPE.sub("", line)) for line in lines) if m}
    head = next((r for r in rows if any(_GPU.fullmatch(c.strip()) for c in r[1:])), [])
    names = [c.strip() for c in head]
    found: dict[int, dict[str, str]] = {}
    for row in rows:
        own = _GPU.fullmatch(row[0].strip())
        if not own or row is head:
            continue
        cells = zip(names[1:], (c.strip() for c in row[1:]), strict=False)
        found[int(own[1])] = {
            legend.get(n, n): c for n, c in cells if c in CLASSES and not _GPU.fullmatch(n)
        }
    return found


def path_class(nic: str, gpu: str, same_numa: bool | None) -> str:
    """The class of two PCI devices from their paths in sysfs (/devices/pci0000:00/…); empty when a path is not known.

    Below one switch is PIX, below several PXB, below one host bridge PHB; otherwise NODE or SYS, by NUMA node.
    """
    a, b = (
        [p for p in path.split("/") if re.match(r"(pci)?[0-9a-f]{4}:", p)] for path in (nic, gpu)
    )
    if not a or not b:
        return ""
    if a[0] != b[0]:
        return {True: "NODE", False: "SYS", None: ""}[same_numa]
    common = 0
    for left, right in zip(a[1:-1], b[1:-1], strict=False):
        if left != right:
            break
        common += 1
    if not common:
        return "PHB"
    # what remains below the last bridge that both share: a switch port and the device itself
    below = max(len(a), len(b)) - 1 - common
    return "PIX" if below <= 2 else "PXB"


def distances(probe: dict, device: str) -> dict[int, str]:
    """GPU index -> class of its distance to an RDMA device, of the GPUs whose distance is known."""
    told = {gpu: row[device] for gpu, row in topology(probe["topology"]).items() if device in row}
    if told:
        return told
    nic = probe["devices"][device]
    found = {}
    for index, gpu in probe["gpu_paths"].items():
        numas = (nic["numa_node"], gpu["numa_node"])
        known = all(n is not None and n >= 0 for n in numas)
        found[index] = path_class(
            nic["pci_path"], gpu["pci_path"], numas[0] == numas[1] if known else None
        )
    return {index: kind for index, kind in found.items() if kind}


def choose(probe: dict, device: str, wanted: int | str, taken: set[int]) -> dict:
    """The GPU to test with an RDMA device.

    Args:
        probe: what `parse_probe` returned. wanted: an index, or `auto` for the nearest. taken: GPUs that other rails of the
            pod use; of equally near ones a free one is preferred.

    Returns:
        {`device`: index as the pod sees it, `path`: class, or null when it is not known, `note`: what a person should know:
        that several are equally near, or that the distance is not known; empty when there is nothing}.
    """
    near = distances(probe, device)
    if wanted != "auto":
        return {"device": wanted, "path": near.get(wanted), "note": ""}
    count = sum(line.startswith("GPU ") for line in probe["gpus"])
    if count <= 1:
        return {"device": 0, "path": near.get(0), "note": ""}
    if not near:
        free = [g for g in range(count) if g not in taken] or [0]
        note = f"which of {count} GPUs is nearest to {device} is not known; GPU {free[0]} was taken"
        return {"device": free[0], "path": None, "note": note}
    best = min(CLASSES.index(kind) for kind in near.values())
    nearest = sorted(gpu for gpu, kind in near.items() if CLASSES.index(kind) == best)
    chosen = next((g for g in nearest if g not in taken), nearest[0])
    note = ""
    if len(nearest) > 1:
        several = ", ".join(map(str, nearest))
        note = (
            f"GPUs {several} are equally near to {device} ({near[chosen]}); GPU {chosen} was taken"
        )
    return {"device": chosen, "path": near[chosen], "note": note}


def choose_method(endpoints: list[dict], wanted: str) -> tuple[str, str]:
    """(`peermem` or `dmabuf`, why), one for all endpoints.

    `auto` is peer memory, as in the manual procedure, unless a node shows that it cannot work there (its kernel has no module
    for peer memory) while perftest can do DMA-BUF.
    """
    if wanted != "auto":
        return wanted, "as it was set"
    without = [e for e in endpoints if e["peermem_loaded"] is False]
    if not without:
        return "peermem", "no node shows that peer memory cannot work"
    names = ", ".join(dict.fromkeys(e["node"] for e in without[:5]))
    if not all((e["tool"] or {}).get("dmabuf") for e in endpoints):
        return (
            "peermem",
            f"{names} has no module nvidia_peermem loaded, but perftest was built without DMA-BUF",
        )
    return "dmabuf", f"{names} has no module nvidia_peermem loaded, and perftest can do DMA-BUF"
