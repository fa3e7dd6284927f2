# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of role readiness. Each is documented in the sidecar file that carries its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness import report
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_access import reviews
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_findings import Context
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_plain import plain
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_reads import (
    plan_reads,
    read_outcomes,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_settings import (
    Settings,
    make_settings,
)


def readiness_reviews(settings: Any) -> list[dict[str, Any]]:
    """The questions about what is allowed."""
    return reviews(_settings("readiness_reviews", settings))


def readiness_reads(settings: Any, seen: Any) -> list[dict[str, Any]]:
    """The reads that are due."""
    name = "readiness_reads"
    return plan_reads(_settings(name, settings), _mapping(name, "seen", seen))


def readiness_outcomes(results: Any, seen: Any) -> dict[str, Any]:
    """What the reads brought, added to what was seen before."""
    name = "readiness_outcomes"
    if isinstance(results, (str, Mapping)) or not isinstance(results, Iterable):
        raise _error(name, f"the input must be the results of a loop, not {results!r}")
    return {**_mapping(name, "seen", seen), **read_outcomes(results)}


def readiness_judge(seen: Any, settings: Any, cluster: Any) -> dict[str, Any]:
    """The result and the words about it."""
    name = "readiness_judge"
    answered = _mapping(name, "cluster", cluster)
    context = Context(
        settings=_settings(name, settings),
        reads=_mapping(name, "seen", seen),
        cluster=answered,
        reviews=answered.get("reviews") or [],
    )
    try:
        return report(context)
    except ValueError as error:
        raise _error(name, str(error)) from error


def _settings(name: str, values: Any) -> Settings:
    try:
        return make_settings(_mapping(name, "settings", values))
    except ValueError as error:
        raise _error(name, str(error)) from error


def _mapping(name: str, what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _error(name, f"{what} must be a mapping, not {value!r}")
    return plain(value)


def _error(name: str, words: str) -> AnsibleFilterError:
    return AnsibleFilterError(f"k8si.fabric.{name}: {words}")


class FilterModule:
    """Entry point of Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "readiness_judge": readiness_judge,
            "readiness_outcomes": readiness_outcomes,
            "readiness_reads": readiness_reads,
            "readiness_reviews": readiness_reviews,
        }
