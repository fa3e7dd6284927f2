# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads single values of role variables; every error names the variable, the value and what is allowed. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # RFC 1123 label
INTERFACE = re.compile(r"[^\s/:@,#]{1,15}")  # IFNAMSIZ is 16 with the closing zero
PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
NAME_FORM = "a name of lower-case letters, digits and hyphens"
OBJECT_NAME = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)  # RFC 1123 subdomain
OBJECT_NAME_FORM = "a name of lower-case letters, digits, hyphens and dots"
HEX4 = re.compile(r"[0-9a-f]{4}")


class Values:
    """A dictionary of variables, read one by one. `prefix` goes before each name in errors."""

    def __init__(self, values: Mapping[str, Any], prefix: str) -> None:
        self.values, self.prefix = values, prefix

    def raw(self, name: str) -> Any:
        return self.values.get(name)

    def given(self, name: str) -> bool:
        """Whether there is a value: null and empty text, list or dictionary are none; 0 and false are."""
        value = self.raw(name)
        return not (
            value is None or (isinstance(value, (str, Sequence, Mapping)) and len(value) == 0)
        )

    def bad(self, name: str, what: str) -> ValueError:
        return ValueError(f"{self.prefix}{name}={self.raw(name)!r}: {what}")

    def text(self, name: str, pattern: re.Pattern[str] | None = None, form: str = "") -> str:
        value = self.raw(name)
        if not isinstance(value, str) or not value.strip():
            raise self.bad(name, "it must be a text that is not empty")
        if pattern and not pattern.fullmatch(value):
            raise self.bad(name, f"it must be {form or f'of the form {pattern.pattern}'}")
        return value

    def optional_text(self, name: str) -> str:
        return self.text(name).strip() if self.given(name) else ""

    def texts(self, name: str, pattern: re.Pattern[str] | None = None, form: str = "") -> list[str]:
        """A list of different texts; one text may come without a list, several with commas."""
        value = self.raw(name)
        if value is None:
            return []
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list) or not all(isinstance(t, str) and t.strip() for t in value):
            raise self.bad(name, "it must be a list of texts (quote numbers)")
        for text in value:
            if pattern and not pattern.fullmatch(text):
                raise self.bad(name, f"{text!r} must be {form}")
        twice = sorted({t for t in value if value.count(t) > 1})
        if twice:
            raise self.bad(name, f"{twice[0]!r} is there twice")
        return list(value)

    def mapping(self, name: str) -> dict[str, Any]:
        value = self.raw(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.bad(name, "it must be a dictionary")
        return dict(value)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        value = self.raw(name)
        if value not in choices:
            near = get_close_matches(str(value), choices, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise self.bad(name, f"it must be one of {', '.join(choices)}{hint}")
        return str(value)

    def boolean(self, name: str) -> bool:
        value = self.raw(name)
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower()
        if text in ("true", "yes", "on", "1"):
            return True
        if text in ("false", "no", "off", "0"):
            return False
        raise self.bad(name, "it must be true or false")

    def integer(self, name: str, low: int, high: int) -> int:
        value = self.raw(name)
        text = str(value).strip()
        if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]+", text):
            raise self.bad(name, "it must be a whole number")
        if not low <= int(text) <= high:
            raise self.bad(name, f"it must be from {low} to {high}")
        return int(text)

    def number(self, name: str, low: float, high: float) -> int | float:
        """A finite number; int where it is whole."""
        value = self.raw(name)
        try:
            figure = float(value)
        except (TypeError, ValueError):
            raise self.bad(name, "it must be a number") from None
        if isinstance(value, bool):
            raise self.bad(name, "it must be a number")
        if not low <= figure <= high:
            raise self.bad(name, f"it must be from {low} to {high}")
        return int(figure) if figure == int(figure) else figure

    def refuse_unknown(self, known: Sequence[str]) -> None:
        """Raises for a key that is none of `known`, with the nearest one."""
        for name in self.values:
            if name not in known:
                near = get_close_matches(str(name), known, n=1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                raise ValueError(
                    f"{self.prefix}{name}: there is no such key{hint}; the keys are {', '.join(known)}"
                )
