# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of filters that a user can act on. Pure: the class of the error is the caller's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def named(
    filters: dict[str, Callable[..., Any]], error_class: type[Exception]
) -> dict[str, Callable[..., Any]]:
    """The same functions; what is wrong with their input comes as `error_class`, with the name of the filter in front."""
    return {name: _named(name, function, error_class) for name, function in filters.items()}


def _named(
    name: str, function: Callable[..., Any], error_class: type[Exception]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            raise error_class(f"k8si.fabric.{name}: {kind}{error}") from error

    return call
