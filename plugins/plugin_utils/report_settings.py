# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of role report: typed and checked. Pure.

A report must not fail for a misspelt option after an hour of measurements: what is wrong falls back to its default, and the
problem is told at the end.
"""

from __future__ import annotations

from ansible_collections.k8si.fabric.plugins.plugin_utils.report import FORMATS

DEFAULTS = {
    "dir": "",
    "formats": list(FORMATS),
    "baseline": "",
    "baseline_tolerance": 5,
    "node_annotations": False,
    "node_labels": False,
    "event": False,
    "event_namespace": "default",
}


def make_settings(variables: dict) -> tuple[dict, list[str]]:
    """Checks and converts the role's variables.

    Args:
        variables: without their prefix; what is missing gets its default.

    Returns:
        ({`dir`, `formats`, `baseline`, `tolerance_percent`, `node_annotations`, `node_labels`, `event`, `event_namespace`},
        [a sentence for each variable that could not be used]).
    """
    given = {**DEFAULTS, **{k: v for k, v in variables.items() if v is not None}}
    problems: list[str] = []

    def read(name, convert, wanted):
        try:
            return convert(given[name])
        except (TypeError, ValueError):
            problems.append(f"report_{name}={given[name]!r}: it must be {wanted}")
            return convert(DEFAULTS[name])

    kinds = ", ".join(FORMATS)
    settings = {
        "dir": read("dir", _text, "a text"),
        "formats": read("formats", _formats, f"a list of one or more of {kinds}"),
        "baseline": read("baseline", _text, "a path"),
        "tolerance_percent": read("baseline_tolerance", _percent, "a number from 0 to 100"),
        "event_namespace": read("event_namespace", _text, "a name"),
    }
    for name in ("node_annotations", "node_labels", "event"):
        settings[name] = read(name, _boolean, "true or false")
    return settings, problems


def _text(value) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value.strip()


def _formats(value) -> list[str]:
    if isinstance(value, str):
        value = [v.strip() for v in value.split(",")]
    if not isinstance(value, list) or not value or any(v not in FORMATS for v in value):
        raise ValueError(value)
    return [f for f in FORMATS if f in value]


def _percent(value) -> float:
    if isinstance(value, bool):
        raise ValueError(value)
    number = float(value)
    if not 0 <= number <= 100:
        raise ValueError(value)
    return number


def _boolean(value) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("true", "yes", "on", "1"):
        return True
    if text in ("false", "no", "off", "0"):
        return False
    raise ValueError(value)
