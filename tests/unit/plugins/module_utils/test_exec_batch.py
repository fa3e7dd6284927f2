"""The engine against a server that sends every nasty thing."""

from __future__ import annotations

import base64
import os
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from ansible_collections.k8si.fabric.plugins.module_utils.exec_batch import (
    KILL,
    START,
    Batch,
    MarkFilter,
    Settings,
    count_outcomes,
    kill_command,
    start_command,
)
from ansible_collections.k8si.fabric.plugins.module_utils.exec_connect import Connector
from ansible_collections.k8si.fabric.plugins.module_utils.exec_plan import read_items
from ansible_collections.k8si.fabric.tests.unit.plugins.module_utils.exec_server import (
    SUCCESS,
    Exec,
    ExecServer,
    alive,
    failure,
    internal_error,
    really,
    refuses,
    runs,
    sleeps,
    wait_until,
)

FAST = {
    "kill_after": 0.3,
    "grace": 0.3,
    "open_timeout": 5.0,
    "patience": 3.0,
    "first_patience": 0.6,
    "backoff": 0.05,
    "backoff_max": 0.2,
    "ping_every": 0.2,
    "silent_after": 0.7,
}
UTF8 = "Übertragung µs 漢字 🙂\n" * 50


def connector(server: ExecServer) -> Connector:
    configuration = SimpleNamespace(
        host=server.url, proxy=None, username=None, auth_settings=lambda: {}
    )
    return Connector(configuration)


def make(server: ExecServer, *items: dict, connections: int = 64, **settings) -> Batch:
    raw = [{"id": item.get("pod"), "command": ["x"], **item} for item in items]
    return Batch(
        read_items(raw, "default", 10),
        connector(server),
        connections,
        Settings(**{**FAST, **settings}),
    )


def run(behaviours: dict, *items: dict, **settings):
    """Results by id, and the server (closed by now)."""
    items = items or tuple({"pod": name} for name in behaviours)
    with ExecServer(behaviours) as server:
        results = make(server, *items, **settings).run()
        return {result["id"]: result for result in results}, server


def one(behaviour, **settings):
    item = settings.pop("item", {})
    results, server = run({"p": behaviour}, {"pod": "p", **item}, **settings)
    return results["p"], server


def end(result: dict) -> tuple:
    return result["outcome"], result["reason"]


# ---- what arrives


def test_a_command() -> None:
    result, server = one(runs(3, b"out\n", b"err\n"), item={"command": ["a", "b c", ""]})
    assert end(result) == ("completed", "exit_code")
    assert (result["rc"], result["stdout"], result["stderr"]) == (3, "out\n", "err\n")
    assert (result["attempts"], result["command"]) == (1, ["a", "b c", ""])
    assert result["start"].endswith("Z") and 0 < result["duration_s"] < 5
    assert "stdout_base64" not in result and "stderr_base64" not in result
    (call,) = server.execs
    assert call.sent == ["sh", "-c", START, "sh", "a", "b c", ""]
    assert (call.query["stdout"], call.query["stderr"]) == (["true"], ["true"])
    assert call.query["tty"] == call.query["stdin"] == ["false"]
    assert call.container is None
    assert server.kills == []


@pytest.mark.parametrize("channel", [1, 2])
def test_characters_split_over_frames_arrive_whole(channel: int) -> None:
    def behaviour(call: Exec) -> None:
        call.begin()
        for byte in UTF8.encode():
            call.data(channel, bytes([byte]))
        call.finish()

    result, _server = one(behaviour)
    assert (result["stdout"], result["stderr"]) == ((UTF8, "") if channel == 1 else ("", UTF8))


def test_bytes_that_are_no_text() -> None:
    raw = bytes(range(256)) * 3
    result, _server = one(runs(0, raw, b"\xff"))
    assert base64.b64decode(result["stdout_base64"]) == raw
    assert base64.b64decode(result["stderr_base64"]) == b"\xff"
    assert result["stderr"] == "\ufffd"


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
def test_megabytes(protocol: str) -> None:
    raw = os.urandom(1024).hex().encode() * 4096  # 8 MiB

    def behaviour(call: Exec) -> None:
        call.server.protocols = (protocol,)
        call.begin()
        for i in range(0, len(raw), 32768):
            call.data(1, raw[i : i + 32768])
            call.data(2, raw[i : i + 100])
        call.finish()

    result, _server = one(behaviour)
    assert result["stdout"].encode() == raw
    assert len(result["stderr"]) == 100 * 256


def test_one_huge_frame() -> None:
    raw = b"x" * (8 << 20)
    result, _server = one(runs(0, raw))
    assert result["stdout"].encode() == raw


def test_text_frames_and_fragments() -> None:
    def behaviour(call: Exec) -> None:
        call.begin()
        call.send(call.frame(b"\x01te", opcode=1, final=False) + call.frame(b"xt", opcode=0))
        call.finish()

    assert one(behaviour)[0]["stdout"] == "text"


def test_everything_in_one_burst_with_the_close() -> None:
    def behaviour(call: Exec) -> None:
        burst = b"".join(call.frame(bytes([c]) + d) for c, d in ((2, b"\x01pid:7\x01e"), (1, b"o")))
        call.accept(early=burst + call.status_frame(failure(4)) + call.close_frame())

    for _time in range(20):
        result, _server = one(behaviour)
        assert (result["stdout"], result["stderr"], result["rc"]) == ("o", "e", 4)


def test_a_burst_without_waiting_for_the_answer_to_the_close() -> None:
    def behaviour(call: Exec) -> None:
        call.begin()
        call.send(
            call.frame(b"\x01" + b"x" * 100_000) + call.status_frame(SUCCESS) + call.close_frame()
        )

    result, _server = one(behaviour)
    assert (len(result["stdout"]), result["rc"]) == (100_000, 0)


def test_output_after_the_status() -> None:
    def behaviour(call: Exec) -> None:
        call.begin()
        call.send(call.status_frame(SUCCESS))
        time.sleep(0.1)
        call.data(1, b"late")
        call.data(2, b"later")
        call.send(call.close_frame())
        call.linger()

    result, _server = one(behaviour)
    assert (result["stdout"], result["stderr"], result["rc"]) == ("late", "later", 0)


def test_a_status_and_no_close() -> None:
    def behaviour(call: Exec) -> None:
        call.begin()
        call.send(call.status_frame(failure(2)))
        call.linger(20)

    result, server = one(behaviour)
    assert (end(result), result["rc"]) == (("completed", "exit_code"), 2)
    assert server.kills == []


def test_channels_closed_one_by_one() -> None:
    def behaviour(call: Exec) -> None:
        call.begin()
        call.data(1, b"x")
        call.send(call.frame(b"\xff\x01") + call.frame(b"\xff\x02") + call.frame(b""))
        call.finish()

    assert one(behaviour)[0]["stdout"] == "x"


def test_pings_of_the_server_are_answered() -> None:
    pongs = []

    def behaviour(call: Exec) -> None:
        call.begin()
        call.send(call.frame(b"hello", opcode=9))
        raw = call.sock.recv(100)
        pongs.append(bytes(b ^ raw[2 + i % 4] for i, b in enumerate(raw[6:])))
        call.finish()

    one(behaviour)
    assert pongs == [b"hello"]


# ---- the mark


def test_the_mark_split_everywhere() -> None:
    raw = b"\x01pid:123\x01real"
    for cut in range(len(raw)):
        mark = MarkFilter()
        got = mark.feed(raw[:cut]) + mark.feed(raw[cut:])
        assert (got, mark.pid) == (b"real", 123)


def test_the_mark_in_single_bytes_after_the_shell_complained() -> None:
    mark, got = MarkFilter(), b""
    for byte in b"sh: warning: locale\n\x01pid:9\x01a\x01pid:1\x01b":
        got += mark.feed(bytes([byte]))
    assert got == b"sh: warning: locale\na\x01pid:1\x01b"
    assert mark.pid == 9


def test_no_mark_at_all() -> None:
    mark = MarkFilter()
    assert mark.feed(b"\x01pid:") == b""
    assert (mark.flush(), mark.seen) == (b"\x01pid:", False)
    mark = MarkFilter()
    assert mark.feed(b"x" * 70_000) == b"x" * 70_000
    assert mark.feed(b"y") == b"y"


def test_the_commands_as_they_are_sent() -> None:
    assert start_command(["a"]) == ["sh", "-c", START, "sh", "a"]
    assert kill_command("TERM", 5) == ["sh", "-c", KILL, "sh", "TERM", "5"]


# ---- with real processes


def test_real_commands() -> None:
    results, _server = run(
        {"p": really},
        {"pod": "p", "id": "a", "command": ["sh", "-c", "echo o; echo e >&2; exit 7"]},
        {"pod": "p", "id": "b", "command": ["no-such-program"]},
        {"pod": "p", "id": "c", "command": ["printf", "%s|", "a b", "$HOME", "'", ""]},
        {"pod": "p", "id": "d", "command": ["sh", "-c", "kill -s KILL $$"]},
        {"pod": "p", "id": "e", "command": ["cat"]},
    )
    assert (results["a"]["rc"], results["a"]["stdout"], results["a"]["stderr"]) == (7, "o\n", "e\n")
    assert end(results["b"]) == ("not_started", "command_not_found")
    assert "'no-such-program'" in results["b"]["message"]
    assert (results["b"]["rc"], results["b"]["attempts"]) == (None, 0)
    assert results["c"]["stdout"] == "a b|$HOME|'||"
    assert results["d"]["rc"] == 137
    assert (results["e"]["rc"], results["e"]["stdout"]) == (0, "")


def test_a_deadline_ends_the_real_process_and_its_children(tmp_path) -> None:
    script = f"echo $$ > {tmp_path}/pids; sleep 60 & echo $! >> {tmp_path}/pids; wait"
    result, _server = one(really, item={"command": ["sh", "-c", script], "timeout": 1.0})
    assert end(result) == ("timeout", "deadline")
    assert result["rc"] == 143
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert wait_until(lambda: not any(alive(pid) for pid in pids))


def test_a_real_process_that_ignores_term() -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    result, _server = one(really, item={"command": ["sh", "-c", script], "timeout": 1.0})
    assert end(result) == ("timeout", "deadline")
    assert (result["rc"], result["stdout"]) == (137, "ready\n")


# ---- how an exec can be refused


@pytest.mark.parametrize(
    ("behaviour", "outcome", "reason"),
    [
        (refuses(401, "Unauthorized", "Unauthorized"), "refused", "unauthorized"),
        (refuses(403, "Forbidden", 'cannot get resource "pods/exec"'), "refused", "forbidden"),
        (refuses(404, "NotFound", 'pods "p" not found'), "not_started", "pod_not_found"),
        (
            refuses(400, "BadRequest", "container c is not valid for pod p"),
            "not_started",
            "container_not_found",
        ),
        (
            refuses(400, "BadRequest", "pod p does not have a host assigned"),
            "not_started",
            "pod_not_running",
        ),
        (
            refuses(500, "", 'unable to upgrade connection: container not found ("c")'),
            "not_started",
            "pod_not_running",
        ),
        (refuses(418, "", "teapot"), "not_started", "api_error"),
    ],
)
def test_refusals_are_not_repeated(behaviour, outcome: str, reason: str) -> None:
    result, server = one(behaviour)
    assert end(result) == (outcome, reason)
    assert result["message"].startswith("pod default/p: ")
    assert (result["rc"], result["attempts"], len(server.execs)) == (None, 0, 1)


@pytest.mark.parametrize(
    ("status", "outcome", "reason"),
    [
        (
            internal_error('exec: "sh": executable file not found in $PATH: unknown'),
            "not_started",
            "shell_not_found",
        ),
        (
            internal_error('unable to upgrade connection: container not found ("c")'),
            "not_started",
            "pod_not_running",
        ),
        (internal_error("whatever"), "not_started", "exec_failed"),
    ],
)
def test_refusals_on_the_error_channel(status: dict, outcome: str, reason: str) -> None:
    def behaviour(call: Exec) -> None:
        call.accept()
        call.send(call.status_frame(status) + call.close_frame())

    result, server = one(behaviour)
    assert end(result) == (outcome, reason)
    assert (result["rc"], result["attempts"], len(server.execs)) == (None, 0, 1)


def test_a_runtime_that_prints_that_there_is_no_shell() -> None:
    def behaviour(call: Exec) -> None:
        call.accept()
        call.data(2, b'level=error msg="exec failed: exec: \\"sh\\": executable file not found"')
        call.finish(255)

    result, _server = one(behaviour)
    assert end(result) == ("not_started", "shell_not_found")


def fails_first(count: int, *refusals, then=None):
    """Answers the first `count` times with the refusals in turn, then runs."""
    seen = []
    then = then or runs(0, b"done")

    def behaviour(call: Exec) -> None:
        seen.append(call)
        if len(seen) <= count:
            refusals[(len(seen) - 1) % len(refusals)](call)
        else:
            then(call)

    return behaviour


def test_an_api_server_that_is_busy_or_restarts_is_asked_again() -> None:
    refusals = [refuses(429), refuses(500, "", "etcdserver: leader changed"), refuses(503)]
    refusals += [refuses(502), Exec.drop]
    result, server = one(fails_first(5, *refusals))
    assert (end(result), result["stdout"]) == (("completed", "exit_code"), "done")
    assert (result["attempts"], len(server.execs)) == (1, 6)


def test_retry_after_is_honoured() -> None:
    result, _server = one(fails_first(1, refuses(429, Retry_After="1")))
    assert end(result) == ("completed", "exit_code")
    assert result["duration_s"] >= 1


def test_a_retry_after_beyond_the_deadline_is_not_waited_for() -> None:
    began = time.monotonic()
    result, _server = one(refuses(503, "", "later", Retry_After="3600"))
    assert time.monotonic() - began < 10
    assert end(result) == ("not_started", "api_unavailable")
    assert "503" in result["message"]


def test_patience_has_an_end() -> None:
    result, server = one(refuses(503, "", "down"), patience=0.5)
    assert end(result) == ("not_started", "api_unavailable")
    assert 2 <= len(server.execs) <= 20
    assert "tried for" in result["message"]


def test_the_deadline_bounds_the_asking() -> None:
    result, _server = one(refuses(503), item={"timeout": 1.0}, patience=60.0)
    assert end(result) == ("not_started", "api_unavailable")
    assert result["duration_s"] < 10


def test_nothing_listens() -> None:
    with ExecServer() as server:
        pass
    batch = make(server, {"pod": "p"})
    (result,) = batch.run()
    assert end(result) == ("not_started", "api_unavailable")
    assert not batch.answered


def test_an_api_server_that_comes_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = ExecServer({"p": runs()}, port=None)
    server.port = port
    batch = make(server, {"pod": "p"}, first_patience=5.0)

    def come_back() -> None:
        time.sleep(0.5)
        server.listen(port)
        server.__enter__()

    threading.Thread(target=come_back).start()
    (result,) = batch.run()
    server.__exit__()
    assert end(result) == ("completed", "exit_code")


def test_a_kubelet_that_is_not_reached_at_once() -> None:
    def refusal(call: Exec) -> None:
        call.accept()
        call.send(call.status_frame(internal_error("error dialing backend: connection refused")))
        call.send(call.close_frame())

    result, server = one(fails_first(2, refusal))
    assert end(result) == ("completed", "exit_code")
    assert (result["attempts"], len(server.execs)) == (1, 3)
    result, _server = one(refusal, patience=0.3)
    assert end(result) == ("not_started", "kubelet_unavailable")


def test_a_container_is_chosen_as_kubectl_does() -> None:
    said = "a container name must be specified for pod p, choose one of: [first second]"

    def behaviour(call: Exec) -> None:
        if call.container is None:
            refuses(400, "BadRequest", said)(call)
        else:
            sleeps()(call)

    def chosen(pod: dict | None, **item) -> str:
        with ExecServer({"p": behaviour}) as server:
            if pod:
                server.pod_objects["p"] = pod
            (result,) = make(server, {"pod": "p", "timeout": 1.0, **item}).run()
            assert end(result) == ("timeout", "deadline")
            assert len(server.kills) == 1
            return result["container"]

    containers = {"spec": {"containers": [{"name": "one"}, {"name": "two"}]}}
    note = {"metadata": {"annotations": {"kubectl.kubernetes.io/default-container": "two"}}}
    assert chosen({**containers, **note}) == "two"
    assert chosen(containers) == "one"
    assert chosen(None) == "first"
    assert chosen(containers, container="mine") == "mine"


# ---- lost connections


def lost(how):
    """A command that starts, prints, and loses its connection."""

    def behaviour(call: Exec) -> None:
        call.begin(77)
        call.data(1, b"so far")
        how(call)

    return behaviour


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (Exec.drop, "dropped"),
        (lambda call: None, "dropped"),
        (
            lambda call: call.send(call.close_frame(1011, b"going away")),
            "without an exit code (going away)",
        ),
        (lambda call: call.send(b"\xc3garbage"), "not WebSocket"),
        (lambda call: call.send(call.frame(b"\x03{broken") + call.close_frame()), "exit code"),
    ],
    ids=["reset", "end of file", "close without status", "garbage", "unreadable status"],
)
def test_a_connection_that_is_lost(how, words: str) -> None:
    result, server = one(lost(how))
    assert end(result) == ("lost", "connection_dropped")
    assert (result["rc"], result["stdout"]) == (None, "so far")
    assert words in result["message"]
    assert "its process in the pod was ended" in result["message"]
    assert server.kills[0] == ("TERM", 77)
    assert (result["attempts"], len(server.execs)) == (1, 1), "never again once it has started"


def test_a_connection_that_is_lost_inside_a_frame() -> None:
    result, _server = one(
        lost(lambda call: call.send(call.frame(b"\x01" + b" and this" * 100)[:40]))
    )
    assert end(result) == ("lost", "connection_dropped")
    assert result["stdout"].startswith("so far and this and this")


def test_a_lost_process_that_ignores_term_is_killed() -> None:
    def behaviour(call: Exec) -> None:
        call.server.ended(77, "KILL")
        lost(Exec.drop)(call)

    _result, server = one(behaviour)
    assert [name for name, _pid in server.kills if name != "0"] == ["TERM", "KILL"]


def test_a_connection_lost_before_the_mark() -> None:
    def behaviour(call: Exec) -> None:
        call.accept()

    result, server = one(behaviour)
    assert end(result) == ("lost", "connection_dropped")
    assert "may run there" in result["message"]
    assert (len(server.execs), server.kills) == (1, [])


def test_the_pod_is_gone() -> None:
    def behaviour(call: Exec) -> None:
        if call.is_kill:
            refuses(404, "NotFound", 'pods "p" not found')(call)
        else:
            lost(Exec.drop)(call)

    behaviour.kills_itself = True
    result, _server = one(behaviour)
    assert end(result) == ("lost", "pod_gone")


def test_the_runtime_gives_up_on_a_running_command() -> None:
    def behaviour(call: Exec) -> None:
        call.begin()
        call.send(call.status_frame(internal_error("rpc error: EOF")) + call.close_frame())

    result, _server = one(behaviour)
    assert end(result) == ("lost", "exec_failed")
    assert "rpc error: EOF" in result["message"]


def test_a_connection_that_goes_silent() -> None:
    def behaviour(call: Exec) -> None:
        call.begin()
        call.data(1, b"so far")
        until = threading.Event()
        threading.Timer(0.5, until.set).start()
        call.answer_pings(until)
        time.sleep(20)

    began = time.monotonic()
    result, server = one(behaviour)
    assert time.monotonic() - began < 15
    assert end(result) == ("lost", "connection_silent")
    assert result["stdout"] == "so far"
    assert server.pings > 0 and server.kills


def test_a_quiet_command_whose_server_answers_pings_is_not_silent() -> None:
    def behaviour(call: Exec) -> None:
        call.begin()
        until = threading.Event()
        threading.Timer(1.5, until.set).start()
        call.answer_pings(until)
        call.finish()

    result, _server = one(behaviour)
    assert end(result) == ("completed", "exit_code")


# ---- deadlines


def test_term_is_enough() -> None:
    result, server = one(sleeps(stdout=b"so far"), item={"timeout": 1.0})
    assert end(result) == ("timeout", "deadline")
    assert (result["rc"], result["stdout"]) == (143, "so far")
    assert [name for name, _pid in server.kills] == ["TERM"]
    assert "TERM" in result["message"] and "1 s" in result["message"]


def test_output_that_comes_after_term_is_kept() -> None:
    def behaviour(call: Exec) -> None:
        pid = call.begin()
        call.server.ended(pid).wait(5)
        call.data(1, b"summary")
        call.finish(0)

    result, _server = one(behaviour, item={"timeout": 1.0})
    assert (end(result), result["rc"], result["stdout"]) == (("timeout", "deadline"), 0, "summary")


def test_kill_after_term() -> None:
    result, server = one(sleeps("KILL"), item={"timeout": 1.0})
    assert end(result) == ("timeout", "deadline")
    assert [name for name, _pid in server.kills] == ["TERM", "KILL"]


def test_a_silent_connection_is_left_at_the_deadline() -> None:
    def behaviour(call: Exec) -> None:
        call.begin()
        time.sleep(20)

    began = time.monotonic()
    result, server = one(behaviour, item={"timeout": 1.0})
    assert time.monotonic() - began < 15
    assert end(result) == ("timeout", "deadline")
    assert [name for name, _pid in server.kills] == ["TERM", "KILL"]
    assert "stayed silent" in result["message"]


def test_a_process_that_cannot_be_ended() -> None:
    def behaviour(call: Exec) -> None:
        if call.is_kill:
            refuses(403, "Forbidden", "no more")(call)
        else:
            call.begin(99)
            time.sleep(20)

    behaviour.kills_itself = True
    result, _server = one(behaviour, item={"timeout": 1.0})
    assert end(result) == ("timeout", "deadline_not_ended")
    assert "pid 99" in result["message"] and "no more" in result["message"]


def test_a_process_that_never_announced_itself() -> None:
    def behaviour(call: Exec) -> None:
        call.accept()
        time.sleep(20)

    result, server = one(behaviour, item={"timeout": 1.0})
    assert end(result) == ("timeout", "deadline_not_ended")
    assert "may run there" in result["message"] and server.kills == []


def test_a_connection_lost_at_the_deadline() -> None:
    def behaviour(call: Exec) -> None:
        pid = call.begin()
        call.server.ended(pid).wait(5)
        call.drop()

    result, _server = one(behaviour, item={"timeout": 1.0})
    assert end(result) == ("timeout", "deadline")
    assert result["rc"] is None


# ---- relations


def ready(*chunks: bytes, channel: int = 1, rc: int = 143, first: float = 0.0):
    """A server: prints the chunks, then runs until it is ended."""

    def behaviour(call: Exec) -> None:
        pid = call.begin()
        time.sleep(first)
        for chunk in chunks:
            call.data(channel, chunk)
            time.sleep(0.02)
        if call.server.ended(pid).wait(20):
            call.finish(rc)

    return behaviour


@pytest.mark.parametrize("channel", [1, 2])
def test_a_client_waits_for_a_text_and_ends_its_server(channel: int) -> None:
    served = ready(b"now I am wai", b"ting for", b" you\n", channel=channel, first=0.3)
    results, server = run(
        {"server": served, "client": runs(0, b"figures")},
        {"pod": "client", "start_after": {"item": "server", "event": "text", "text": "waiting for y"}, "end_with": "server"},
        {"pod": "server", "end_with": "client", "timeout": 9},
    )  # fmt: skip
    assert list(results) == ["client", "server"]
    assert end(results["client"]) == ("completed", "exit_code")
    assert end(results["server"]) == ("ended", "ended_with")
    assert "'client' ended" in results["server"]["message"]
    assert results["server"]["rc"] == 143
    assert results["client"]["start"] > results["server"]["start"]
    assert [name for name, _pid in server.kills] == ["TERM"]


@pytest.mark.parametrize(
    ("rc", "outcome"), [(0, ("completed", "exit_code")), (1, ("ended", "ended_with"))]
)
def test_who_is_left_alone_by_a_success_has_time_to_finish(rc: int, outcome: tuple) -> None:
    """As a client whose last acknowledgement was lost, while its server has all that it needs."""

    def finishes_late(call: Exec) -> None:
        pid = call.begin()
        if call.server.ended(pid).wait(0.6):
            return call.finish(143)
        call.data(1, b"figures")
        return call.finish(0)

    results, server = run(
        {"a": runs(rc), "b": finishes_late},
        {"pod": "b", "end_with": "a"},
        {"pod": "a"},
        end_grace_success=5.0,
    )
    assert end(results["b"]) == outcome
    assert server.kills == [] if rc == 0 else [name for name, _pid in server.kills] == ["TERM"]


def test_who_does_not_finish_after_a_success_is_ended_too() -> None:
    results, _server = run(
        {"a": runs(0), "b": ready()},
        {"pod": "b", "end_with": "a"},
        {"pod": "a"},
        end_grace_success=0.3,
    )
    assert end(results["b"]) == ("ended", "ended_with")
    assert results["b"]["duration_s"] >= 0.3


def test_an_item_may_wait_for_the_start_or_the_end() -> None:
    results, _server = run(
        {"a": ready(), "b": runs(), "c": runs(1)},
        {"pod": "a", "end_with": "c"},
        {"pod": "b", "start_after": {"item": "a", "event": "started"}},
        {"pod": "c", "start_after": {"item": "b"}},
    )
    assert end(results["a"]) == ("ended", "ended_with")
    assert results["b"]["rc"] == 0 and results["c"]["rc"] == 1
    assert results["c"]["start"] >= results["b"]["start"]


def test_a_text_that_never_comes() -> None:
    after = {"item": "a", "event": "text", "text": "ready"}
    results, _server = run(
        {"a": runs(1, b"cannot bind"), "b": runs()},
        {"pod": "a"},
        {"pod": "b", "start_after": after},
    )
    assert end(results["b"]) == ("not_started", "dependency")
    assert "did not print 'ready'" in results["b"]["message"]
    assert "exit code 1" in results["b"]["message"]
    assert (results["b"]["start"], results["b"]["duration_s"]) == (None, 0.0)


def test_a_server_that_is_not_started_leaves_its_client() -> None:
    after = {"item": "a", "event": "started"}
    results, _server = run(
        {"a": refuses(404, "NotFound", 'pods "a" not found'), "b": runs(), "c": runs()},
        {"pod": "a"},
        {"pod": "b", "start_after": after},
        {"pod": "c", "start_after": {"item": "b"}},
    )
    assert end(results["b"]) == ("not_started", "dependency")
    assert "pod_not_found" in results["b"]["message"]
    assert results["c"]["rc"] == 0, "whatever became of b, it is over"


def test_waiting_has_its_own_limit() -> None:
    after = {"item": "a", "event": "text", "text": "ready", "timeout": 0.3}
    results, _server = run(
        {"a": ready(), "b": runs()},
        {"pod": "a", "end_with": "b"},
        {"pod": "b", "start_after": after},
    )
    assert end(results["b"]) == ("not_started", "dependency")
    assert "within 0.3 s" in results["b"]["message"]


def test_the_time_limit_begins_with_the_item_itself() -> None:
    results, _server = run(
        {"a": sleeps(), "b": runs()},
        {"pod": "a", "timeout": 2.0},
        {"pod": "b", "timeout": 1.5, "start_after": {"item": "a"}},
    )
    assert end(results["b"]) == ("completed", "exit_code")


def test_an_item_that_ends_before_it_started() -> None:
    results, server = run(
        {"a": runs(), "b": ready(), "c": runs()},
        {"pod": "a"},
        {"pod": "b", "timeout": 1.5},
        {"pod": "c", "end_with": "a", "start_after": {"item": "b"}},
    )
    assert end(results["c"]) == ("not_started", "ended_with")
    assert [call.pod for call in server.execs if call.pod == "c"] == []


def test_a_dead_client_ends_the_server_and_a_dead_server_the_client() -> None:
    pair = [{"pod": "a", "end_with": "b"}, {"pod": "b", "end_with": "a"}]
    results, _server = run({"a": ready(), "b": lost(Exec.drop)}, *pair)
    assert end(results["a"]) == ("ended", "ended_with")
    assert end(results["b"]) == ("lost", "connection_dropped")
    results, _server = run({"a": refuses(403), "b": ready(first=0.2)}, *pair)
    assert results["a"]["outcome"] == "refused"
    assert results["b"]["reason"] == "ended_with"


def test_an_end_that_comes_while_the_connection_is_being_opened() -> None:
    asked = threading.Event()

    def slow(call: Exec) -> None:
        asked.set()
        time.sleep(0.5)
        sleeps()(call)

    def until_asked(call: Exec) -> None:
        asked.wait(10)
        runs()(call)

    pair = ({"pod": "a"}, {"pod": "b", "end_with": "a"})
    results, server = run({"a": until_asked, "b": slow}, *pair, kill_after=3.0)
    assert end(results["b"]) == ("ended", "ended_with")
    assert [name for name, _pid in server.kills] == ["TERM"]


# ---- retries


REFUSED = runs(1, b"trying\n", b"Couldn't connect to 10.0.0.1:18515\n")


def test_a_client_is_started_again_until_its_server_listens() -> None:
    item = {"retry": {"texts": ["nothing", "Couldn't connect"], "delay": 0.05}}
    result, server = one(fails_first(3, REFUSED), item=item)
    assert (end(result), result["rc"], result["stdout"]) == (("completed", "exit_code"), 0, "done")
    assert (result["attempts"], len(server.execs), result["stderr"]) == (4, 4, "")


def test_another_failure_is_not_retried() -> None:
    item = {"retry": {"texts": ["refused"], "delay": 0.05}}
    result, _server = one(runs(1, b"out of memory"), item=item)
    assert (result["attempts"], result["rc"]) == (1, 1)
    result, _server = one(runs(0, b"refused"), item=item)
    assert (result["attempts"], result["rc"]) == (1, 0)


def test_retries_are_counted() -> None:
    item = {"retry": {"texts": ["Couldn't"], "delay": 0.01, "times": 2}}
    result, _server = one(REFUSED, item=item)
    assert (end(result), result["attempts"]) == (("completed", "exit_code"), 3)
    assert "3 attempts" in result["message"]


def test_retries_end_with_the_deadline() -> None:
    item = {"retry": {"texts": ["Couldn't"], "delay": 0.6, "times": 1000}, "timeout": 1.5}
    result, _server = one(REFUSED, item=item)
    assert (end(result), result["rc"]) == (("completed", "exit_code"), 1)
    assert 1 <= result["attempts"] <= 3
    assert "no time was left" in result["message"]


def test_a_retry_that_cannot_start_leaves_what_is_known() -> None:
    item = {"retry": {"texts": ["Couldn't"], "delay": 0.01}}
    gone = refuses(404, "NotFound", 'pods "p" not found')
    result, _server = one(fails_first(1, REFUSED, then=gone), item=item)
    assert (end(result), result["rc"]) == (("completed", "exit_code"), 1)
    assert "Couldn't connect" in result["stderr"]
    assert "could not be started again" in result["message"]


def test_an_end_that_comes_between_retries() -> None:
    results, _server = run(
        {"a": sleeps(), "b": REFUSED},
        {"pod": "a", "timeout": 1.0},
        {"pod": "b", "end_with": "a", "retry": {"texts": ["Couldn't"], "delay": 8}},
    )
    assert end(results["b"]) == ("ended", "ended_with")
    assert results["b"]["duration_s"] < 5


# ---- many


def test_only_so_many_connections_are_opened_at_a_time() -> None:
    lock, now = threading.Lock(), [0, 0]

    def behaviour(call: Exec) -> None:
        with lock:
            now[0] += 1
            now[1] = max(now)
        time.sleep(0.02)
        with lock:
            now[0] -= 1
        runs()(call)

    items = [{"pod": "p", "id": str(i)} for i in range(40)]
    results, _server = run({"p": behaviour}, *items, connections=4)
    assert all(result["rc"] == 0 for result in results.values())
    assert 2 <= now[1] <= 4


def test_a_cap_of_one_does_not_lock_up_items_that_wait_for_each_other() -> None:
    items = []
    for i in range(10):
        after = {"item": f"s{i}", "event": "text", "text": "ready"}
        items.append({"pod": "c", "id": f"c{i}", "start_after": after})
        items.append({"pod": "s", "id": f"s{i}", "end_with": f"c{i}"})
    results, _server = run({"s": ready(b"ready"), "c": runs()}, *items, connections=1)
    assert all(results[f"c{i}"]["rc"] == 0 for i in range(10))
    assert all(results[f"s{i}"]["outcome"] == "ended" for i in range(10))


def test_hundreds() -> None:
    items = [{"pod": "p", "id": str(i)} for i in range(300)]
    results, server = run({"p": runs(0, b"x" * 1000)}, *items)
    assert count_outcomes(list(results.values()))["completed"] == 300
    assert list(results) == [str(i) for i in range(300)]
    assert len(server.execs) == 300


def test_an_interruption_ends_what_runs() -> None:
    with ExecServer({"a": sleeps(), "b": sleeps("KILL"), "c": runs()}) as server:
        waits = {"pod": "c", "start_after": {"item": "a"}}
        batch = make(server, {"pod": "a"}, {"pod": "b"}, waits, kill_after=2.0, grace=2.0)
        thread = threading.Thread(target=batch.run)
        thread.start()
        assert wait_until(lambda: len(server.execs) == 2)
        time.sleep(0.1)
        began = time.monotonic()
        assert batch.interrupt(3.0) == 3
        assert time.monotonic() - began < 6
        thread.join(5)
        ends = {result["id"]: end(result) for result in batch.results()}
    assert ends["a"] == ("ended", "interrupted")
    assert ends["c"] == ("not_started", "interrupted")
    names = [name for name, _pid in server.kills]
    assert names.count("TERM") == 2 and names.count("KILL") == 1
