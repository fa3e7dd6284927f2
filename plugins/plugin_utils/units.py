# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantities as they are written by Kubernetes, by the kernel and by perftest, turned into plain numbers.

Units are in the names: ``gbps`` is 10^9 bit/s, ``mib`` is 2^20 byte. Every function raises UnitError
(a ValueError) with a sentence that names the bad text; none guesses.
"""

from __future__ import annotations

import ipaddress
import re
from fractions import Fraction
from functools import lru_cache

MIB = 1 << 20
GBPS_PER_MIB_PER_SECOND = MIB * 8 / 1e9

# Decimal and binary suffixes of a Kubernetes quantity (apimachinery, resource.Quantity).
_SUFFIX = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
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
_QUANTITY = re.compile(
    r"([+-]?)(\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE]([+-]?\d{1,2})|(n|u|m|k|[MGTPE]i?|Ki)?)",
    re.ASCII,
)
_RATE = re.compile(
    r"\s*(\d{1,5}(?:\.\d{1,3})?)\s*G(?:b|bit)?(?:/s(?:ec)?|ps)\s*(?:\((\d{1,2})X(?:\s+(\w{1,8}))?\))?\s*",
    re.ASCII,
)
_SIZE = re.compile(r"\s*(\d{1,18})\s*([kKmMgG]?)(?:i?[bB])?\s*", re.ASCII)
_SIZE_FACTOR = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class UnitError(ValueError):
    """A text that is not the quantity it should be."""


def exact_quantity(value: object) -> Fraction:
    """Return the exact number behind a Kubernetes quantity: "63", "1k", "500m", "8Gi", "1e3".

    The API server writes quantities in canonical form, so 1000 shares of a device come as "1k".
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise UnitError(f"{value!r} is not a Kubernetes quantity")
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None:
        raise UnitError(f"{value!r} is not a Kubernetes quantity such as '63', '1k' or '8Gi'")
    sign, number, exponent, suffix = match.groups()
    figure = Fraction("0" + number if number.startswith(".") else number.rstrip("."))
    figure *= Fraction(10) ** int(exponent) if exponent else _SUFFIX[suffix or ""]
    return -figure if sign == "-" else figure


def quantity(value: object) -> int | float:
    """Return a Kubernetes quantity as a number: int where it is whole, else float."""
    figure = exact_quantity(value)
    return int(figure) if figure.denominator == 1 else float(figure)


def gbps_from_mib_per_second(mib_per_second: float) -> float:
    """Return 10^9 bit/s for a figure in 2^20 byte/s (perftest's MiB/sec, and its older "MB/sec")."""
    return round(mib_per_second * GBPS_PER_MIB_PER_SECOND, 6)


def line_rate(text: str) -> dict:
    """Read a port's rate as the kernel writes it, "400 Gb/sec (4X NDR)".

    Returns {gbps: float, lanes: int or None, generation: str or None}.
    """
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise UnitError(f"{text!r} is not a port rate such as '400 Gb/sec (4X NDR)'")
    gbps, lanes, generation = match.groups()
    return {
        "gbps": float(gbps),
        "lanes": int(lanes) if lanes else None,
        "generation": generation,
    }


def line_rate_gbps(text: str) -> float:
    """Return the Gb/s of "400 Gb/sec (4X NDR)"; a port that is down still prints a rate."""
    return line_rate(text)["gbps"]


def size_bytes(text: str | int) -> int:
    """Return the bytes of a message size: 65536, "64k", "64KiB", "8M" (factors of 1024, as in benchmarks)."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise UnitError(f"{text!r} is not a message size such as 65536, '64k' or '8M'")
    return int(match.group(1)) * _SIZE_FACTOR[match.group(2).lower()]


def format_size(size: int) -> str:
    """Return a message size for people: 2 B, 64 KiB, 8 MiB; exact, or in bytes."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


@lru_cache(maxsize=4096)
def canonical_gid(text: str) -> str | None:
    """Return one spelling for a GID or an IP address, or None if the text is neither.

    Takes what sysfs prints (fe80:0000:…:0002), what perftest prints (16 bytes, decimal, two digits at
    least: 254:128:…:00:02; or the same in hex, told by a letter), and plain IPv4 or IPv6 addresses.
    An IPv4 address and its mapped form are the same GID: ``::ffff:10.9.0.1``.
    """
    if not isinstance(text, str):
        return None
    text = text.strip().split("/", 1)[0].split("%", 1)[0]
    parts = text.split(":")
    try:
        if len(parts) == 16:
            base = 16 if any(c in "abcdefABCDEF" for c in text) else 10
            raw = bytes(int(part, base) for part in parts)
            address = ipaddress.IPv6Address(raw)
        else:
            parsed = ipaddress.ip_address(text)
            if isinstance(parsed, ipaddress.IPv4Address):
                return f"::ffff:{parsed}"
            address = parsed
    except ValueError:
        return None
    mapped = address.ipv4_mapped
    # Python 3.13 changed how str() writes mapped addresses; one spelling for all versions here.
    return f"::ffff:{mapped}" if mapped is not None else str(address)


def is_zero_gid(text: str) -> bool:
    """Tell whether a GID is the empty one (all zeros), which no peer can reach."""
    return canonical_gid(text) == "::"
