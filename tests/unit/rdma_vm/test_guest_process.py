"""The client of the agent against an agent of this test."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable

import pytest
from rdma_vm import STDERR, STDOUT, GuestError, GuestProcess


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack(">BI", kind, len(data)) + data


def agent(answer: Callable[[socket.socket, list[bytes]], None]) -> int:
    """Answers one connection; returns the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with listener, connection:
            (length,) = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))
            words = connection.recv(length, socket.MSG_WAITALL).split(b"\0")[:-1]
            answer(connection, words)

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def test_streams_and_exit_code_in_any_pieces() -> None:
    seen: list[list[bytes]] = []

    def answer(connection: socket.socket, words: list[bytes]) -> None:
        seen.append(words)
        frames = [(5, b"\0\0\0\x2a"), (1, b"o"), (2, b"e"), (1, b"ut"), (3, b"\0\0\0\3")]
        for byte in b"".join(frame(*item) for item in frames):
            connection.sendall(bytes([byte]))

    pieces: list[tuple[int, bytes]] = []
    with GuestProcess(
        agent(answer), ["a", "b c"], on_output=lambda *piece: pieces.append(piece)
    ) as process:
        result = process.wait(5)
    assert seen == [[b"bound", b"a", b"b c"]]
    assert (result.out, result.err, result.returncode) == ("out", "e", 3)
    assert pieces == [(STDOUT, b"o"), (STDERR, b"e"), (STDOUT, b"ut")]
    assert process.pid == 42
    assert not process.lost


def test_the_end_by_a_signal_is_a_negative_code() -> None:
    def answer(connection: socket.socket, words: list[bytes]) -> None:
        connection.sendall(frame(5, b"\0\0\0\1"))
        assert connection.recv(9, socket.MSG_WAITALL) == frame(4, b"\0\0\0\x0f")
        connection.sendall(frame(3, struct.pack(">i", -15)))

    with GuestProcess(agent(answer), ["sleep"]) as process:
        process.wait_started(5)
        process.send_signal(15)
        assert process.wait(5).returncode == -15


@pytest.mark.parametrize(("errno", "code"), [(2, 127), (13, 126)])
def test_a_program_that_cannot_be_started(errno: int, code: int) -> None:
    port = agent(lambda connection, words: connection.sendall(frame(6, struct.pack(">i", errno))))
    with GuestProcess(port, ["none"]) as process:
        process.wait_started(5)
        assert process.wait(5).returncode == code
        assert process.start_error == errno
        assert process.pid is None


def test_a_lost_guest_is_no_exit_code() -> None:
    port = agent(lambda connection, words: connection.sendall(frame(1, b"some")))
    with GuestProcess(port, ["a"]) as process:
        with pytest.raises(GuestError, match="lost the guest"):
            process.wait(5)
        assert process.lost
        assert process.stdout == b"some"


def test_waiting_has_an_end() -> None:
    done = threading.Event()
    with GuestProcess(agent(lambda connection, words: done.wait(10) and None), ["a"]) as process:
        with pytest.raises(TimeoutError):
            process.wait(0.1)
        with pytest.raises(TimeoutError):
            process.wait_for(b"text", 0.1)
        done.set()


def test_waiting_for_a_text_ends_with_the_program() -> None:
    def answer(connection: socket.socket, words: list[bytes]) -> None:
        connection.sendall(frame(1, b"he") + frame(1, b"llo") + frame(3, b"\0\0\0\0"))

    with GuestProcess(agent(answer), ["a"]) as process:
        assert process.wait_for(b"hello", 5)
        assert not process.wait_for(b"world", 5)


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(GuestError, match="does not answer"):
        GuestProcess(port, ["a"])
