# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""WebSocket frames (RFC 6455) as far as pods/exec needs them. Pure: bytes in, bytes out.

The kubernetes client reads frames through WSClient, which joins text and decodes each frame by itself: characters split
over two frames are damaged, and what arrives in the same burst as the close can be lost. Here a frame is bytes until the end.
"""

from __future__ import annotations

import os
import struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_KNOWN = (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG)


class ProtocolError(Exception):
    """What arrived is not a WebSocket frame that a server may send."""


class FrameReader:
    """Cuts a byte stream into messages. Feed it whatever arrived, in any portions."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._message = bytearray()
        self._opcode: int | None = None

    def feed(self, data: bytes):
        """Take `data` and yield the messages that are now complete: (opcode, payload bytes).

        Fragments of one message are joined. Raises ProtocolError for what no server may send, after what came before it.
        """
        self._buffer += data
        while True:
            frame = self._next_frame()
            if frame is None:
                return
            final, opcode, payload = frame
            if (
                opcode >= CLOSE
            ):  # control frames may come between fragments, and are never fragmented
                yield opcode, payload
                continue
            if (opcode == CONTINUATION) != (self._opcode is not None):
                raise ProtocolError("fragments of messages out of order")
            if opcode != CONTINUATION:
                self._opcode = opcode
            self._message += payload
            if final:
                message = self._opcode, bytes(self._message)
                self._message = bytearray()
                self._opcode = None
                yield message

    def unfinished(self) -> bytes:
        """What has arrived of a data message that was cut off (b"" if none): worth keeping when a connection drops."""
        head = self._head()
        rest = b""
        if head is not None and head[1] < CLOSE:
            rest = bytes(self._buffer[head[2] :])
        return bytes(self._message) + rest

    def _head(self) -> tuple | None:
        """(final, opcode, offset of the payload, length of the payload) of the frame at hand, None if its head is not complete."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        if first & 0x70 or second & 0x80 or first & 0x0F not in _KNOWN:
            raise ProtocolError(f"unexpected frame head {first:02x} {second:02x}")
        length, offset = second & 0x7F, 2
        if length == 126:
            offset = 4
            if len(buffer) < offset:
                return None
            length = struct.unpack_from("!H", buffer, 2)[0]
        elif length == 127:
            offset = 10
            if len(buffer) < offset:
                return None
            length = struct.unpack_from("!Q", buffer, 2)[0]
        return bool(first & 0x80), first & 0x0F, offset, length

    def _next_frame(self) -> tuple | None:
        head = self._head()
        if head is None:
            return None
        final, opcode, offset, length = head
        if len(self._buffer) < offset + length:
            return None
        payload = bytes(memoryview(self._buffer)[offset : offset + length])
        del self._buffer[: offset + length]
        return final, opcode, payload


def client_frame(opcode: int, payload: bytes = b"") -> bytes:
    """One whole frame as a client sends it (masked). For control frames: at most 125 bytes of payload."""
    if len(payload) > 125:
        raise ValueError("only small frames are ever sent")
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
    return bytes((0x80 | opcode, 0x80 | len(payload))) + mask + masked
