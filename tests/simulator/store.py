"""The objects of the cluster, in memory, with resource versions and a log of events.

Stored objects are never changed in place: a write puts a new object in the place of the old one. Lists and watches
therefore hand out the objects themselves, and each is turned into JSON once, however often it is read.
"""

from __future__ import annotations

import bisect
import itertools
import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Key = tuple[str, str]  # group, plural
Obj = dict[str, Any]


def thaw(obj: Any) -> Any:
    """A deep copy that may be changed; much cheaper than copy.deepcopy for JSON data."""
    return json.loads(json.dumps(obj))


class Entry:
    """An object and its JSON text, made when it is first wanted."""

    __slots__ = ("_raw", "obj")

    def __init__(self, obj: Obj) -> None:
        self.obj = obj
        self._raw: bytes | None = None

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        if self._raw is None:
            self._raw = json.dumps(self.obj, separators=(",", ":")).encode()
        return self._raw


@dataclass(frozen=True)
class Event:
    """One change: what the object is now, and what it was before (None when it is new)."""

    version: int
    key: Key
    kind: str  # ADDED, MODIFIED, DELETED
    entry: Entry
    before: Entry | None


class Store:
    """Objects by type, namespace and name."""

    LOG = 20_000  # events kept for watches that start in the past

    def __init__(self) -> None:
        self.version = 1
        self._objects: dict[Key, dict[tuple[str, str], Entry]] = {}
        self._log: deque[Event] = deque()
        self.oldest = 1  # watches older than this are told 410
        self._listeners: dict[Key, list[Callable[[Event], None]]] = {}
        self._order: dict[Key, list[tuple[str, str]]] = {}  # sorted keys, until one comes or goes

    # ---- reading
    def find(self, key: Key, namespace: str | None, name: str) -> Obj | None:
        """An object, or None."""
        entry = self._objects.get(key, {}).get((namespace or "", name))
        return entry.obj if entry else None

    def entry(self, key: Key, namespace: str | None, name: str) -> Entry | None:
        """An object with its JSON text, or None."""
        return self._objects.get(key, {}).get((namespace or "", name))

    def entries(self, key: Key, namespace: str | None = None) -> list[Entry]:
        """All objects of a type, of one namespace or all, in the order of namespace and name."""
        table = self._objects.get(key, {})
        order = self._order.get(key)
        if order is None:
            order = self._order[key] = sorted(table)
        if namespace is None:
            return [table[k] for k in order]
        start = bisect.bisect_left(order, (namespace, ""))
        return [table[k] for k in itertools.takewhile(lambda k: k[0] == namespace, order[start:])]

    def all(self, key: Key, namespace: str | None = None) -> Iterator[Obj]:
        """The objects of a type."""
        for entry in self.entries(key, namespace):
            yield entry.obj

    def everything(self) -> Iterator[tuple[Key, Entry]]:
        """All objects of all types."""
        for key, table in list(self._objects.items()):
            for entry in list(table.values()):
                yield key, entry

    def events_since(self, version: int) -> list[Event]:
        """Events after a resource version, oldest first."""
        out: list[Event] = []
        for event in reversed(self._log):
            if event.version <= version:
                break
            out.append(event)
        out.reverse()
        return out

    # ---- writing
    def put(self, key: Key, obj: Obj) -> Obj:
        """Stores a new object or a new state of one; gives it the next resource version."""
        meta = obj["metadata"]
        where = (meta.get("namespace") or "", meta["name"])
        table = self._objects.setdefault(key, {})
        before = table.get(where)
        if before is None:
            self._order.pop(key, None)
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        entry = Entry(obj)
        table[where] = entry
        self._publish(Event(self.version, key, "MODIFIED" if before else "ADDED", entry, before))
        return obj

    def remove(self, key: Key, namespace: str | None, name: str) -> Obj | None:
        """Takes an object out; the last state that watchers see has a new resource version."""
        before = self._objects.get(key, {}).pop((namespace or "", name), None)
        if before is None:
            return None
        self._order.pop(key, None)
        self.version += 1
        meta = {**before.obj["metadata"], "resourceVersion": str(self.version)}
        entry = Entry({**before.obj, "metadata": meta})
        self._publish(Event(self.version, key, "DELETED", entry, before))
        return entry.obj

    def listen(self, key: Key, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Calls back on every change of a type, in order; returns what ends it."""
        listeners = self._listeners.setdefault(key, [])
        listeners.append(callback)

        def stop() -> None:
            if callback in listeners:
                listeners.remove(callback)

        return stop

    def compact(self) -> None:
        """Forgets the past, as etcd's compaction does: older watches and lists are told 410."""
        self._log.clear()
        self.oldest = self.version

    def _publish(self, event: Event) -> None:
        self._log.append(event)
        while len(self._log) > self.LOG:
            self.oldest = self._log.popleft().version
        for callback in list(self._listeners.get(event.key, ())):
            callback(event)
