"""Frames, in any portions and with everything that may go wrong."""

from __future__ import annotations

import struct

import pytest
from ansible_collections.k8si.fabric.plugins.module_utils.exec_wire import (
    BINARY,
    CLOSE,
    PING,
    FrameReader,
    ProtocolError,
    client_frame,
)
from ansible_collections.k8si.fabric.tests.unit.plugins.module_utils.exec_server import Exec


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 200_000])
@pytest.mark.parametrize("portion", [1, 7, 4096, 10**6])
def test_frames_of_every_size_in_every_portion(size: int, portion: int) -> None:
    if size > 70_000 and portion < 100:
        portion = 1000
    payload = bytes(i % 251 for i in range(size))
    raw = Exec.frame(payload) + Exec.frame(b"\x01x")
    reader, got = FrameReader(), []
    for i in range(0, len(raw), portion):
        got += reader.feed(raw[i : i + portion])
    assert got == [(BINARY, payload), (BINARY, b"\x01x")]
    assert reader.unfinished() == b""


def test_fragments_are_joined_and_control_frames_may_come_between() -> None:
    raw = Exec.frame(b"\x01a", final=False) + Exec.frame(b"p", opcode=PING)
    raw += Exec.frame(b"b", opcode=0, final=False) + Exec.frame(b"c", opcode=0)
    assert list(FrameReader().feed(raw)) == [(PING, b"p"), (BINARY, b"\x01abc")]


@pytest.mark.parametrize("cut", [1, 2, 3, 10])
def test_what_arrived_of_a_cut_frame_is_not_lost(cut: int) -> None:
    reader = FrameReader()
    assert list(reader.feed(Exec.frame(b"\x01" + b"x" * 500)[: 4 + cut])) == []
    assert reader.unfinished() == b"\x01" + b"x" * (cut - 1)


def test_a_cut_fragment_comes_with_those_before_it() -> None:
    reader = FrameReader()
    assert not list(
        reader.feed(Exec.frame(b"\x01ab", final=False) + Exec.frame(b"cdef", opcode=0)[:4])
    )
    assert reader.unfinished() == b"\x01abcd"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\xc2\x01a", id="reserved bit"),
        pytest.param(b"\x82\x81\0\0\0\0a", id="masked by a server"),
        pytest.param(b"\x83\x01a", id="unknown opcode"),
        pytest.param(b"\x80\x01a", id="continuation of nothing"),
        pytest.param(b"\x02\x01a\x82\x01b", id="new message inside a message"),
        pytest.param(b"HTTP/1.1 200 OK", id="not WebSocket"),
    ],
)
def test_what_no_server_may_send_is_an_error(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(Exec.frame(b"\x01before") + raw))


def test_what_came_before_the_error_is_not_lost() -> None:
    messages = FrameReader().feed(Exec.frame(b"\x01before") + b"garbage")
    assert next(messages) == (BINARY, b"\x01before")
    with pytest.raises(ProtocolError):
        next(messages)


def test_client_frames_are_masked() -> None:
    raw = client_frame(CLOSE, struct.pack("!H", 1000))
    assert raw[0] == 0x88 and raw[1] == 0x82
    assert bytes(b ^ raw[2 + i % 4] for i, b in enumerate(raw[6:])) == b"\x03\xe8"
    with pytest.raises(ValueError):
        client_frame(PING, b"x" * 126)
