# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""report.html: the view in one self-contained file. Pure but for reading the templates that lie beside this file.

Everything is escaped by Jinja, and a content security policy lets the browser run no script but the page's own and load
nothing at all: what a cluster printed is shown as text, twice over.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from pathlib import Path

from ansible_collections.k8si.fabric.plugins.plugin_utils.report_text import visible
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_view import make_view
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_TEMPLATES = Path(__file__).with_name("report_templates")


def to_html(document: dict) -> str:
    """The page."""
    environment = _environment()
    style = environment.loader.get_source(environment, "style.css")[0]  # type: ignore[union-attr]
    script = environment.loader.get_source(environment, "page.js")[0]  # type: ignore[union-attr]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    view = make_view(document)
    return environment.get_template("page.html.j2").render(
        **view,
        style=Markup(style),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
        data=_island(view["curves"]),
    )


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _shown(value: object) -> object:
    """Control characters made visible; nothing for None. What is markup already stays."""
    if value is None:
        return ""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return visible(value)
    return value


def _island(data: dict) -> Markup:
    """Data for the script, as JSON that cannot end the element it stands in."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
