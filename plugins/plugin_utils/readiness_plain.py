# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes Ansible's own kinds of values back to plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def plain(value: Any) -> Any:
    """The same data in exact dicts, lists, strings and numbers.

    Ansible hands plugins subclasses of these, which carry their origin along. JMESPath compares exact types, and
    plain values are a good deal faster to walk through.
    """
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(item) for item in value]
    return str(value)
