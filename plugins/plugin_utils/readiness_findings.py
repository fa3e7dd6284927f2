# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shapes that the judges of readiness speak in: what they are given and what they answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import yaml

from .readiness_settings import Settings


def load_yaml(stream: TextIO) -> Any:
    """A data file of the collection; by libyaml where there is one, which is ten times as fast."""
    return yaml.load(stream, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be.

    ``severity`` overrules that of the check (a cordoned node is advice where enough others are left);
    ``retry`` overrules that of the catalogue: whether waiting alone may clear it.
    """

    code: str
    seen: str
    required: str = ""
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    nodes: tuple[str, ...] = ()
    severity: str | None = None
    retry: bool | None = None
    evidence: Any = None


@dataclass(frozen=True)
class Judgement:
    """The answer of a check: no findings means passed; ``skipped`` says why there was nothing to judge."""

    findings: Sequence[Finding] = ()
    seen: str = ""
    evidence: Any = None
    skipped: str | None = None


@dataclass(frozen=True)
class Context:
    """All that a judge may look at.

    ``reads`` are outcomes as ``readiness_reads`` describes them; ``cluster`` is what the first ``k8s_read`` registered
    (``server_version``, or ``msg`` where nobody answered) and ``reviews`` its answers to ``readiness_reviews``.
    """

    settings: Settings
    reads: Mapping[str, Mapping[str, Any]]
    cluster: Mapping[str, Any] = field(default_factory=dict)
    reviews: Sequence[Mapping[str, Any]] = ()
    # what several judges work out of the same reads, worked out once
    memory: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def status(self, read_id: str) -> str:
        """ok, no_kind, forbidden, failed or not_read."""
        return str((self.reads.get(read_id) or {}).get("status", "not_read"))

    def items(self, read_id: str) -> list[Mapping[str, Any]]:
        """The objects that the read brought, none if it was not made or not allowed."""
        return list((self.reads.get(read_id) or {}).get("items") or [])


def names(items: Iterable[Any], limit: int = 8) -> str:
    """Names for a sentence: ``a, b, c and 12 more``."""
    texts = [str(item) for item in items]
    more = len(texts) - limit
    # leaving out a single name saves nothing
    if more <= 1:
        return ", ".join(texts)
    return f"{', '.join(texts[:limit])} and {more} more"


def meta(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of an object, empty if it has none."""
    return item.get("metadata") or {}


def status_of(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of an object, empty if it has none."""
    return item.get("status") or {}


def by_code(findings: Iterable[Finding], code: str) -> list[Finding]:
    """Those of ``findings`` that carry ``code``."""
    return [finding for finding in findings if finding.code == code]
