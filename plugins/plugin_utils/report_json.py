# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""results.json: the document as text. Pure."""

from __future__ import annotations

import json


def to_json(document: dict) -> str:
    """One line for each check, endpoint, link and finding, so that `grep` and `diff` are of use, and it stays small."""
    return f"{_write(document, 0, 2)}\n"


def _write(value: object, depth: int, unfolded: int) -> str:
    if not value or not isinstance(value, (dict, list)) or not _worth_unfolding(value, unfolded):
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
    pad, end = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict):
        lines = [
            f"{json.dumps(k, ensure_ascii=False)}: {_write(v, depth + 1, unfolded - 1)}"
            for k, v in value.items()
        ]
        opening, closing = "{", "}"
    else:
        # a list costs no level: tests are a list of dictionaries that hold lists
        lines = [_write(v, depth + 1, unfolded) for v in value]
        opening, closing = "[", "]"
    return opening + ",".join(f"\n{pad}{line}" for line in lines) + f"\n{end}{closing}"


def _worth_unfolding(value: dict | list, unfolded: int) -> bool:
    if unfolded > 0:
        return True
    return isinstance(value, list) and isinstance(value[0], dict) and unfolded == 0
