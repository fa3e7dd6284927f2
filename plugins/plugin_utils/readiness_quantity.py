# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes quantities, versions and device names as numbers."""

from __future__ import annotations

import re
from fractions import Fraction

_SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|([a-zA-Z]{0,2}))")


def parse_quantity(value: object) -> Fraction:
    """The exact number behind a Kubernetes quantity such as ``"63"``, ``"1k"``, ``"1Ki"`` or ``"12e6"``.

    The API server writes quantities in canonical form, so 1000 shares of a device come as ``"1k"``.
    Raises :class:`ValueError` for what is no quantity.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} is no Kubernetes quantity")
    match = _QUANTITY.fullmatch(str(value).strip())
    if not match or (match[3] or "") not in _SUFFIXES:
        raise ValueError(f"{value!r} is no Kubernetes quantity")
    if match[2]:
        return Fraction(match[1]) * Fraction(10) ** int(match[2])
    return Fraction(match[1]) * _SUFFIXES[match[3] or ""]


def count(value: object) -> int:
    """A quantity of devices as a whole number, rounded down; nothing at all counts as 0."""
    return 0 if value is None else int(parse_quantity(value) // 1)


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
