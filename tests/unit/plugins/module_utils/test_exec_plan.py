"""Items and their relations."""

from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.module_utils.exec_plan import (
    PlanError,
    Retry,
    StartAfter,
    read_items,
)


def item(name: str = "a", **more) -> dict:
    return {"id": name, "pod": "p", "command": ["true"], **more}


def test_defaults_are_filled_in() -> None:
    (one,) = read_items([item()], "ns", 60)
    assert (one.namespace, one.timeout, one.container) == ("ns", 60.0, None)
    (one,) = read_items([item(namespace="x", timeout=5, container="c")], "ns", 60)
    assert (one.namespace, one.timeout, one.container) == ("x", 5.0, "c")


def test_relations_are_read() -> None:
    after = {"item": "a", "event": "text", "text": "ready", "timeout": 3}
    retry = {"texts": ["refused"], "times": None, "delay": 1}
    items = read_items([item(), item("b", start_after=after, retry=retry)], "ns", 60)
    assert items[1].start_after == StartAfter("a", "text", "ready", 3.0)
    assert items[1].retry == Retry(("refused",), 20, 1.0)
    items = read_items([item(), item("b", start_after={"item": "a"})], "ns", 60)
    assert items[1].start_after == StartAfter("a", "ended", None, None)


def test_two_items_may_end_each_other_and_a_server_with_the_client_that_waited_for_it() -> None:
    after = {"item": "a", "event": "started"}
    read_items([item(end_with="b"), item("b", end_with="a", start_after=after)], "ns", 60)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ([item(""), item()], "item number 1 has an empty id"),
        ([item(), item()], "two items have the id 'a'"),
        ([item(pod="")], "item 'a': pod is empty"),
        ([item(command=[])], "item 'a': command is empty"),
        ([item(command=[""])], "item 'a': command is empty"),
        ([item(command=["a\0b"])], "NUL"),
        ([item(timeout=0)], "item 'a': timeout is 0; it must be a positive"),
        ([item(timeout=float("nan"))], "timeout is nan"),
        ([item(timeout=float("inf"))], "timeout is inf"),
        ([item(start_after={"item": "b"})], "item 'a': start_after names 'b', which is not an item"),
        ([item(end_with="b")], "item 'a': end_with names 'b', which is not an item"),
        ([item(start_after={"item": "a"})], "start_after names the item itself"),
        ([item(end_with="a")], "end_with names the item itself"),
        ([item(), item("b", start_after={"item": "a", "event": "text"})], "needs a text"),
        ([item(), item("b", start_after={"item": "a", "event": "text", "text": ""})], "needs a text"),
        ([item(), item("b", start_after={"item": "a", "text": "x"})], "set event=text"),
        ([item(), item("b", start_after={"item": "a", "event": "x"})], "not 'x'"),
        ([item(), item("b", start_after={"item": ""})], "needs the id"),
        ([item(), item("b", start_after={"item": "a", "timeout": -1})], "start_after.timeout is -1"),
        ([item(retry={"texts": []})], "retry needs texts"),
        ([item(retry={"texts": ["a", ""]})], "retry needs texts"),
        ([item(retry={"texts": ["a"], "times": -1})], "retry.times is -1"),
        ([item(retry={"texts": ["a"], "delay": -1})], "retry.delay is -1"),
    ],
)  # fmt: skip
def test_mistakes_are_named(raw: list, words: str) -> None:
    with pytest.raises(PlanError) as error:
        read_items(raw, "ns", 60)
    assert words in str(error.value)


def test_a_circle_is_shown() -> None:
    raw = [
        item("x", start_after={"item": "a"}),
        item("a", start_after={"item": "b"}),
        item("b", start_after={"item": "c", "event": "started"}),
        item("c", start_after={"item": "a"}),
    ]
    with pytest.raises(PlanError) as error:
        read_items(raw, "ns", 60)
    assert "'a' waits for 'b' waits for 'c' waits for 'a'" in str(error.value)


def test_a_long_chain_is_no_circle() -> None:
    raw = [item("0")] + [item(str(i), start_after={"item": str(i - 1)}) for i in range(1, 2000)]
    assert len(read_items(raw, "ns", 60)) == 2000
