# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Opens WebSockets to the API server with what a kubernetes client Configuration says. Standard library only.

kubernetes.stream cannot be used: it drops every header but the authorization (impersonation among them), has no time limit,
loads the certificates anew for each connection, and does not tell what the server answered when it refused.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import os
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
TIMED_OUT = socket.timeout  # another name of TimeoutError only from Python 3.10 on
_ACCEPT_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
_HEAD_LIMIT = 64 * 1024
_BODY_LIMIT = 1024 * 1024  # a pod with all its managedFields fits
_CHUNK = 64 * 1024


class ConnectError(Exception):
    """No answer from the API server. `permanent` says that trying again cannot help (certificates, proxy scheme)."""

    def __init__(self, message: str, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class Refused(Exception):
    """The API server answered the handshake with an HTTP status other than 101."""

    def __init__(self, status: int, headers: dict, body: bytes) -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status
        self.headers = headers
        self.body = body


@dataclass
class Opened:
    """An open WebSocket. `early` holds bytes that came along with the answer to the handshake."""

    sock: socket.socket
    protocol: str
    early: bytes


@dataclass
class _Reader:
    """Reads from a socket until a moment (time.monotonic), keeping what was read too much."""

    sock: socket.socket
    until: float
    buffer: bytearray = field(default_factory=bytearray)

    def more(self) -> bool:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TIMED_OUT("timed out")
        self.sock.settimeout(left)
        data = self.sock.recv(_CHUNK)
        self.buffer += data
        return bool(data)

    def head(self) -> tuple:
        """(status, headers by lower-case name) of an HTTP answer. Raises ConnectError if it is none."""
        while b"\r\n\r\n" not in self.buffer:
            if len(self.buffer) > _HEAD_LIMIT:
                raise ConnectError("the server's answer is not HTTP (its head never ends)")
            if not self.more():
                raise ConnectError("the server closed the connection without an answer")
        head, _sep, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        self.buffer = bytearray(rest)
        lines = head.decode("latin-1").split("\r\n")
        first = lines[0].split(" ", 2)
        if len(first) < 2 or not first[0].startswith("HTTP/") or not first[1].isdigit():
            raise ConnectError(
                f"the server's answer is not HTTP: {lines[0][:80]!r}", permanent=True
            )
        headers = {}
        for line in lines[1:]:
            name, _sep, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(first[1]), headers

    def body(self, headers: dict) -> bytes:
        """The body of an answer, at most 1 MiB of it, and what there is of it if the server stops in the middle."""
        try:
            if "chunked" in headers.get("transfer-encoding", "").lower():
                return self._chunked()
            length = headers.get("content-length", "")
            want = min(int(length), _BODY_LIMIT) if length.isdigit() else _BODY_LIMIT
            while len(self.buffer) < want and self.more():
                pass
            return bytes(self.buffer[:want])
        except OSError:
            return bytes(self.buffer)

    def _chunked(self) -> bytes:
        body = bytearray()
        while len(body) < _BODY_LIMIT:
            while b"\r\n" not in self.buffer:
                if not self.more():
                    return bytes(body)
            line, _sep, rest = bytes(self.buffer).partition(b"\r\n")
            try:
                size = int(line.split(b";")[0], 16)
            except ValueError:
                return bytes(body)
            self.buffer = bytearray(rest)
            if size == 0:
                break
            while len(self.buffer) < size + 2:
                if not self.more():
                    return bytes(body + self.buffer)
            body += self.buffer[:size]
            del self.buffer[: size + 2]
        return bytes(body)


def bypasses_proxy(host: str, port: int, no_proxy: str | None) -> bool:
    """Whether `host` is reached directly, by the comma-separated rules of `no_proxy`: names, .suffixes, host:port, CIDR, *."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    for rule in (no_proxy or "").lower().split(","):
        rule = rule.strip()
        if not rule:
            continue
        if rule == "*":
            return True
        if address is not None:
            try:
                if address in ipaddress.ip_network(rule, strict=False):
                    return True
            except ValueError:
                pass
        name = rule.lstrip(".")
        for candidate in (host, f"{host}:{port}"):
            if candidate == name or candidate.endswith("." + name):
                return True
    return False


def _host_header(host: str, port: int, default: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port == default else f"{name}:{port}"


def _request(lines: list) -> bytes:
    for line in lines:
        if "\r" in line or "\n" in line:
            raise ConnectError("a header or the path contains a line break", permanent=True)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")


class Connector:
    """Opens connections for many threads with one set of credentials.

    `configuration` is a kubernetes.client.Configuration (clients 28 to 37), `headers` the default headers of its ApiClient
    (user agent, impersonation). The certificates are loaded once. Tokens are asked for at every connection, one thread at
    a time, so that the client's own refresh hook and exec plugins work.
    """

    def __init__(self, configuration, headers=None) -> None:
        self._configuration = configuration
        self._fixed = [(str(k), str(v)) for k, v in dict(headers or {}).items()]
        self._lock = threading.Lock()
        url = urlsplit(configuration.host)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ConnectError(f"not the URL of an API server: {configuration.host!r}", True)
        self.host = url.hostname
        self.tls = url.scheme == "https"
        self.port = url.port or (443 if self.tls else 80)
        self.prefix = url.path.rstrip("/")
        self._proxy = None
        proxy = getattr(configuration, "proxy", None)
        no_proxy = getattr(configuration, "no_proxy", None)
        if (
            no_proxy is None
        ):  # some clients take the proxy from the environment, but not its exceptions
            no_proxy = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
        if proxy and not bypasses_proxy(self.host, self.port, no_proxy):
            self._proxy = urlsplit(proxy if "://" in proxy else "http://" + proxy)
            if self._proxy.scheme != "http" or not self._proxy.hostname:
                raise ConnectError(
                    f"only http:// proxies are supported, not {self._proxy.scheme}://", True
                )
        self._context = self._tls_context() if self.tls else None
        assert_hostname = getattr(configuration, "assert_hostname", None)
        self._server_name = getattr(configuration, "tls_server_name", None) or (
            assert_hostname if isinstance(assert_hostname, str) else self.host
        )

    @property
    def address(self) -> str:
        """Where the API server is, for messages."""
        return f"{'https' if self.tls else 'http'}://{_host_header(self.host, self.port, 0)}{self.prefix}"

    def _tls_context(self) -> ssl.SSLContext:
        configuration = self._configuration
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if not configuration.verify_ssl:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            else:
                ca_file = configuration.ssl_ca_cert
                ca_data = getattr(configuration, "ca_cert_data", None)
                if ca_file or ca_data:
                    context.load_verify_locations(cafile=ca_file or None, cadata=ca_data or None)
                else:
                    context.load_default_certs()
                    try:
                        import certifi

                        context.load_verify_locations(cafile=certifi.where())
                    except ImportError:
                        pass
                if configuration.assert_hostname is False:
                    context.check_hostname = False
            if configuration.cert_file:
                context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
        except (OSError, ValueError) as error:
            raise ConnectError(
                f"the certificates of the credentials cannot be used: {error}", True
            ) from error
        return context

    def _credentials(self) -> list:
        """The headers of this moment, as (name, value)."""
        with self._lock:  # the refresh hook changes the configuration, and may run a plugin
            try:
                settings = self._configuration.auth_settings()
            except Exception as error:  # whatever a plugin or a token's provider raises
                raise ConnectError(
                    f"no token could be got from the credentials: {error}", True
                ) from error
            headers = list(self._fixed)
            names = {name.lower() for name, _value in headers}
            for setting in settings.values():
                if setting.get("in") == "header" and setting.get("value"):
                    headers.append((setting["key"], setting["value"]))
                    names.add(setting["key"].lower())
            if "authorization" not in names and self._configuration.username:
                headers.append(("Authorization", self._configuration.get_basic_auth_token()))
            return headers

    def _tunnel(self, sock: socket.socket, until: float) -> None:
        target = f"{_host_header(self.host, self.port, 0)}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        extra = dict(getattr(self._configuration, "proxy_headers", None) or {})
        if self._proxy.username and not any(k.lower() == "proxy-authorization" for k in extra):
            pair = f"{unquote(self._proxy.username)}:{unquote(self._proxy.password or '')}"
            extra["Proxy-Authorization"] = (
                "Basic " + base64.b64encode(pair.encode("utf-8")).decode()
            )
        lines += [f"{name}: {value}" for name, value in extra.items()]
        sock.sendall(_request(lines))
        status, _headers = _Reader(sock, until).head()
        if status != 200:
            raise ConnectError(
                f"the proxy {self._proxy.hostname} refused the tunnel to {target} with HTTP status {status}",
                permanent=status in (401, 403, 407),
            )

    def _connect(self, until: float) -> socket.socket:
        via = (
            (self._proxy.hostname, self._proxy.port or 80)
            if self._proxy
            else (self.host, self.port)
        )
        sock = None
        try:
            sock = socket.create_connection(via, timeout=max(0.1, until - time.monotonic()))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._proxy:
                self._tunnel(sock, until)
            if self._context is not None:
                sock.settimeout(max(0.1, until - time.monotonic()))
                sock = self._context.wrap_socket(sock, server_hostname=self._server_name)
            return sock
        except BaseException as error:
            if sock is not None:
                sock.close()
            if isinstance(error, ssl.SSLCertVerificationError):
                raise ConnectError(
                    f"the certificate of {self.address} is not trusted: {error.verify_message}",
                    True,
                ) from error
            if isinstance(error, OSError):
                raise ConnectError(
                    f"no connection to {via[0]} port {via[1]}: {error.strerror or error}"
                ) from error
            raise

    def _exchange(self, path: str, extra: list, timeout: float) -> tuple:
        """Send a GET and read the head of the answer: (socket, reader, status, headers)."""
        until = time.monotonic() + timeout
        lines = [f"GET {self.prefix}{path} HTTP/1.1"]
        lines.append(f"Host: {_host_header(self.host, self.port, 443 if self.tls else 80)}")
        lines += [f"{name}: {value}" for name, value in self._credentials() + extra]
        request = _request(lines)
        sock = self._connect(until)
        try:
            sock.settimeout(max(0.1, until - time.monotonic()))
            sock.sendall(request)
            reader = _Reader(sock, until)
            status, headers = reader.head()
            while 100 <= status < 200 and status != 101:
                status, headers = reader.head()
            return sock, reader, status, headers
        except TIMED_OUT as error:
            sock.close()
            raise ConnectError(f"{self.address} gave no answer within {timeout:.3g} s") from error
        except OSError as error:
            sock.close()
            raise ConnectError(
                f"the connection to {self.address} broke before an answer: {error.strerror or error}"
            ) from error
        except BaseException:
            sock.close()
            raise

    def open(self, path: str, timeout: float) -> Opened:
        """Open a WebSocket on `path` (with its query) within `timeout` seconds.

        Raises Refused with the server's answer, or ConnectError if there was none.
        """
        key = base64.b64encode(os.urandom(16))
        upgrade = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", key.decode()),
            ("Sec-WebSocket-Protocol", ", ".join(PROTOCOLS)),
        ]
        sock, reader, status, headers = self._exchange(path, upgrade, timeout)
        try:
            if status != 101:
                raise Refused(status, headers, reader.body(headers))
            expected = base64.b64encode(
                hashlib.sha1(key + _ACCEPT_SUFFIX, usedforsecurity=False).digest()
            ).decode()
            if headers.get("sec-websocket-accept") != expected:
                raise ConnectError("the server's answer to the WebSocket handshake is wrong", True)
            protocol = headers.get("sec-websocket-protocol", PROTOCOLS[1])
            if protocol not in PROTOCOLS:
                raise ConnectError(
                    f"the server speaks none of {', '.join(PROTOCOLS)} but {protocol!r}", True
                )
            return Opened(sock, protocol, bytes(reader.buffer))
        except BaseException:
            sock.close()
            raise

    def get(self, path: str, timeout: float) -> tuple:
        """A plain GET: (HTTP status, body of at most 1 MiB). Raises ConnectError if there was no answer."""
        extra = [("Accept", "application/json"), ("Connection", "close")]
        sock, reader, status, headers = self._exchange(path, extra, timeout)
        try:
            return status, reader.body(headers)
        finally:
            sock.close()
