# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs many commands in many containers at once: the engine of the module k8s_exec_batch.

One thread an item, because items wait for each other; what is limited is how many connections are being opened at a time.
The rules are in exec_plan, the bytes in exec_wire, the connections in exec_connect, the meaning of answers in exec_status.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
import re
import shlex
import socket
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from ansible_collections.k8si.fabric.plugins.module_utils import exec_connect, exec_wire
from ansible_collections.k8si.fabric.plugins.module_utils.exec_connect import (
    ConnectError,
    Connector,
    Opened,
    Refused,
)
from ansible_collections.k8si.fabric.plugins.module_utils.exec_plan import (
    ENDED as EVENT_ENDED,
)
from ansible_collections.k8si.fabric.plugins.module_utils.exec_plan import (
    STARTED,
    TEXT,
    Item,
)
from ansible_collections.k8si.fabric.plugins.module_utils.exec_status import (
    COMPLETED,
    ENDED,
    LOST,
    NOT_STARTED,
    OUTCOMES,
    REFUSED,
    TIMEOUT,
    Trouble,
    container_choices,
    exit_code,
    from_http,
    from_output,
    from_status,
    read_status,
)

# Every command is started by this script, so that the process can be found again: a command that outlives its connection
# goes on running in the pod. The mark between two \001 bytes is the first thing on stderr. exec keeps the pid.
START = (
    'command -v "$1" >/dev/null 2>&1 || { printf "\\001nofile\\001" >&2; exit 127; }; '
    'printf "\\001pid:%s\\001" "$$" >&2; exec "$@"'
)
# The process group first: the command may have started others.
KILL = 'kill -s "$1" -- "-$2" 2>/dev/null || kill -s "$1" "$2"'

_MARK = re.compile(rb"\001(?:pid:(\d+)|nofile)\001")
_MARK_LIMIT = 64 * 1024
_CHUNK = 64 * 1024
_STDOUT, _STDERR, _STATUS = 1, 2, 3
_POD_GONE = ("pod_not_found", "pod_not_running")


def start_command(command) -> list:
    """`command` (list of str) as it is sent to the container: by way of START."""
    return ["sh", "-c", START, "sh", *command]


def kill_command(signal_name: str, pid: int) -> list:
    """The command that sends a signal ("TERM", "KILL") to the process group of `pid` in a container."""
    return ["sh", "-c", KILL, "sh", signal_name, str(pid)]


class MarkFilter:
    """Takes the mark of START out of a stderr that arrives in portions. `pid` and `missing` tell what it said."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.missing = False
        self._held = bytearray()
        self._open = True

    @property
    def seen(self) -> bool:
        """Whether the mark has arrived."""
        return self.pid is not None or self.missing

    def feed(self, data: bytes) -> bytes:
        """The bytes of stderr that belong to the command (or to a shell that complains before the mark)."""
        if not self._open:
            return data
        self._held += data
        found = _MARK.search(self._held)
        if found:
            if found.group(1):
                self.pid = int(found.group(1))
            else:
                self.missing = True
            out = bytes(self._held[: found.start()] + self._held[found.end() :])
        elif len(self._held) > _MARK_LIMIT:
            out = bytes(self._held)
        else:
            return b""
        self._open = False
        self._held.clear()
        return out

    def flush(self) -> bytes:
        """What was held back because a mark might still have come."""
        out = bytes(self._held)
        self._held.clear()
        self._open = False
        return out


@dataclass(frozen=True)
class Settings:
    """Times of the engine, in seconds. Users have `kill_after` and both `end_grace`s; the others are here so that tests need not wait."""

    kill_after: float = 2.0  # between TERM and KILL
    end_grace: float = 0.0  # for an item to end by itself once the item of its end_with is over
    end_grace_success: float = 0.0  # the same, where that item ended with exit code 0
    grace: float = (
        2.0  # for the rest of output and status after a signal, and for the close after a status
    )
    open_timeout: float = 30.0  # one handshake
    patience: float = 30.0  # retries of handshakes, if the API server has ever answered
    first_patience: float = 10.0  # the same, if it never has
    backoff: float = 0.25  # first pause between handshakes; doubles up to backoff_max
    backoff_max: float = 3.0
    ping_every: float = 5.0  # of silence
    silent_after: float = 30.0  # of silence, from a server that has answered pings before


@dataclass
class _Attempt:
    """One exec connection and what came over it."""

    sock: socket.socket
    opened: Opened
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    status_raw: bytearray = field(default_factory=bytearray)
    mark: MarkFilter = field(default_factory=MarkFilter)
    announced: threading.Event = field(default_factory=threading.Event)  # mark seen, or over
    over: threading.Event = field(default_factory=threading.Event)
    status: dict | None = None
    silent: bool = False
    broken: str = ""  # why the connection ended without a status
    signalled: bool = False
    in_pod: str = ""  # what became of the process, in words
    process_ended: bool = False
    pod_gone: bool = False
    searched: dict = field(default_factory=dict)

    @property
    def rc(self) -> int | None:
        return exit_code(self.status) if self.status else None


@dataclass(frozen=True)
class _Sent:
    """What became of a signal: why it could not be sent (in words), or whether the process was gone already."""

    failure: str | None = None
    gone: bool = False
    pod_gone: bool = False


class _Run:
    """One item while the batch runs."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.container = item.container
        self.condition = threading.Condition()
        self.started = False
        self.texts: dict = {}  # text (bytes) -> seen
        self.over = False
        self.lock = threading.Lock()
        self.stop_why: str | None = None  # timeout, ended, interrupted
        self.stopping = threading.Event()
        self.attempt: _Attempt | None = None
        self.ender: threading.Thread | None = None
        self.attempts = 0
        self.began: float | None = None
        self.deadline = float("inf")
        self.start: str | None = None
        self.result: dict | None = None

    @property
    def where(self) -> str:
        container = f", container {self.container}" if self.container else ""
        return f"pod {self.item.namespace}/{self.item.pod}{container}"

    def announce(self, started: bool = False, text: bytes | None = None) -> None:
        with self.condition:
            self.started = self.started or started
            if text is not None:
                self.texts[text] = True
            self.condition.notify_all()


class Batch:
    """Runs items and returns their results. `run` once; `interrupt` from a signal's handler or another thread."""

    def __init__(
        self,
        items: list,
        connector: Connector,
        connections: int = 64,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self._connector = connector
        self._runs = {item.id: _Run(item) for item in items}
        self._opening = threading.BoundedSemaphore(max(1, connections))
        self._ending = threading.BoundedSemaphore(max(1, connections))
        self._all_over = threading.Event()
        self._left = len(items)
        self._left_lock = threading.Lock()
        self._kill_after = self.settings.kill_after
        self._grace = self.settings.grace
        self._pongs = False
        self._interrupted = False
        self.answered = False  # whether the API server ever answered anything
        self._followers: dict = {}
        for run in self._runs.values():
            after = run.item.start_after
            if after and after.event == TEXT:
                self._runs[after.item].texts[after.text.encode("utf-8")] = False
            if run.item.end_with:
                self._followers.setdefault(run.item.end_with, []).append(run)

    # ---- the batch

    def run(self) -> list:
        """Run all items; returns their results (dicts, see RETURN of the module) in the order of the items."""
        stack = threading.stack_size(512 * 1024)  # hundreds of threads that need little
        try:
            for run in self._runs.values():
                try:
                    threading.Thread(target=self._work, args=(run,), daemon=True).start()
                except RuntimeError as error:
                    message = f"{run.where}: no thread could be started for this item: {error}"
                    self._finish(run, Trouble(NOT_STARTED, "no_thread", message))
        finally:
            threading.stack_size(stack)
        while self._left and not self._all_over.wait(0.5):
            pass
        return self.results()

    def results(self) -> list:
        """The results so far, in the order of the items; those under way are `lost`."""
        return [run.result or self._interim(run) for run in self._runs.values()]

    def _interim(self, run: _Run) -> dict:
        kind = LOST if run.attempts else NOT_STARTED
        message = f"{run.where}: the task was interrupted and this item did not end in time"
        return self._result(run, _end(kind, "interrupted", message))

    def interrupt(self, budget: float = 3.0) -> int:
        """End what runs in the pods, within `budget` seconds. Returns how many items were still under way."""
        self._kill_after = min(self._kill_after, budget / 3)
        self._grace = min(self._grace, budget / 3)
        self._interrupted = True
        under_way = [run for run in self._runs.values() if not run.over]
        for run in under_way:
            self._stop(run, "interrupted")
        until = time.monotonic() + budget
        while self._left and time.monotonic() < until:
            self._all_over.wait(0.1)
        return len(under_way)

    def _work(self, run: _Run) -> None:
        try:
            trouble = self._wait_for_turn(run)
            if trouble is not None:
                self._finish(run, trouble)
                return
            run.began = time.monotonic()
            run.deadline = run.began + run.item.timeout
            run.start = _now()
            self._finish(run, self._attempts(run))
        except Exception as error:  # an item must end in any case: others may wait for it
            kind = LOST if run.attempts else NOT_STARTED
            message = f"{run.where}: unexpected {type(error).__name__}: {error}"
            self._finish(run, Trouble(kind, "internal_error", message))

    def _wait_for_turn(self, run: _Run) -> Trouble | None:
        after = run.item.start_after
        if after is None:
            return self._stopped_early(run) if self._is_stopped(run) else None
        other = self._runs[after.item]
        limit = None if after.timeout is None else time.monotonic() + after.timeout
        text = after.text.encode("utf-8") if after.event == TEXT else b""
        with other.condition:
            while True:
                if self._is_stopped(run):
                    return self._stopped_early(run)
                reached = {
                    STARTED: other.started,
                    TEXT: other.texts.get(text, False),
                    EVENT_ENDED: other.over,
                }[after.event]
                if reached:
                    return None
                wanted = {
                    STARTED: "start",
                    TEXT: f"print {after.text!r}",
                    EVENT_ENDED: "end",
                }[after.event]
                if other.over:
                    result = other.result or {}
                    return Trouble(
                        NOT_STARTED,
                        "dependency",
                        f"{run.where}: not started, because item {after.item!r} did not {wanted}; it is over: "
                        f"{result.get('outcome')} ({result.get('reason')}): {result.get('message')}",
                    )
                left = None if limit is None else limit - time.monotonic()
                if left is not None and left <= 0:
                    return Trouble(
                        NOT_STARTED,
                        "dependency",
                        f"{run.where}: not started, because item {after.item!r} did not {wanted} "
                        f"within {after.timeout:g} s",
                    )
                other.condition.wait(left)

    def _is_stopped(self, run: _Run) -> bool:
        # an interruption reaches one item after the other, and the end of the first must not start the next
        return run.stopping.is_set() or self._interrupted

    def _stopped_early(self, run: _Run) -> Trouble:
        if self._interrupted:
            return Trouble(
                NOT_STARTED, "interrupted", f"{run.where}: not started, the task was interrupted"
            )
        return Trouble(
            NOT_STARTED,
            "ended_with",
            f"{run.where}: not started, because item {run.item.end_with!r} ended before",
        )

    def _finish(self, run: _Run, end) -> None:
        """Record the end of an item (a Trouble, or a dict of result fields) and tell those who wait for it."""
        if isinstance(end, Trouble):
            end = _end(end.outcome, end.reason, end.message)
        result = self._result(run, end)
        with run.condition:
            run.result = result
            run.over = True
            run.condition.notify_all()
        for follower in self._followers.get(run.item.id, ()):
            self._stop(follower, "ended")
        with self._left_lock:
            self._left -= 1
            if not self._left:
                self._all_over.set()

    def _result(self, run: _Run, end: dict) -> dict:
        item, attempt = run.item, run.attempt
        result = {
            "id": item.id,
            "namespace": item.namespace,
            "pod": item.pod,
            "container": run.container,
            "command": list(item.command),
            "rc": None,
            "start": run.start,
            "duration_s": round(time.monotonic() - run.began, 3) if run.began else 0.0,
            "attempts": run.attempts,
        }
        for name in ("stdout", "stderr"):
            raw = bytes(getattr(attempt, name)) if attempt else b""
            result[name] = raw.decode("utf-8", "replace")
            try:
                raw.decode("utf-8")
            except UnicodeDecodeError:
                result[name + "_base64"] = base64.b64encode(raw).decode("ascii")
        result.update(end)
        return result

    # ---- one item

    def _attempts(self, run: _Run):
        retry, end = run.item.retry, None
        while True:
            before, ran = end, run.attempt
            end = self._attempt(run)
            if before is not None and end["outcome"] in (NOT_STARTED, REFUSED):
                # what is known is the end of the attempt that ran
                run.attempt = ran
                before["message"] += f"; it could not be started again: {end['message']}"
                return before
            if retry is None or end.get("rc") in (0, None) or end["outcome"] != COMPLETED:
                return end
            output = bytes(run.attempt.stdout) + b"\n" + bytes(run.attempt.stderr)
            if not any(text.encode("utf-8") in output for text in retry.texts):
                return end
            if run.attempts > retry.times:
                end["message"] += f"; the same for {run.attempts} attempts, no more were allowed"
                return end
            if time.monotonic() + retry.delay >= run.deadline:
                end["message"] += f"; no time was left for another attempt after {run.attempts}"
                return end
            if run.stopping.wait(retry.delay):
                return self._stop_result(run, "it was not running, but waiting to be tried again")

    def _attempt(self, run: _Run):
        """One start of the command, to its end. Returns result fields."""
        opened = self._open(
            run, start_command(run.item.command), run.deadline, run.stopping, self._opening
        )
        if isinstance(opened, Trouble):
            if run.stopping.is_set() and run.attempts:
                return self._stop_result(run, "it was not running, but waiting to be tried again")
            if run.stopping.is_set():
                opened = self._stopped_early(run)
            return _end(opened.outcome, opened.reason, opened.message)
        attempt = _Attempt(opened.sock, opened)
        with run.lock:
            run.attempt = attempt
            run.attempts += 1
            stop_now = run.stopping.is_set()
        if stop_now:
            self._end_soon(run, attempt)
        try:
            self._read(run, attempt)
        finally:
            attempt.stderr += attempt.mark.flush()
            attempt.over.set()
            attempt.announced.set()
            attempt.sock.close()
        with run.lock:
            ender = run.ender
        if ender is not None:
            ender.join(self._kill_after + 2 * self._grace + 10)
        return self._judge(run, attempt)

    def _judge(self, run: _Run, attempt: _Attempt):
        """The result of an attempt whose connection is over."""
        where, rc = run.where, attempt.rc
        if attempt.mark.missing:
            run.attempts -= 1
            return _end(
                NOT_STARTED,
                "command_not_found",
                f"{where}: there is no {run.item.command[0]!r} on the PATH of the container",
            )
        if run.stopping.is_set() and (attempt.signalled or attempt.status is None):
            if attempt.status is None and not attempt.process_ended:
                self._end_lost(run, attempt)
            return self._stop_result(run, attempt.in_pod)
        if rc is not None:
            if rc and not attempt.mark.seen:
                text = (bytes(attempt.stderr) + bytes(attempt.stdout))[-2000:].decode(
                    "utf-8", "replace"
                )
                trouble = from_output(text, where)
                if trouble is not None:
                    run.attempts -= 1
                    return _end(trouble.outcome, trouble.reason, trouble.message)
            return _end(COMPLETED, "exit_code", f"{where}: ended with exit code {rc}", rc)
        if attempt.status is not None:
            trouble = from_status(attempt.status, where, before_start=not attempt.mark.seen)
            if trouble.outcome != LOST:
                run.attempts -= 1
                if trouble.again and self._pause_before_again(run):
                    return self._attempt(run)
                return _end(trouble.outcome, trouble.reason, trouble.message)
            return _end(LOST, trouble.reason, trouble.message)
        self._end_lost(run, attempt)
        reason = "connection_silent" if attempt.silent else "connection_dropped"
        reason = "pod_gone" if attempt.pod_gone else reason
        return _end(LOST, reason, f"{where}: {attempt.broken}; exit code unknown; {attempt.in_pod}")

    def _pause_before_again(self, run: _Run) -> bool:
        """Wait a little before an exec that the kubelet could not take is tried again; False if there is no time left."""
        if time.monotonic() - run.began > self.settings.patience:
            return False
        pause = self.settings.backoff_max * random.uniform(0.5, 1.0)
        return time.monotonic() + pause < run.deadline and not run.stopping.wait(pause)

    def _stop_result(self, run: _Run, in_pod: str):
        attempt = run.attempt
        rc = attempt.rc if attempt else None
        if run.stop_why == "ended":
            return _end(
                ENDED,
                "ended_with",
                f"{run.where}: ended, because item {run.item.end_with!r} ended; {in_pod}",
                rc,
            )
        if run.stop_why == "interrupted":
            return _end(
                ENDED, "interrupted", f"{run.where}: ended, the task was interrupted; {in_pod}", rc
            )
        gone = attempt is not None and attempt.process_ended
        return _end(
            TIMEOUT,
            "deadline" if gone else "deadline_not_ended",
            f"{run.where}: still running after {run.item.timeout:g} s; {in_pod}",
            rc,
        )

    # ---- connections

    def _path(self, run: _Run, command: list) -> str:
        query = [("command", word) for word in command]
        query += [("stdout", "true"), ("stderr", "true"), ("stdin", "false"), ("tty", "false")]
        if run.container:
            query.append(("container", run.container))
        return f"{self._pod_path(run)}/exec?{urlencode(query)}"

    def _pod_path(self, run: _Run) -> str:
        return f"/api/v1/namespaces/{quote(run.item.namespace, safe='')}/pods/{quote(run.item.pod, safe='')}"

    def _open(self, run: _Run, command: list, until: float, stopping, slots):
        """Open an exec, again and again as long as the server cannot take it. Returns Opened or Trouble."""
        pause, first_failure = self.settings.backoff, None
        while True:
            trouble = None
            if self._take_slot(slots, until, stopping):
                timeout = min(max(0.1, until - time.monotonic()), self.settings.open_timeout)
                try:
                    opened = self._connector.open(self._path(run, command), timeout)
                    self.answered = True
                    return opened
                except Refused as refused:
                    self.answered = True
                    trouble = self._refused(run, refused)
                    if trouble is None:
                        continue
                except ConnectError as error:
                    trouble = Trouble(
                        NOT_STARTED,
                        "api_unavailable",
                        f"{run.where}: {error}",
                        again=not error.permanent,
                    )
                finally:
                    slots.release()
            now = time.monotonic()
            if trouble is None:
                trouble = Trouble(
                    NOT_STARTED,
                    "api_unavailable",
                    f"{run.where}: no connection could be opened in time",
                )
            if not trouble.again:
                return trouble
            first_failure = first_failure or now
            patience = self.settings.patience if self.answered else self.settings.first_patience
            wait = max(pause * random.uniform(0.5, 1.0), trouble.retry_after or 0.0)
            if now + wait >= min(until, first_failure + patience):
                tried = f" (tried for {now - first_failure:.1f} s)"
                return Trouble(trouble.outcome, trouble.reason, trouble.message + tried)
            if stopping is None:
                time.sleep(wait)
            elif stopping.wait(wait):
                return trouble
            pause = min(pause * 2, self.settings.backoff_max)

    def _take_slot(self, slots, until: float, stopping) -> bool:
        """Wait for one of the connections that may be opened at a time; False if it is too late then."""
        while stopping is None or not stopping.is_set():
            left = until - time.monotonic()
            if left <= 0:
                return False
            if slots.acquire(timeout=min(left, 0.5)):
                return True
        return False

    def _refused(self, run: _Run, refused: Refused) -> Trouble | None:
        """The meaning of a refusal; None if it was only that a container had to be named, and now is."""
        choices = container_choices(refused.body) if refused.status == 400 else None
        if choices is not None and not run.container:
            run.container = self._default_container(run) or (choices[0] if choices else None)
            if run.container:
                return None
        return from_http(refused.status, refused.headers, refused.body, run.where)

    def _default_container(self, run: _Run) -> str | None:
        """As kubectl chooses: the pod's annotation, else its first container. None if the pod may not be read."""
        try:
            status, body = self._connector.get(self._pod_path(run), self.settings.open_timeout)
            pod = json.loads(body.decode("utf-8", "replace")) if status == 200 else {}
            annotations = (pod.get("metadata") or {}).get("annotations") or {}
            names = [container["name"] for container in pod.get("spec", {}).get("containers", [])]
        except (ConnectError, OSError, ValueError):
            return None
        named = annotations.get("kubectl.kubernetes.io/default-container")
        return named if named in names else (names[0] if names else None)

    def _read(self, run: _Run, attempt: _Attempt) -> None:
        """Read until the server closes, or the connection is lost; ask for the end of the process at the deadline."""
        settings, sock = self.settings, attempt.sock
        frames = exec_wire.FrameReader()
        last = last_ping = time.monotonic()
        data = attempt.opened.early
        while True:
            if data:
                last = time.monotonic()
                if self._take(run, attempt, frames, data):
                    return
            now = time.monotonic()
            if attempt.status is not None and now - last >= self._grace:
                return
            if now >= run.deadline and attempt.status is None:
                self._stop(run, "timeout")
            if now - last >= settings.ping_every and now - last_ping >= settings.ping_every:
                last_ping = now
                self._send(attempt, exec_wire.PING)
            if self._pongs and now - last >= settings.silent_after and not run.stopping.is_set():
                attempt.silent = True
                attempt.broken = (
                    f"nothing came over the connection for {now - last:.0f} s, not even the answer to a "
                    "ping, although this API server answers pings"
                )
                return
            waits = [max(last, last_ping) + settings.ping_every - now]
            if attempt.status is not None:
                waits.append(last + self._grace - now)
            elif not run.stopping.is_set():
                waits.append(run.deadline - now)
            try:
                sock.settimeout(max(0.01, min(waits)))
                data = sock.recv(_CHUNK)
            except exec_connect.TIMED_OUT:
                data = b""
                continue
            except OSError as error:
                attempt.broken = f"the connection dropped while the command ran ({error})"
                self._keep_unfinished(attempt, frames)
                return
            if not data:
                if attempt.status is None:
                    attempt.broken = (
                        attempt.broken or "the connection dropped while the command ran"
                    )
                self._keep_unfinished(attempt, frames)
                return

    def _take(self, run: _Run, attempt: _Attempt, frames, data: bytes) -> bool:
        """Use what arrived; True if it was the end."""
        closed = False
        try:
            for opcode, payload in frames.feed(data):
                if opcode == exec_wire.PING:
                    self._send(attempt, exec_wire.PONG, payload)
                elif opcode == exec_wire.PONG:
                    self._pongs = True
                elif opcode == exec_wire.CLOSE:
                    self._send(attempt, exec_wire.CLOSE, payload[:2])
                    words = payload[2:].decode("utf-8", "replace")
                    attempt.broken = "the server closed the connection without an exit code" + (
                        f" ({words})" if words else ""
                    )
                    closed = True
                    break
                elif payload:
                    self._channel(attempt, payload[0], payload[1:])
        except exec_wire.ProtocolError as error:
            attempt.broken = f"what came over the connection is not WebSocket ({error})"
            closed = True
        self._notice(run, attempt)
        return closed

    def _channel(self, attempt: _Attempt, channel: int, data: bytes) -> None:
        if channel == _STDOUT:
            attempt.stdout += data
        elif channel == _STDERR:
            attempt.stderr += attempt.mark.feed(data)
        elif channel == _STATUS and data:
            attempt.status_raw += data
            attempt.status = read_status(bytes(attempt.status_raw))
        # 255 closes a channel (v5): the status and the close of the connection say as much

    def _keep_unfinished(self, attempt: _Attempt, frames) -> None:
        """Output of a frame that was cut off by the end of the connection."""
        try:
            rest = frames.unfinished()
        except exec_wire.ProtocolError:
            return
        if len(rest) > 1 and rest[0] in (_STDOUT, _STDERR):
            self._channel(attempt, rest[0], rest[1:])

    def _notice(self, run: _Run, attempt: _Attempt) -> None:
        """Tell the items that wait for this one's start or for a text."""
        if attempt.mark.seen and not attempt.announced.is_set():
            attempt.announced.set()
            if not attempt.mark.missing:
                run.announce(started=True)
        for text, seen in list(run.texts.items()):
            if seen:
                continue
            for name in ("stdout", "stderr"):
                stream = getattr(attempt, name)
                begin = max(0, attempt.searched.get((name, text), 0) - len(text) + 1)
                if stream.find(text, begin) >= 0:
                    run.announce(text=text)
                    break
                attempt.searched[(name, text)] = len(stream)

    def _send(self, attempt: _Attempt, opcode: int, payload: bytes = b"") -> None:
        """A control frame. That it cannot be sent shows soon enough in reading."""
        with contextlib.suppress(OSError):
            attempt.sock.settimeout(1.0)
            attempt.sock.sendall(exec_wire.client_frame(opcode, payload))

    # ---- ending what runs

    def _stop(self, run: _Run, why: str) -> None:
        """Have an item ended, whatever it is doing. The first reason counts."""
        with run.lock:
            if run.over or run.stopping.is_set():
                return
            run.stop_why = why
            run.stopping.set()
            attempt = run.attempt
            if attempt is not None and not attempt.over.is_set():
                self._start_ender(run, attempt)
        if run.item.start_after is not None:
            other = self._runs[run.item.start_after.item]
            with other.condition:
                other.condition.notify_all()

    def _end_soon(self, run: _Run, attempt: _Attempt) -> None:
        with run.lock:
            self._start_ender(run, attempt)

    def _start_ender(self, run: _Run, attempt: _Attempt) -> None:
        """In its own thread, so that the item's thread goes on reading output. Needs run.lock."""
        if run.ender is None:
            run.ender = threading.Thread(target=self._end, args=(run, attempt), daemon=True)
            run.ender.start()

    def _end(self, run: _Run, attempt: _Attempt) -> None:
        """TERM, then KILL, then the connection."""
        try:
            if run.stop_why == "ended" and attempt.over.wait(self._grace_of(run)):
                return  # the two ends of one exchange seldom end in the same moment
            attempt.announced.wait(self._kill_after)
            if attempt.over.is_set():
                return  # ended by itself, or lost: see _judge
            pid = attempt.mark.pid
            if pid is None:
                attempt.in_pod = "the pod never announced the process, so it could not be ended; it may run there"
                return
            for name, wait in (("TERM", self._kill_after), ("KILL", self._grace)):
                attempt.signalled = True
                sent = self._signal(run, pid, name)
                if attempt.over.wait(wait if sent.failure is None else min(wait, 0.5)):
                    break
            if attempt.status is not None:
                attempt.process_ended = True
                attempt.in_pod = f"its process in the pod was ended with {name}"
            elif not attempt.over.is_set() and sent.failure is None:
                attempt.process_ended = True
                attempt.in_pod = (
                    "its process in the pod was ended with KILL, but its connection stayed silent"
                )
        finally:
            if not attempt.over.is_set():
                _wake(attempt.sock)

    def _grace_of(self, run: _Run) -> float:
        """How long an item may go on alone. One whose other end succeeded has most likely got what it needs, and only has to finish."""
        other = self._runs[run.item.end_with].result if run.item.end_with else None
        succeeded = other is not None and other.get("rc") == 0
        return self.settings.end_grace_success if succeeded else self.settings.end_grace

    def _end_lost(self, run: _Run, attempt: _Attempt) -> None:
        """A command whose connection is lost still runs in the pod: end it, as far as that is possible."""
        pid = attempt.mark.pid
        if pid is None:
            attempt.in_pod = "the pod never announced the process; it may run there"
            return
        sent = self._signal(run, pid, "TERM")
        until = time.monotonic() + self._kill_after
        while sent.failure is None and not sent.gone and time.monotonic() < until:
            time.sleep(min(0.25, self._kill_after))
            sent = self._signal(run, pid, "0")
        if sent.failure is None and not sent.gone:
            sent = self._signal(run, pid, "KILL")
        if sent.pod_gone:
            attempt.pod_gone = attempt.process_ended = True
            attempt.in_pod = (
                f"the pod or its container is gone, and the process with it: {sent.failure}"
            )
        elif sent.failure is None:
            attempt.process_ended = True
            attempt.in_pod = "its process in the pod was ended"
        else:
            attempt.in_pod = f"its process (pid {pid}) could not be ended and may still run in the pod: {sent.failure}"

    def _signal(self, run: _Run, pid: int, name: str) -> _Sent:
        """Send a signal by a fresh exec ("0" only asks whether the process is there)."""
        until = time.monotonic() + max(3.0, self._kill_after + self._grace)
        opened = self._open(run, kill_command(name, pid), until, None, self._ending)
        if isinstance(opened, Trouble):
            return _Sent(opened.message, pod_gone=opened.reason in _POD_GONE)
        attempt = _Attempt(opened.sock, opened)
        frames = exec_wire.FrameReader()
        try:
            data = opened.early
            while True:
                if data:
                    for opcode, payload in frames.feed(data):
                        if opcode in (exec_wire.TEXT, exec_wire.BINARY) and payload:
                            self._channel(attempt, payload[0], payload[1:])
                    if attempt.status is not None:
                        break
                left = until - time.monotonic()
                if left <= 0:
                    return _Sent(f"no answer to the signal {name}")
                attempt.sock.settimeout(left)
                data = attempt.sock.recv(_CHUNK)
                if not data:
                    return _Sent(f"the connection for the signal {name} dropped")
        except (OSError, exec_wire.ProtocolError) as error:
            return _Sent(f"the connection for the signal {name} failed: {error}")
        finally:
            attempt.sock.close()
        if attempt.rc is None:
            trouble = from_status(attempt.status, run.where, before_start=True)
            return _Sent(trouble.message, pod_gone=trouble.reason in _POD_GONE)
        said = (bytes(attempt.stderr) + attempt.mark.flush()).decode("utf-8", "replace").strip()
        if attempt.rc and "no such process" not in said.lower():
            return _Sent(f"kill -s {name} {pid}: exit code {attempt.rc}: {said}")
        return _Sent(gone=bool(attempt.rc))


def _end(outcome: str, reason: str, message: str, rc: int | None = None) -> dict:
    return {"outcome": outcome, "reason": reason, "message": message, "rc": rc}


def _wake(sock: socket.socket) -> None:
    """Make a thread that waits in recv return. Of the socket itself: SSLSocket.shutdown is not made for two threads."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _now() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"


def check_mode_results(items: list) -> list:
    """The results of a run in check mode: what would run, nothing run."""
    results = []
    for item in items:
        run = _Run(item)
        message = f"{run.where}: would run {shlex.join(item.command)}"
        results.append(
            {
                "id": item.id,
                "namespace": item.namespace,
                "pod": item.pod,
                "container": item.container,
                "command": list(item.command),
                "stdout": "",
                "stderr": "",
                "start": None,
                "duration_s": 0.0,
                "attempts": 0,
                **_end(NOT_STARTED, "check_mode", message),
            }
        )
    return results


def count_outcomes(results: list) -> dict:
    """How many results there are of each outcome; every outcome is named."""
    return {name: sum(result["outcome"] == name for result in results) for name in OUTCOMES}
