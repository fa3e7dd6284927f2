# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be run, and in which relation: the items of k8s_exec_batch, checked. Pure."""

from __future__ import annotations

from dataclasses import dataclass

STARTED, TEXT, ENDED = "started", "text", "ended"


class PlanError(ValueError):
    """The items contradict each other or themselves; the message says where."""


@dataclass(frozen=True)
class StartAfter:
    """Wait for an event of another item. `timeout` in seconds; None waits as long as that item can still get there."""

    item: str
    event: str = ENDED
    text: str | None = None
    timeout: float | None = None


@dataclass(frozen=True)
class Retry:
    """Start the command again, at most `times` times, `delay` seconds later, if it fails with one of `texts` in its output."""

    texts: tuple = ()
    times: int = 20
    delay: float = 0.25


@dataclass(frozen=True)
class Item:
    """One command in one container. `timeout` is in seconds from the item's own start."""

    id: str
    namespace: str
    pod: str
    container: str | None
    command: tuple
    timeout: float
    start_after: StartAfter | None = None
    end_with: str | None = None
    retry: Retry | None = None


def read_items(raw: list, namespace: str, timeout: float) -> list:
    """Turn the module's `items` (list of dicts, types already checked) into Items, with the defaults filled in.

    Raises PlanError: an empty or double id, an empty command, a time that is not positive, a missing or superfluous text,
    a relation to an unknown item or to itself, a circle of start_after.
    """
    items = [_read_item(number, entry, namespace, timeout) for number, entry in enumerate(raw)]
    known = {}
    for item in items:
        if item.id in known:
            raise PlanError(f"two items have the id {item.id!r}; each needs its own")
        known[item.id] = item
    for item in items:
        relations = [("end_with", item.end_with)] if item.end_with is not None else []
        if item.start_after is not None:
            relations.append(("start_after", item.start_after.item))
        for name, other in relations:
            if other not in known:
                raise PlanError(
                    f"item {item.id!r}: {name} names {other!r}, which is not an item of this task"
                )
            if other == item.id:
                raise PlanError(f"item {item.id!r}: {name} names the item itself")
    _refuse_circles(known)
    return items


def _read_item(number: int, entry: dict, namespace: str, timeout: float) -> Item:
    name = entry.get("id")
    if not name:
        raise PlanError(f"item number {number + 1} has an empty id")
    where = f"item {name!r}"
    if not entry.get("pod"):
        raise PlanError(f"{where}: pod is empty")
    command = tuple(entry.get("command") or ())
    if not command or not command[0]:
        raise PlanError(f"{where}: command is empty; give a list, the program first")
    if any("\0" in word for word in command):
        raise PlanError(f"{where}: command holds a NUL character, which no program can be given")
    return Item(
        id=name,
        namespace=entry.get("namespace") or namespace,
        pod=entry["pod"],
        container=entry.get("container") or None,
        command=command,
        timeout=_positive(
            where, "timeout", timeout if entry.get("timeout") is None else entry["timeout"]
        ),
        start_after=_read_start_after(where, entry.get("start_after")),
        end_with=entry.get("end_with"),
        retry=_read_retry(where, entry.get("retry")),
    )


def _positive(where: str, name: str, value: float) -> float:
    if not 0 < value < 10**9:
        raise PlanError(f"{where}: {name} is {value:g}; it must be a positive number of seconds")
    return float(value)


def _read_start_after(where: str, raw: dict | None) -> StartAfter | None:
    if raw is None:
        return None
    event, text = raw.get("event") or ENDED, raw.get("text")
    if not raw.get("item"):
        raise PlanError(f"{where}: start_after needs the id of an item")
    if event not in (STARTED, TEXT, ENDED):
        raise PlanError(
            f"{where}: start_after knows the events started, text and ended, not {event!r}"
        )
    if event == TEXT and not text:
        raise PlanError(f"{where}: start_after with event=text needs a text to wait for")
    if event != TEXT and text:
        raise PlanError(
            f"{where}: start_after has a text but event={event}; set event=text to wait for it"
        )
    limit = raw.get("timeout")
    if limit is not None:
        limit = _positive(where, "start_after.timeout", limit)
    return StartAfter(raw["item"], event, text, limit)


def _read_retry(where: str, raw: dict | None) -> Retry | None:
    if raw is None:
        return None
    texts = tuple(raw.get("texts") or ())
    if not texts or not all(texts):
        raise PlanError(f"{where}: retry needs texts, and none of them empty")
    times = Retry.times if raw.get("times") is None else raw["times"]
    delay = Retry.delay if raw.get("delay") is None else raw["delay"]
    if times < 0:
        raise PlanError(f"{where}: retry.times is {times}; it must not be negative")
    if not 0 <= delay < 10**9:
        raise PlanError(f"{where}: retry.delay is {delay:g}; it must not be negative")
    return Retry(texts, times, float(delay))


def _refuse_circles(known: dict) -> None:
    """Items that wait for each other's start would wait for ever. (end_with may go both ways.)"""
    cleared = set()
    for name in known:
        trail = []
        while name is not None and name not in cleared:
            if name in trail:
                circle = [*trail[trail.index(name) :], name]
                raise PlanError(
                    "start_after goes round in a circle: "
                    + " waits for ".join(repr(link) for link in circle)
                )
            trail.append(name)
            after = known[name].start_after
            name = after.item if after else None
        cleared.update(trail)
