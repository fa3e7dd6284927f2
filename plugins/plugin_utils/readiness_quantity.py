# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes quantities, versions and device names as numbers."""

from __future__ import annotations

import re

from ansible_collections.k8si.fabric.plugins.plugin_utils.units import exact_quantity


def count(value: object) -> int:
    """A quantity of devices as a whole number, rounded down; nothing at all counts as 0."""
    return 0 if value is None else int(exact_quantity(value) // 1)


def version_tuple(text: object) -> tuple[int, ...]:
    """The leading numbers of a version: ``v1.32.4+k3s1`` gives (1, 32, 4), ``6.8.0-60-generic`` (6, 8, 0).

    Text without a number in front gives an empty tuple, which compares as older than everything.
    """
    match = re.match(r"\s*v?(\d+(?:\.\d+)*)", str(text or ""))
    return tuple(int(part) for part in match[1].split(".")) if match else ()


# PCI device ids of Mellanox (vendor 15b3) adapters that speak RDMA, physical and virtual functions: PCI ID database.
_GENERATIONS: dict[str, tuple[str, int]] = {
    "1003": ("ConnectX-3", 3),
    "1004": ("ConnectX-3", 3),
    "1007": ("ConnectX-3 Pro", 3),
    "1013": ("ConnectX-4", 4),
    "1014": ("ConnectX-4", 4),
    "1015": ("ConnectX-4 Lx", 4),
    "1016": ("ConnectX-4 Lx", 4),
    "1017": ("ConnectX-5", 5),
    "1018": ("ConnectX-5", 5),
    "1019": ("ConnectX-5 Ex", 5),
    "101a": ("ConnectX-5 Ex", 5),
    "101b": ("ConnectX-6", 6),
    "101c": ("ConnectX-6", 6),
    "101d": ("ConnectX-6 Dx", 6),
    "101f": ("ConnectX-6 Lx", 6),
    "1021": ("ConnectX-7", 7),
    "1023": ("ConnectX-8", 8),
    "a2d2": ("BlueField", 5),
    "a2d6": ("BlueField-2", 6),
    "a2dc": ("BlueField-3", 7),
}


def adapter_generation(device_id: object) -> tuple[str, int] | None:
    """Name and ConnectX generation of a Mellanox PCI device id (hexadecimal); None when it is not known here."""
    return _GENERATIONS.get(str(device_id).lower().removeprefix("0x"))
