# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of role report.

Each calls one function of plugin_utils; their documentation lies beside this file, one <filter>.yml each.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.release import __version__ as ansible_version
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.k8si.fabric.plugins.plugin_utils import (
    filter_errors,
    report,
    report_marks,
    report_settings,
)

# Up to ansible-core 2.18 a template whose text begins like a dictionary becomes one, and is written in other words.
_GUESSES_TYPES = tuple(map(int, ansible_version.split(".")[:2])) < (2, 19)
_ROOT = Path(__file__).parents[2]


@functools.cache
def _collection_version() -> str:
    """The version of this collection: from its manifest where it is installed, from galaxy.yml in a clone."""
    manifest, galaxy = _ROOT / "MANIFEST.json", _ROOT / "galaxy.yml"
    if manifest.is_file():
        return str(json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"])
    if galaxy.is_file():
        found = re.search(r"^version: *(\S+)", galaxy.read_text(encoding="utf-8"), re.MULTILINE)
        return found[1] if found else ""
    return ""


def _version_of(collection: str) -> str:
    if collection != "k8si.fabric":
        raise ValueError(f"the input must be k8si.fabric, not {collection!r}")
    return _collection_version()


def _make_report(facts: dict, settings: dict, context: dict) -> dict:
    versions = {"collection": _collection_version(), "ansible": ansible_version}
    made = report.make_report(facts, settings, {**context, **versions})
    if _GUESSES_TYPES and "results.json" in made["files"]:
        made["files"]["results.json"] = "\n" + made["files"]["results.json"]
    # What a cluster printed is in the files: no later task may take it for a template.
    return wrap_var(made)


def _report_settings(variables: dict) -> dict:
    settings, problems = report_settings.make_settings(variables)
    return {**settings, "problems": problems}


FILTERS: dict[str, Callable[..., Any]] = {
    "collection_version": _version_of,
    "make_report": _make_report,
    "report_marks": report_marks.manifests,
    "report_settings": _report_settings,
}


class FilterModule:
    """Entry point of Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return filter_errors.named(FILTERS, AnsibleFilterError)
