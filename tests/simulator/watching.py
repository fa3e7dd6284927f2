"""Watches: a stream of events from a point in time on, with bookmarks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from .api import Api
from .errors import ApiError, expired
from .resources import Resource
from .selectors import field_selector, label_selector
from .store import Entry, Event

BOOKMARK_EVERY = 60.0


class _Filter:
    """What of the events of a type a watch is to see, and as what."""

    def __init__(self, resource: Resource, namespace: str | None, query: Any) -> None:
        self._namespace = namespace
        self._labels = label_selector(query.get("labelSelector"))
        self._fields = field_selector(query.get("fieldSelector"), resource.key, resource.kind)

    def fits(self, entry: Entry | None) -> bool:
        """Whether the watch is meant to see an object."""
        if entry is None:
            return False
        obj = entry.obj
        if self._namespace is not None and obj["metadata"].get("namespace") != self._namespace:
            return False
        return (not self._labels or self._labels(obj)) and (not self._fields or self._fields(obj))

    def as_seen(self, event: Event) -> str | None:
        """ADDED, MODIFIED or DELETED; an object that begins or ceases to fit is added or deleted."""
        before, now = self.fits(event.before), self.fits(event.entry)
        if event.kind == "DELETED":
            return "DELETED" if before else None
        if now:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None


async def watch(
    api: Api, resource: Resource, namespace: str | None, request: web.Request, timeout: float
) -> web.StreamResponse:
    """Serves a watch until the client goes away or the time is up."""
    query = request.query
    wanted = _Filter(resource, namespace, query)
    text = query.get("resourceVersion") or "0"
    try:
        start = int(text)
    except ValueError as error:
        raise ApiError(
            400,
            "BadRequest",
            f'strconv.ParseUint: parsing "{text}": invalid syntax',
        ) from error
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    store = api.store
    queue: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()

    def on_event(event: Event) -> None:
        kind = wanted.as_seen(event)
        if kind is not None:
            queue.put_nowait((kind, event.entry.raw))

    def bookmark(initial: bool = False) -> bytes:
        meta: dict[str, Any] = {"resourceVersion": str(store.version), "creationTimestamp": None}
        if initial:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        return json.dumps(
            {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        ).encode()

    if start and start < store.oldest:
        error = expired(f"too old resource version: {start} ({store.version})")
        await response.prepare(request)
        await response.write(
            b'{"type":"ERROR","object":' + json.dumps(error.status()).encode() + b"}\n"
        )
        await response.write_eof()
        return response
    if start == 0 or query.get("sendInitialEvents") == "true":
        for entry in store.entries(resource.key, namespace):
            if wanted.fits(entry):
                queue.put_nowait(("ADDED", entry.raw))
        if query.get("sendInitialEvents") == "true":
            queue.put_nowait(("BOOKMARK", bookmark(True)))
    else:
        for event in store.events_since(start):
            if event.key == resource.key:
                on_event(event)
    stop = store.listen(resource.key, on_event)
    marks = query.get("allowWatchBookmarks") in ("1", "true")
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    try:
        await response.prepare(request)
        while (left := end - loop.time()) > 0:
            try:
                kind, raw = await asyncio.wait_for(queue.get(), min(left, BOOKMARK_EVERY))
            except TimeoutError:
                if marks:
                    await response.write(_line("BOOKMARK", bookmark()))
                continue
            chunks = [_line(kind, raw)]
            while not queue.empty():
                chunks.append(_line(*queue.get_nowait()))
            await response.write(b"".join(chunks))
        if marks:
            await response.write(_line("BOOKMARK", bookmark()))
        await response.write_eof()
    except ConnectionError:
        pass
    finally:
        stop()
    return response


def _line(kind: str, raw: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + raw + b"}\n"
