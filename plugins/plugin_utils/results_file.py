# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the results.json of an earlier run. Pure: the caller brings the text."""

from __future__ import annotations

import json

SCHEMA_VERSION = "1.0"  # of the document that report_document makes


def read_results(text: str, name: str) -> dict:
    """The document of an earlier run. ValueError, with a sentence that names `name`, for anything that is none."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is not JSON: {error}") from error
    version = document.get("schema_version") if isinstance(document, dict) else None
    if not isinstance(version, str) or not isinstance(document.get("tests"), list):
        raise ValueError(f"{name} is not a results.json of this collection")
    if version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise ValueError(
            f"{name} has schema version {version}, this collection reads {SCHEMA_VERSION}"
        )
    return document
