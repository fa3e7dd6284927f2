# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds misspelt role variables, which Ansible itself silently ignores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any


def option_names(specs: Mapping[str, Any] | Iterable[str]) -> set[str]:
    """The names of a role's options.

    ``specs`` is the document of ``meta/argument_specs.yml`` (all entry points count), the ``options`` of one
    entry point, or a plain list of names. Raises :class:`ValueError` for anything else.
    """
    if isinstance(specs, Mapping):
        entry_points = specs.get("argument_specs")
        if entry_points is None:
            return {str(name) for name in specs}
        if not isinstance(entry_points, Mapping):
            raise ValueError("'argument_specs' must be a mapping of entry points")
        return {
            str(name)
            for entry_point in entry_points.values()
            for name in ((entry_point or {}).get("options") or {})
        }
    if isinstance(specs, (str, bytes)) or not isinstance(specs, Iterable):
        raise ValueError(
            f"options must be the argument specs, a mapping of options or a list of names, not {specs!r}"
        )
    return {str(name) for name in specs}


def unknown_variables(
    names: Iterable[str], specs: Mapping[str, Any] | Iterable[str], prefix: str
) -> list[str]:
    """Those of ``names`` that start with ``prefix`` and are no option of the role, sorted.

    Each comes as a phrase, with the nearest option where there is one:
    ``readiness_namespce (did you mean readiness_namespace?)``.
    The fact that a role leaves behind (``<prefix>result``) is no input and never reported; internals start with
    underscores, so they do not carry the prefix.
    """
    if not prefix:
        raise ValueError("the prefix must not be empty")
    known = option_names(specs)
    unknown = sorted(
        {name for name in names if name.startswith(prefix)} - known - {f"{prefix}result"}
    )
    return [_with_suggestion(name, known) for name in unknown]


def _with_suggestion(name: str, known: set[str]) -> str:
    # sorted: the answer must not depend on the order of a set
    nearest = get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return f"{name} (did you mean {nearest[0]}?)" if nearest else name
