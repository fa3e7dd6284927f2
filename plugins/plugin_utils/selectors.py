# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label selectors as kubectl takes them. Pure."""

from __future__ import annotations

import re

_KEY = r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_EQUALS = re.compile(rf"(?P<key>{_KEY})\s*(?P<operator>==|=|!=)\s*(?P<values>{_VALUE})")
_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EXISTS = re.compile(rf"(?P<operator>!?)\s*(?P<key>{_KEY})")

Requirement = tuple[str, str, list[str]]  # key, operator (=, !=, exists, absent), values


def parse(selector: str) -> list[Requirement]:
    """Requirements of a selector, all of which must hold.

    Raises ValueError, with the part that is not understood.
    """
    found: list[Requirement] = []
    for part in re.split(r",(?![^(]*\))", selector):
        text = part.strip()
        if match := _EQUALS.fullmatch(text):
            operator = "!=" if match["operator"] == "!=" else "="
            found.append((match["key"], operator, [match["values"]]))
        elif match := _SET.fullmatch(text):
            values = [v.strip() for v in match["values"].split(",")]
            found.append((match["key"], "=" if match["operator"] == "in" else "!=", values))
        elif match := _EXISTS.fullmatch(text):
            found.append((match["key"], "absent" if match["operator"] else "exists", []))
        else:
            raise ValueError(
                f"{text!r} is no label selector, such as key=value, key!=value, key in (a, b), key or !key"
            )
    return found


def matches(requirements: list[Requirement], labels: dict[str, str]) -> bool:
    """Whether labels satisfy all requirements. As in Kubernetes, `!=` and `notin` hold also where there is no such label."""
    tests = {
        "=": lambda key, values: labels.get(key) in values,
        "!=": lambda key, values: labels.get(key) not in values,
        "exists": lambda key, _values: key in labels,
        "absent": lambda key, _values: key not in labels,
    }
    return all(tests[operator](key, values) for key, operator, values in requirements)
