"""A loopback API server that answers pods/exec with hand-written frames, so that every nasty thing can be sent.

Each pod name has a behaviour: a function that gets an Exec and does with the connection what it likes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import ssl
import struct
import subprocess
import threading
import time
from contextlib import suppress
from urllib.parse import parse_qs, unquote, urlsplit

from ansible_collections.k8si.fabric.plugins.module_utils.exec_batch import KILL, START

SUCCESS = {"metadata": {}, "status": "Success"}


def failure(rc: int) -> dict:
    """The Status object with which a real API server reports a non-zero exit code."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {rc}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(rc)}]},
    }


def internal_error(message: str) -> dict:
    """The Status object of an API server whose kubelet or runtime could not start the command."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": "Internal error occurred: " + message,
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }


def http_status(code: int, reason: str, message: str) -> bytes:
    """The body of a refusal."""
    return json.dumps(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
        | {"reason": reason, "code": code}
    ).encode()


class Exec:
    """One exec connection, seen from the server."""

    def __init__(self, server: ExecServer, sock, path: str, headers: list) -> None:
        self.server = server
        self.sock = sock
        url = urlsplit(path)
        self.path = url.path
        parts = [unquote(part) for part in url.path.split("/")]
        self.namespace, self.pod = parts[-4], parts[-2]
        query = parse_qs(url.query, keep_blank_values=True)
        self.query = query
        self.sent = query.get("command", [])
        self.container = query.get("container", [None])[0]
        self.headers = headers
        self.is_kill = self.sent[2:3] == [KILL]
        self.command = self.sent[4:] if self.sent[2:3] == [START] else self.sent
        self.lock = threading.Lock()
        self.buffer = b""

    def header(self, name: str) -> list:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def refuse(self, code: int, body: bytes = b"", **headers) -> None:
        lines = [f"HTTP/1.1 {code} Some Reason", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.sock.sendall("\r\n".join([*lines, "", ""]).encode() + body)

    def accept(self, protocol: str | None = None, early: bytes = b"") -> None:
        """Answer the handshake; `early` is sent in the same segment."""
        key = self.header("sec-websocket-key")[0].encode()
        magic = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        answer = base64.b64encode(hashlib.sha1(key + magic).digest()).decode()
        offered = [p.strip() for p in self.header("sec-websocket-protocol")[0].split(",")]
        chosen = protocol or next(p for p in offered if p in self.server.protocols)
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Accept: {answer}", f"Sec-WebSocket-Protocol: {chosen}", "", ""]
        self.sock.sendall("\r\n".join(lines).encode() + early)

    @staticmethod
    def frame(payload: bytes, opcode: int = 2, final: bool = True) -> bytes:
        head = bytes([(0x80 if final else 0) | opcode])
        if len(payload) < 126:
            head += bytes([len(payload)])
        elif len(payload) < 65536:
            head += b"\x7e" + struct.pack("!H", len(payload))
        else:
            head += b"\x7f" + struct.pack("!Q", len(payload))
        return head + payload

    def send(self, raw: bytes) -> None:
        with self.lock:
            self.sock.sendall(raw)

    def data(self, channel: int, data: bytes) -> None:
        self.send(self.frame(bytes([channel]) + data))

    def begin(self, pid: int | None = None) -> int:
        """Accept, and announce the process as START does."""
        pid = pid or self.server.new_pid()
        self.accept()
        self.data(1, b"")
        self.data(2, b"\x01pid:%d\x01" % pid)
        return pid

    def status_frame(self, status) -> bytes:
        raw = status if isinstance(status, bytes) else json.dumps(status).encode()
        return self.frame(b"\x03" + raw)

    def close_frame(self, code: int = 1000, words: bytes = b"") -> bytes:
        return self.frame(struct.pack("!H", code) + words, opcode=8)

    def finish(self, rc: int = 0) -> None:
        self.send(self.status_frame(SUCCESS if rc == 0 else failure(rc)) + self.close_frame())
        self.linger()

    def linger(self, seconds: float = 5.0) -> None:
        """Read until the client closes, as a server does after its own close."""
        with suppress(OSError):
            self.sock.settimeout(seconds)
            while self.sock.recv(65536):
                pass

    def drop(self) -> None:
        """End the connection with a reset."""
        with suppress(OSError):
            raw = self.sock
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.close()

    def answer_pings(self, until: threading.Event) -> None:
        """Read the client's frames and answer its pings until `until` is set or the client closes."""
        self.sock.settimeout(0.05)
        buffer = b""
        while not until.is_set():
            try:
                data = self.sock.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                return
            if not data:
                return
            buffer += data
            while len(buffer) >= 6 and len(buffer) >= 6 + (buffer[1] & 0x7F):
                length = buffer[1] & 0x7F
                mask, body = buffer[2:6], buffer[6 : 6 + length]
                opcode, buffer = buffer[0] & 0x0F, buffer[6 + length :]
                if opcode == 9:
                    self.send(
                        self.frame(bytes(b ^ mask[i % 4] for i, b in enumerate(body)), opcode=10)
                    )
                    self.server.pings += 1


class ExecServer:
    """Use as a context manager. `behaviours` maps pod names to functions of an Exec; `kills` records (signal, pid)."""

    def __init__(self, behaviours=None, tls: ssl.SSLContext | None = None, port=0) -> None:
        self.behaviours = dict(behaviours or {})
        self.protocols = ("v5.channel.k8s.io", "v4.channel.k8s.io")
        self.kills: list = []
        self.execs: list = []
        self.requests: list = []
        self.pings = 0
        self.tls = tls
        self.pod_objects: dict = {}
        self.discovery_code = 200
        self._pid = 1000
        self._ended: dict = {}
        self._lock = threading.Lock()
        if port is not None:
            self.listen(port)

    def listen(self, port: int = 0) -> None:
        """Take a port; connections are accepted from __enter__ on."""
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.port = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> ExecServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_exc) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        self._listener.close()

    def new_pid(self) -> int:
        with self._lock:
            self._pid += 1
            return self._pid

    def ended(self, pid: int, *signals: str) -> threading.Event:
        """An event that is set when `pid` is sent one of `signals` (default: any but 0)."""
        with self._lock:
            entry = self._ended.setdefault(pid, (set(signals), threading.Event()))
        entry[0].update(signals)
        return entry[1]

    def _accept(self) -> None:
        while True:
            try:
                sock, _address = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock) -> None:
        try:
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
            raw = b""
            while b"\r\n\r\n" not in raw:
                data = sock.recv(65536)
                if not data:
                    return
                raw += data
            lines = raw.split(b"\r\n\r\n")[0].decode().split("\r\n")
            headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
            method, path, _version = lines[0].split(" ")
            self.requests.append((method, path, headers))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if urlsplit(path).path.endswith("/exec"):
                call = Exec(self, sock, path, headers)
                self._exec(call)
            else:
                self._rest(sock, urlsplit(path).path)
        except OSError:
            pass
        finally:
            with suppress(OSError):
                sock.close()

    def _exec(self, call: Exec) -> None:
        behaviour = self.behaviours[call.pod]
        if call.is_kill and not getattr(behaviour, "kills_itself", False):
            self._kill(call)
            return
        self.execs.append(call)
        behaviour(call)

    def _kill(self, call: Exec) -> None:
        name, pid = call.sent[-2], int(call.sent[-1])
        self.kills.append((name, pid))
        call.accept()
        with self._lock:
            signals, event = self._ended.setdefault(pid, (set(), threading.Event()))
        gone = event.is_set()
        if name != "0" and (not signals or name in signals):
            event.set()
        if gone:
            call.data(2, b"sh: 1: kill: No such process\n")
        call.finish(1 if gone else 0)

    def _rest(self, sock, path: str) -> None:
        known = {
            "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
        }
        pod = self.pod_objects.get(path.rpartition("/")[2])
        code, document = (200, known.get(path) or pod) if path in known or pod else (404, {})
        if path in known and self.discovery_code != 200:
            code, document = self.discovery_code, {"kind": "Status", "message": "not for you"}
        body = json.dumps(document).encode()
        head = f"HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        sock.sendall(head.encode() + body)


def runs(rc: int = 0, stdout: bytes = b"", stderr: bytes = b""):
    """A well-behaved command."""

    def behaviour(call: Exec) -> None:
        call.begin()
        if stdout:
            call.data(1, stdout)
        if stderr:
            call.data(2, stderr)
        call.finish(rc)

    return behaviour


def refuses(code: int, reason: str = "", message: str = "", **headers):
    """A handshake that is answered with an error."""
    return lambda call: call.refuse(code, http_status(code, reason, message), **headers)


def sleeps(*signals: str, stdout: bytes = b""):
    """A command that runs until it gets one of `signals` (default: any), then reports exit code 143."""

    def behaviour(call: Exec) -> None:
        pid = call.begin()
        if stdout:
            call.data(1, stdout)
        if call.server.ended(pid, *signals).wait(30):
            call.finish(143)

    return behaviour


def really(call: Exec) -> None:
    """Runs the command as it was sent, in this machine, as a container runtime would: a session of its own."""
    process = subprocess.Popen(
        call.sent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    call.accept()

    def pump(channel: int, stream) -> None:
        while data := os.read(stream.fileno(), 32768):
            with suppress(OSError):
                call.data(channel, data)

    pumps = [
        threading.Thread(target=pump, args=pair, daemon=True)
        for pair in ((1, process.stdout), (2, process.stderr))
    ]
    for thread in pumps:
        thread.start()
    rc = process.wait()
    for thread in pumps:
        thread.join(5)
    call.finish(rc if rc >= 0 else 128 - rc)


really.kills_itself = True


def alive(pid: int) -> bool:
    """Whether a process of this machine is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition, seconds: float = 5.0) -> bool:
    """Whether `condition` came true within `seconds`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False


__all__ = [name for name in dir() if not name.startswith("_")]
