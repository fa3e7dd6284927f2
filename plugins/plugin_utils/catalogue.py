# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of failures as data: reason codes with cause and remedy, and the signatures they are told by.

The rows live in failures.yml (and in *_codes.yml beside it, for rows that belong to one part of the
collection); this module only reads them. Adding a code is adding a row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

REFERENCE = "docs/troubleshooting.md"
FIELDS = ("code", "title", "layer", "cause", "remedy", "retry", "source")
LAYERS = ("operator", "node", "pod", "rdma", "gpudirect", "perf", "run")
CONDITIONS = (
    "gpu",
    "dmabuf",
    "rdma_cm",
    "host_passed",
    "zero_gid",
    "options_differ",
    "transport",
)
# How near to the cause a line is: a refused resource explains a refused connection, never the reverse.
RANKS = ("cause", "connection", "transport", "crash", "hint", "peer")

_HERE = Path(__file__).parent
_MAX_TEXT = 4096


class CatalogueError(ValueError):
    """A row of the catalogue is not complete, or a code is not in it."""


@dataclass(frozen=True)
class Signature:
    """A text by which a code is told, and what else must be known for it to count."""

    code: str
    layer: str
    text: re.Pattern
    rank: int = 0
    beside: re.Pattern | None = None
    when: dict = field(default_factory=dict)

    def fits(self, line: str, context: dict, beside: str) -> bool:
        """Tell whether a line has this signature. context: what is known of the run; absent means null."""
        if any(context.get(name) != value for name, value in self.when.items()):
            return False
        if self.text.search(line) is None:
            return False
        return self.beside is None or self.beside.search(beside) is not None


@cache
def _rows() -> tuple[dict, ...]:
    # The C loader is ten times as fast and not in every build of PyYAML.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    rows: dict[str, dict] = {}
    for path in (_HERE / "failures.yml", *sorted(_HERE.glob("*_codes.yml"))):
        # safe loader, only chosen by name
        for row in yaml.load(path.read_text(encoding="utf-8"), Loader=loader) or ():
            missing = [name for name in FIELDS if row.get(name) in (None, "", [])]
            if missing:
                raise CatalogueError(
                    f"{path.name}: {row.get('code')}: without {', '.join(missing)}"
                )
            rows.setdefault(row["code"], row)
    return tuple(rows.values())


@cache
def catalogue() -> dict[str, dict]:
    """Return code -> {code, title, cause, remedy, retry, layer, where, source, anchor}.

    anchor is the name of the code's place in docs/troubleshooting.md, which is made from these rows.
    """
    return {
        row["code"]: {
            "code": row["code"],
            "title": row["title"],
            "cause": row["cause"],
            "remedy": row["remedy"],
            "retry": row["retry"],
            "layer": row["layer"],
            "where": row.get("where", ""),
            "source": [row["source"]] if isinstance(row["source"], str) else list(row["source"]),
            "anchor": row["code"],
        }
        for row in _rows()
    }


@cache
def signatures() -> tuple[Signature, ...]:
    """Return all signatures in the order in which they are tried: specific ones come first in the file."""
    found = []
    for row in _rows():
        for entry in row.get("match", ()):
            when = entry.get("when", {})
            if unknown := set(when) - set(CONDITIONS):
                raise CatalogueError(
                    f"{row['code']}: unknown condition {', '.join(sorted(unknown))}"
                )
            found.append(
                Signature(
                    code=row["code"],
                    layer=row["layer"],
                    text=re.compile(entry["text"]),
                    rank=RANKS.index(entry.get("rank", "cause")),
                    beside=re.compile(entry["with"]) if "with" in entry else None,
                    when=when,
                )
            )
    return tuple(found)


def samples() -> list[tuple[str, str, str]]:
    """Return (code, layer, text) for each sample line of the catalogue."""
    return [(row["code"], row["layer"], text) for row in _rows() for text in row.get("samples", ())]


def finding(
    code: str,
    *,
    where: dict | None = None,
    seen: str = "",
    line: str = "",
    **extra: object,
) -> dict:
    """Return {code, title, where, seen, line, cause, remedy, retry, reference} and what is given besides.

    where: what it is about, such as {node, pod, side}. seen: what was observed, in words. line: the raw
    line that tells it. Raises CatalogueError for a code that has no row.
    """
    entry = catalogue().get(code)
    if entry is None:
        raise CatalogueError(f"the reason code {code} is not in the catalogue")
    result = {
        "code": code,
        "title": entry["title"],
        "where": dict(where or {}),
        "seen": seen,
        "line": line,
        "cause": entry["cause"],
        "remedy": entry["remedy"],
        "retry": entry["retry"],
        "reference": f"{REFERENCE}#{entry['anchor']}",
    }
    result.update(extra)
    return result


def best_match(
    lines: list[str], context: dict, layers: tuple[str, ...]
) -> tuple[Signature, str] | None:
    """Return the signature nearest to the cause in some lines of one origin, and its line, or None.

    Among lines of the same rank the first wins: what follows it is consequence.
    """
    usable = [s for s in signatures() if s.layer in layers]
    beside = "\n".join(lines)[: 16 * _MAX_TEXT]
    best: tuple[Signature, str] | None = None
    for line in lines:
        for signature in usable:
            if (best is None or signature.rank < best[0].rank) and signature.fits(
                line[:_MAX_TEXT], context, beside
            ):
                best = (signature, line)
                break
        if best is not None and best[0].rank == 0:
            break
    return best


def diagnose_text(text: str, layer: str) -> dict | None:
    """Return a finding for a text of one layer (an event, a log, an error message), or None.

    layer: operator, node, pod, rdma, gpudirect, perf or run. None means that the catalogue does not know
    the text; it is not a sign that all is well.
    """
    if layer not in LAYERS:
        raise CatalogueError(f"{layer!r} is not a layer; it must be one of {', '.join(LAYERS)}")
    lines = [line.strip() for line in text.split("\n") if line.strip()][:1000]
    context = {"gpu": layer == "gpudirect"}
    match = best_match(lines, context, (layer,))
    if match is None:
        return None
    return finding(match[0].code, seen=match[1][:500], line=match[1][:500])
