"""Time as Kubernetes writes it."""

from __future__ import annotations

import datetime


def timestamp(offset: float = 0.0) -> str:
    """RFC 3339 in whole seconds, as metav1.Time; offset in seconds from now."""
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=offset)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp() -> str:
    """RFC 3339 with microseconds, as metav1.MicroTime."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
