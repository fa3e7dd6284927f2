# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text and numbers from a cluster, made safe for files and terminals. Pure.

What pods print may hold control sequences, bytes that no file format allows, and texts that look like markup; what is
written must be valid whatever they print. Escaping of markup is left to the writer of each format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

# C0 and C1 controls but tab and newline, and the code points that XML 1.0 forbids.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")
_NATURAL = re.compile(r"(\d+)")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)")


def plain(value):
    """A deep copy of plain dicts, lists, texts, numbers, booleans and None.

    Numbers that JSON has no words for (NaN, infinities) become None; text that cannot be UTF-8 loses what cannot.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_utf8(str(k)): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    return _utf8(str(value))


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def visible(text: object) -> str:
    """The text with control characters as `\\x1b`, so that a terminal, XML and a browser show and do nothing else."""
    return _CONTROL.sub(
        lambda m: f"\\x{ord(m[0]):02x}", _utf8(str(text)).replace("\r\n", "\n").replace("\r", "\n")
    )


def one_line(text: object, longest: int = 400) -> str:
    """The same in one line, cut at `longest` characters."""
    words = " ".join(visible(text).split())
    return words if len(words) <= longest else f"{words[: longest - 2]} …"


def shortened(text: str, longest: int) -> str:
    """Head and tail of a text that is longer than `longest`, with the number of characters left out between them."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out; results.json has them …\n{text[-half:]}"


def natural(name: str) -> list:
    """A sort key that puts gpu-node-2 before gpu-node-10."""
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in _NATURAL.split(name) if p]


def moment(text: object) -> float | None:
    """Seconds since the epoch of an ISO 8601 time in UTC; None for anything else."""
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def iso(seconds: float | None) -> str | None:
    """The reverse of `moment`, to the second."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def count(number: int, noun: str) -> str:
    """`1 link`, `3 links`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """`12 s`, `3 min 20 s`, `2 h 5 min`; `-` where it is not known."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
