# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an answer of the API server or of the kubelet means for an exec. Pure.

An exec can be refused in two places with the same words: by the HTTP status of the handshake (API servers that pass the
WebSocket on to the kubelet), or by a Status object on the error channel (API servers from 1.30 on, which answer the
handshake themselves and talk to the kubelet afterwards).
"""

from __future__ import annotations

import email.utils
import json
import re
import time
from dataclasses import dataclass

COMPLETED, TIMEOUT, NOT_STARTED = "completed", "timeout", "not_started"
LOST, REFUSED, ENDED = "lost", "refused", "ended"
OUTCOMES = (COMPLETED, TIMEOUT, NOT_STARTED, LOST, REFUSED, ENDED)

_DENIED = re.compile(r'cannot (?P<verb>\w+) resource "(?P<resource>[\w./-]+)"')
_CHOICES = re.compile(r"choose one of: \[(?P<names>[^\]]*)\]")


@dataclass(frozen=True)
class Trouble:
    """Why a command did not start, or why nothing is known of its end.

    `again` says that the same request may succeed a moment later; `retry_after` is what the server asked to wait, in seconds.
    """

    outcome: str
    reason: str
    message: str
    again: bool = False
    retry_after: float | None = None


def read_status(raw: bytes) -> dict | None:
    """The Status object of the error channel, None if it is not one."""
    try:
        status = json.loads(raw.decode("utf-8", "replace"))
    except ValueError:
        return None
    return status if isinstance(status, dict) and status.get("status") else None


def exit_code(status: dict) -> int | None:
    """The exit code a Status object reports: 0 for Success, the cause ExitCode of NonZeroExitCode, None if it reports none."""
    if status.get("status") == "Success":
        return 0
    if status.get("reason") != "NonZeroExitCode":
        return None
    for cause in (status.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode":
            try:
                return int(cause.get("message"))
            except (TypeError, ValueError):
                return None
    return None


def container_choices(body: bytes) -> list | None:
    """The container names offered by an API server that wants one named, None if that is not its answer."""
    text = _message(body)
    if "container name must be specified" not in text:
        return None
    found = _CHOICES.search(text)
    return found.group("names").split() if found else []


def _message(body: bytes) -> str:
    """The words of an HTTP body: the message of a Status object, else its text on one line."""
    text = body.decode("utf-8", "replace").strip()
    try:
        status = json.loads(text)
    except ValueError:
        return re.sub(r"\s+", " ", text)[:500]
    if isinstance(status, dict) and status.get("message"):
        return str(status["message"])
    return text[:500]


def _recognised(text: str, where: str, before_start: bool) -> Trouble | None:
    """The known sentences of API server, kubelet and runtimes. `where` names namespace, pod and container."""
    low = text.lower()
    if "is not valid for pod" in low:
        return Trouble(
            NOT_STARTED, "container_not_found", f"{where}: the pod has no such container: {text}"
        )
    if "container name must be specified" in low:
        return Trouble(
            NOT_STARTED,
            "container_not_found",
            f"{where}: the pod has several containers, name one: {text}",
        )
    if any(
        sign in low
        for sign in (
            "does not have a host assigned",
            "container not found (",
            "pod does not exist",
            "container_exited",
            "container_created",
            "container_unknown",
            "container is not running",
            "not in running state",
            "is not created or running",
            "cannot exec in a stopped",
            "cannot exec in a paused",
            "completed pod",
        )
    ):
        return Trouble(
            NOT_STARTED,
            "pod_not_running",
            f"{where}: the container is not running (`kubectl describe pod` tells why): {text}",
        )
    if before_start and (
        "executable file not found" in low
        or "oci runtime exec failed" in low
        or ("exec: " in low and "no such file or directory" in low)
    ):
        return Trouble(
            NOT_STARTED,
            "shell_not_found",
            f"{where}: the container has no `sh`, which every command is started with; use an image that has one: {text}",
        )
    if before_start and ("error dialing backend" in low or "connection refused" in low):
        return Trouble(
            NOT_STARTED,
            "kubelet_unavailable",
            f"{where}: the API server cannot reach the kubelet of the pod's node; check the node: {text}",
            again=True,
        )
    return None


def from_status(status: dict, where: str, before_start: bool) -> Trouble:
    """The meaning of a failure on the error channel that is not an exit code.

    `before_start` says that the command is known not to have announced itself.
    """
    text = str(status.get("message") or status.get("reason") or "no message")
    known = _recognised(text, where, before_start)
    if known is not None and before_start:
        return known
    if status.get("code") == 403 or status.get("reason") == "Forbidden":
        return _forbidden(text, where)
    if before_start:
        return Trouble(
            NOT_STARTED, "exec_failed", f"{where}: the command could not be started: {text}"
        )
    return Trouble(
        LOST,
        "exec_failed",
        f"{where}: the container runtime gave up on the running command, exit code unknown: {text}",
    )


def _forbidden(text: str, where: str) -> Trouble:
    found = _DENIED.search(text)
    if found:
        need = f"allow verb {found.group('verb')} on {found.group('resource')}"
    else:
        need = "allow verbs get and create on pods/exec"
    return Trouble(REFUSED, "forbidden", f"{where}: {need} in this namespace (RBAC): {text}")


def _wait(headers: dict) -> float | None:
    """Retry-After in seconds: a number or a date."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def from_http(code: int, headers: dict, body: bytes, where: str) -> Trouble:
    """The meaning of an HTTP answer to the handshake other than 101."""
    text = _message(body) or f"HTTP status {code}"
    if code == 401:
        return Trouble(
            REFUSED,
            "unauthorized",
            f"{where}: the API server does not accept the credentials (get and create on pods/exec are needed); "
            f"check token or client certificate: {text}",
        )
    if code == 403:
        return _forbidden(text, where)
    if code == 404 and re.search(r'pods? "[^"]*" not found', text):
        return Trouble(NOT_STARTED, "pod_not_found", f"{where}: there is no such pod: {text}")
    known = _recognised(text, where, before_start=True)
    if known is not None:
        return known
    if code == 429 or code >= 500:
        return Trouble(
            NOT_STARTED,
            "api_unavailable",
            f"{where}: the API server answered {code}: {text}",
            again=True,
            retry_after=_wait(headers),
        )
    return Trouble(NOT_STARTED, "api_error", f"{where}: the API server answered {code}: {text}")


def from_output(text: str, where: str) -> Trouble | None:
    """What a runtime says in the command's place (CRI-O prints its failure to start `sh` on stderr, with an exit code).

    None if it is not such a sentence.
    """
    known = _recognised(text, where, before_start=True)
    return known if known is not None and known.reason in ("shell_not_found",) else None
