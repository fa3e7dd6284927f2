"""Connections with what the kubernetes client's Configuration says: TLS, proxies, headers, tokens."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from contextlib import contextmanager, suppress

import pytest
from ansible_collections.k8si.fabric.plugins.module_utils.exec_connect import (
    ConnectError,
    Connector,
    Refused,
    bypasses_proxy,
)
from ansible_collections.k8si.fabric.tests.unit.plugins.module_utils.exec_server import (
    ExecServer,
    refuses,
    runs,
)

client = pytest.importorskip("kubernetes.client")

PATH = "/api/v1/namespaces/default/pods/p/exec?command=x"


def configuration(url: str, **more):
    made = client.Configuration()
    made.proxy = None
    made.host = url
    for name, value in more.items():
        setattr(made, name, value)
    return made


def opened(url: str, headers=None, **more) -> dict:
    """Open and close; what the handshake's answer said."""
    got = Connector(configuration(url, **more), headers).open(PATH, 5)
    got.sock.close()
    return got


@pytest.fixture
def server():
    with ExecServer({"p": runs()}) as started:
        yield started


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    trustme = pytest.importorskip("trustme")
    made = trustme.CA()
    made.file = str(tmp_path_factory.mktemp("ca") / "ca.pem")
    made.cert_pem.write_to_path(made.file)
    return made


def tls_server(authority, *names: str, client_certificate: bool = False) -> ExecServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    if client_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        authority.configure_trust(context)
    return ExecServer({"p": runs()}, context)


def test_plain_http_and_the_best_protocol(server) -> None:
    assert opened(server.url).protocol == "v5.channel.k8s.io"
    server.protocols = ("v4.channel.k8s.io",)
    assert opened(server.url).protocol == "v4.channel.k8s.io"


def test_a_path_before_the_api(server) -> None:
    opened(server.url + "/k8s/clusters/c-1/")
    assert server.execs[0].path.startswith("/k8s/clusters/c-1/api/v1/namespaces/default/pods/p/")


def test_all_headers_arrive(server) -> None:
    class Name(str):
        """kubernetes.core tells several Impersonate-Group apart by keys that are equal to none but themselves."""

        def __hash__(self):
            return id(self)

        def __eq__(self, other):
            return self is other

    headers = {"User-Agent": "us", "Impersonate-User": "joe"}
    headers.update({Name("Impersonate-Group"): "a"})
    headers.update({Name("Impersonate-Group"): "b"})
    opened(server.url, headers, api_key={"authorization": "Bearer token"})
    call = server.execs[0]
    assert call.header("authorization") == ["Bearer token"]
    assert call.header("user-agent") == ["us"]
    assert call.header("impersonate-user") == ["joe"]
    assert call.header("impersonate-group") == ["a", "b"]


def test_basic_authentication(server) -> None:
    opened(server.url, username="joe", password="s:cret")
    (sent,) = server.execs[0].header("authorization")
    assert base64.b64decode(sent.split()[1]) == b"joe:s:cret"


def test_tokens_are_refreshed_at_every_connection(server) -> None:
    tokens = iter("abc")

    def refresh(made) -> None:
        made.api_key["authorization"] = "Bearer " + next(tokens)

    connector = Connector(
        configuration(server.url, api_key={"authorization": "old"}, refresh_api_key_hook=refresh)
    )
    for _time in range(3):
        connector.open(PATH, 5).sock.close()
    sent = [call.header("authorization")[0] for call in server.execs]
    assert sent == ["Bearer a", "Bearer b", "Bearer c"]
    with pytest.raises(ConnectError, match="no token could be got") as error:
        connector.open(PATH, 5)  # the provider has no more
    assert error.value.permanent


def test_a_line_break_in_a_header_is_refused(server) -> None:
    with pytest.raises(ConnectError, match="line break"):
        opened(server.url, {"X": "a\r\nEvil: yes"})


def test_trusted_certificates(authority) -> None:
    with tls_server(authority, "127.0.0.1") as server:
        opened(server.url, ssl_ca_cert=authority.file)
        with pytest.raises(ConnectError, match="not trusted") as error:
            opened(server.url)
        assert error.value.permanent
        opened(server.url, verify_ssl=False)


def test_the_name_in_the_certificate(authority) -> None:
    with tls_server(authority, "api.example.org") as server:
        with pytest.raises(ConnectError, match="not trusted"):
            opened(server.url, ssl_ca_cert=authority.file)
        opened(server.url, ssl_ca_cert=authority.file, tls_server_name="api.example.org")
        opened(server.url, ssl_ca_cert=authority.file, assert_hostname=False)


def test_client_certificates(authority, tmp_path) -> None:
    pair = authority.issue_cert("joe")
    pair.private_key_pem.write_to_path(str(tmp_path / "key"))
    for blob in pair.cert_chain_pems:
        blob.write_to_path(str(tmp_path / "cert"), append=True)
    files = {"cert_file": str(tmp_path / "cert"), "key_file": str(tmp_path / "key")}
    with tls_server(authority, "127.0.0.1", client_certificate=True) as server:
        opened(server.url, ssl_ca_cert=authority.file, **files)
        with pytest.raises(ConnectError):
            opened(server.url, ssl_ca_cert=authority.file)
    with pytest.raises(ConnectError, match="certificates of the credentials cannot be used"):
        opened("https://127.0.0.1:1", cert_file="/nonexistent")


@contextmanager
def proxy(answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n"):
    """A proxy that knows CONNECT; yields its port and the heads of the requests that it got."""
    heads: list = []
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source, target) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                sock, _address = listener.accept()
                raw = b""
                while b"\r\n\r\n" not in raw:
                    raw += sock.recv(65536)
                heads.append(raw.decode())
                sock.sendall(answer)
                if b" 200 " not in answer:
                    sock.close()
                    continue
                host, _sep, port = raw.split(b" ")[1].decode().rpartition(":")
                upstream = socket.create_connection((host, int(port)))
                for pair in ((sock, upstream), (upstream, sock)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1], heads
    listener.close()


def test_a_proxy(server, authority) -> None:
    with proxy() as (port, heads):
        opened(server.url, proxy=f"http://127.0.0.1:{port}")
        assert heads[0].startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n")
        with tls_server(authority, "127.0.0.1") as secure:
            opened(secure.url, proxy=f"http://127.0.0.1:{port}", ssl_ca_cert=authority.file)
        opened(server.url, proxy=f"http://127.0.0.1:{port}", no_proxy="127.0.0.0/8")
        assert len(heads) == 2


def test_a_proxy_that_wants_a_password(server) -> None:
    with proxy() as (port, heads):
        headers = {"proxy-authorization": "Basic eDp5"}
        opened(server.url, proxy=f"http://127.0.0.1:{port}", proxy_headers=headers)
        opened(server.url, proxy=f"http://joe:p%40ss@127.0.0.1:{port}")
    assert "proxy-authorization: Basic eDp5\r\n" in heads[0]
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'joe:p@ss').decode()}\r\n" in heads[1]


def test_a_proxy_that_refuses(server) -> None:
    with (
        proxy(b"HTTP/1.1 407 Who are you\r\n\r\n") as (port, _heads),
        pytest.raises(ConnectError, match=r"refused the tunnel .* 407") as error,
    ):
        opened(server.url, proxy=f"http://127.0.0.1:{port}")
    assert error.value.permanent


def test_a_proxy_that_is_not_supported(server) -> None:
    with pytest.raises(ConnectError, match="only http:// proxies"):
        opened(server.url, proxy="socks5://127.0.0.1:1")


@pytest.mark.parametrize(
    ("host", "rules", "direct"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3:6443", True),
        ("10.1.2.3", "10.1.2.3:1", False),
        ("10.1.2.3", "192.168.0.0/16, example.org", False),
        ("api.example.org", "example.org", True),
        ("api.example.org", " .example.org ", True),
        ("api.example.org", "ample.org", False),
        ("api.example.org", "*", True),
        ("api.example.org", "", False),
        ("api.example.org", None, False),
        ("::1", "::1/128", True),
    ],
)
def test_no_proxy(host: str, rules, direct: bool) -> None:
    assert bypasses_proxy(host, 6443, rules) is direct


@pytest.mark.parametrize("url", ["127.0.0.1:6443", "ftp://x", "https://"])
def test_no_url(url: str) -> None:
    with pytest.raises(ConnectError, match="not the URL"):
        Connector(configuration(url))


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectError, match=r"no connection to 127\.0\.0\.1 port") as error:
        opened(f"http://127.0.0.1:{port}")
    assert not error.value.permanent


def test_a_server_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connector = Connector(configuration(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        with pytest.raises(ConnectError, match=r"no answer within 0\.3 s"):
            connector.open(PATH, 0.3)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "closed the connection without an answer|broke before an answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 101 Go\r\nSec-WebSocket-Accept: wrong\r\n\r\n", "handshake is wrong"),
        (b"x" * 70_000, "never ends"),
    ],
)
def test_strange_answers(answer: bytes, words: str) -> None:
    with (
        ExecServer({"p": lambda call: call.sock.sendall(answer)}) as server,
        pytest.raises(ConnectError, match=words),
    ):
        opened(server.url)


def test_a_protocol_that_was_not_offered() -> None:
    with (
        ExecServer({"p": lambda call: call.accept("channel.k8s.io")}) as server,
        pytest.raises(ConnectError, match="speaks none of"),
    ):
        opened(server.url)


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 5\r\n\r\nwords and more",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\nwo\r\n3;x=y\r\nrds\r\n0\r\n\r\n",
        b"\r\nwords",
    ],
    ids=["length", "chunked", "until close"],
)
def test_the_words_of_a_refusal(rest: bytes) -> None:
    with (
        ExecServer({"p": lambda call: call.sock.sendall(b"HTTP/1.1 503 No\r\n" + rest)}) as server,
        pytest.raises(Refused) as error,
    ):
        opened(server.url)
    assert (error.value.status, error.value.body) == (503, b"words")


def test_the_headers_of_a_refusal() -> None:
    with (
        ExecServer({"p": refuses(429, Retry_After="7")}) as server,
        pytest.raises(Refused) as error,
    ):
        opened(server.url)
    assert error.value.headers["retry-after"] == "7"


def test_a_plain_get(server) -> None:
    assert Connector(configuration(server.url)).get("/version", 5)[0] == 200
    assert Connector(configuration(server.url)).get("/nothing", 5)[0] == 404
