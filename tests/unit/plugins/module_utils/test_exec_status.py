"""What the answers of API server, kubelet and runtimes mean. The sentences are those that they print."""

from __future__ import annotations

import email.utils
import time

import pytest
from ansible_collections.k8si.fabric.plugins.module_utils.exec_status import (
    container_choices,
    exit_code,
    from_http,
    from_output,
    from_status,
    read_status,
)
from ansible_collections.k8si.fabric.tests.unit.plugins.module_utils.exec_server import (
    SUCCESS,
    failure,
    http_status,
    internal_error,
)

NO_SH = 'OCI runtime exec failed: exec failed: unable to start container process: exec: "sh": executable file not found in $PATH: unknown'
DENIED = (
    'pods "p" is forbidden: User "joe" cannot create resource "pods/exec" in API group "" in the '
    'namespace "default"'
)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (SUCCESS, 0),
        (failure(3), 3),
        (failure(255), 255),
        (internal_error("x"), None),
        ({"status": "Failure", "reason": "NonZeroExitCode"}, None),
        ({"status": "Failure", "reason": "NonZeroExitCode", "details": None}, None),
        (
            {
                "status": "Failure",
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": "x"}]},
            },
            None,
        ),
    ],
)
def test_exit_codes(status: dict, code) -> None:
    assert exit_code(status) == code


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe", b'"x"'])
def test_what_is_no_status(raw: bytes) -> None:
    assert read_status(raw) is None


@pytest.mark.parametrize(
    ("code", "message", "outcome", "reason", "again"),
    [
        (401, "Unauthorized", "refused", "unauthorized", False),
        (403, DENIED, "refused", "forbidden", False),
        (404, 'pods "p" not found', "not_started", "pod_not_found", False),
        (404, "404 page not found", "not_started", "api_error", False),
        (404, "pod does not exist", "not_started", "pod_not_running", False),
        (400, "container x is not valid for pod p", "not_started", "container_not_found", False),
        (400, "pod p does not have a host assigned", "not_started", "pod_not_running", False),
        (400, "you must specify at least 1 of stdin", "not_started", "api_error", False),
        (
            500,
            'unable to upgrade connection: container not found ("c")',
            "not_started",
            "pod_not_running",
            False,
        ),
        (500, "error dialing backend: dial tcp 10.0.0.1:10250: connect: connection refused", "not_started", "kubelet_unavailable", True),
        (500, "etcdserver: request timed out", "not_started", "api_unavailable", True),
        (502, "Bad Gateway", "not_started", "api_unavailable", True),
        (503, "shutting down", "not_started", "api_unavailable", True),
        (429, "too many requests", "not_started", "api_unavailable", True),
        (414, "URI Too Long", "not_started", "api_error", False),
        (302, "", "not_started", "api_error", False),
    ],
)  # fmt: skip
def test_http_answers(code: int, message: str, outcome: str, reason: str, again: bool) -> None:
    for body in (http_status(code, "x", message), message.encode()):
        trouble = from_http(code, {}, body, "pod default/p")
        assert (trouble.outcome, trouble.reason, trouble.again) == (outcome, reason, again)
        assert trouble.message.startswith("pod default/p: ")
        assert message in trouble.message


def test_a_refusal_names_verb_and_resource() -> None:
    trouble = from_http(403, {}, http_status(403, "Forbidden", DENIED), "pod default/p")
    assert "allow verb create on pods/exec" in trouble.message
    trouble = from_http(403, {}, b"no", "pod default/p")
    assert "verbs get and create on pods/exec" in trouble.message


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("3", 3, 3),
        ("0.5", 0.5, 0.5),
        ("-1", 0, 0),
        (10_000, 9000, 10_001),
        (-100, 0, 0),
    ],
)
def test_retry_after(value: str | int, low: float, high: float) -> None:
    if isinstance(value, int):  # a date, so many seconds from now
        value = email.utils.formatdate(time.time() + value, usegmt=True)
    wait = from_http(429, {"retry-after": value}, b"", "x").retry_after
    assert low <= wait <= high


@pytest.mark.parametrize("headers", [{}, {"retry-after": "soon"}])
def test_no_retry_after(headers: dict) -> None:
    assert from_http(429, headers, b"", "x").retry_after is None


@pytest.mark.parametrize(
    ("message", "started", "outcome", "reason", "again"),
    [
        (NO_SH, False, "not_started", "shell_not_found", False),
        ('unable to upgrade connection: container not found ("c")', False, "not_started", "pod_not_running", False),
        ("failed to exec in container: container is in CONTAINER_EXITED state", False, "not_started", "pod_not_running", False),
        ("error dialing backend: dial tcp: i/o timeout", False, "not_started", "kubelet_unavailable", True),
        ("something new", False, "not_started", "exec_failed", False),
        ("rpc error: code = Unavailable desc = error reading from server: EOF", True, "lost", "exec_failed", False),
        ("container is in CONTAINER_EXITED state", True, "lost", "exec_failed", False),
    ],
)  # fmt: skip
def test_failures_on_the_error_channel(message, started, outcome, reason, again) -> None:
    trouble = from_status(internal_error(message), "pod default/p", before_start=not started)
    assert (trouble.outcome, trouble.reason, trouble.again) == (outcome, reason, again)
    assert message in trouble.message


def test_a_forbidden_status() -> None:
    status = {"status": "Failure", "reason": "Forbidden", "code": 403, "message": DENIED}
    trouble = from_status(status, "pod default/p", before_start=True)
    assert (trouble.outcome, trouble.reason) == ("refused", "forbidden")


def test_a_runtime_that_prints_its_failure() -> None:
    assert from_output(NO_SH, "x").reason == "shell_not_found"
    assert from_output("no such file", "x") is None
    assert from_output("container is not running", "x") is None


def test_the_containers_to_choose_from() -> None:
    said = "a container name must be specified for pod p, choose one of: [a b]"
    assert container_choices(http_status(400, "BadRequest", said)) == ["a", "b"]
    assert container_choices(b"a container name must be specified for pod p") == []
    assert container_choices(b"something else") is None
