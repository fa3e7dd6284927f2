# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a run, a link or a pod failed, and whether a run that did not fail has measured anything.

The first cause wins over its consequences, on both ends together; the same text is told apart by the
options given and by earlier results; a text that is not in the catalogue is `unknown`, never a guess.
Exit codes alone prove nothing: a result takes the client's table, the right unit, the expected sizes and
the exit status together (and, on GPU memory, proof of the buffer from both ends).
"""

from __future__ import annotations

from ansible_collections.k8si.fabric.plugins.plugin_utils.catalogue import (
    LAYERS,
    RANKS,
    CatalogueError,
    best_match,
    catalogue,
    diagnose_text,
    finding,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.diagnosis_pods import diagnose_pod
from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest import parse_perftest
from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest_command import (
    Command,
    read_command,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest_lines import clean_lines
from ansible_collections.k8si.fabric.plugins.plugin_utils.units import is_zero_gid

__all__ = (
    "LAYERS",
    "CatalogueError",
    "catalogue",
    "diagnose_link",
    "diagnose_pod",
    "diagnose_text",
    "finding",
    "judge_run",
)

SIDES = ("server", "client")
ALL_SIZES = tuple(1 << n for n in range(1, 24))
# Largest message that can be one packet: if larger ones pass, the path carries full packets.
LARGEST_MTU = 4096
KEPT_LINES = 5

_TEXT_LAYERS = ("rdma", "gpudirect", "run")
# Options that must be the same on both ends (perftest checks most of them from 6.28 on).
_SYMMETRIC = (
    "all",
    "size",
    "iters",
    "duration",
    "qp",
    "bidirectional",
    "rdma_cm",
    "report_gbits",
    "connection",
    "run_infinitely",
    "write_with_imm",
    "comm_rdma_cm",
    "force-link",
)
_EXEC_CODE = {
    "command_not_found": "image_missing_tool",
    "shell_not_found": "image_missing_tool",
    "pod_not_found": "pod_gone",
    "pod_not_running": "pod_gone",
    "container_not_found": "pod_gone",
    "api_unavailable": "api_unavailable",
    "kubelet_unavailable": "api_unavailable",
    "interrupted": "interrupted",
}
_DEPENDENT = ("dependency", "ended_with")
_CONNECTION, _TRANSPORT, _CRASH = (
    RANKS.index(name) for name in ("connection", "transport", "crash")
)


class _End:
    """One end of a link: what its command was, what it printed and how it ended."""

    def __init__(self, side: str, result: dict | None, memory: str) -> None:
        result = result or {}
        self.side = side
        self.stdout = _text(result.get("stdout"))
        self.stderr = _text(result.get("stderr"))
        self.rc: int | None = result.get("rc")
        self.outcome: str = result.get("outcome") or ("completed" if self.rc is not None else "")
        self.reason: str = result.get("reason") or ""
        self.message: str = result.get("message") or ""
        self.command: Command | None = read_command(result.get("command"))
        # The exit status of a process that this side ended itself says nothing about the run.
        rc = self.rc if self.outcome == "completed" else None
        self.parsed = parse_perftest(
            self.stdout, self.stderr, rc, command=result.get("command") or None
        )
        self.gpu = self.command.gpu() if self.command else memory == "cuda"

    @property
    def silent(self) -> bool:
        return not self.stdout.strip() and not self.stderr.strip()

    @property
    def killed(self) -> int | None:
        """The signal that ended the process without our doing, or None."""
        if self.outcome not in ("completed", "") or self.rc is None:
            return None
        if self.rc < 0:
            return -self.rc
        return self.rc - 128 if 128 < self.rc < 160 else None

    def lines(self) -> list[str]:
        """Lines that may tell the cause: all of stderr, and what in stdout reads like an error or warning."""
        own = [line.strip() for line in clean_lines(self.stderr)[:2000] if line.strip()]
        known = set(own)
        return own + [
            line for line in self.parsed["errors"] + self.parsed["warnings"] if line not in known
        ]

    def context(self, host_passed: bool | None, differ: bool | None) -> dict:
        """What is known of this end, by the names that the catalogue's conditions use."""
        addresses = self.parsed["addresses"]
        gids = [a["gid"] for end in ("local", "remote") for a in addresses[end] if a["gid"]]
        return {
            "gpu": self.gpu,
            "dmabuf": self.command.has("use_cuda_dmabuf") if self.command else None,
            "rdma_cm": self.command.has("rdma_cm") if self.command else None,
            "host_passed": host_passed,
            "zero_gid": any(is_zero_gid(g) for g in gids) if gids else None,
            "options_differ": differ,
            "transport": self.parsed["parameters"].get("transport"),
        }


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _options_differ(server: _End, client: _End) -> bool | None:
    """Tell whether the ends were started with different options or tools, or None if that is not known."""
    if server.command is None or client.command is None:
        return None
    if server.command.tool != client.command.tool:
        return True
    return any(server.command.options.get(n) != client.command.options.get(n) for n in _SYMMETRIC)


def diagnose_link(
    server: dict,
    client: dict,
    *,
    memory: str = "host",
    host_passed: bool | None = None,
) -> dict:
    """Return the finding that explains why a link could not be measured.

    server, client: the results of the two execs, {command, stdout, stderr, rc, outcome, reason, message}
    as k8s_exec_batch returns them (None or {} if that end was never run). memory: "host" or "cuda".
    host_passed: whether the same link passed with host memory, None if not known.

    The finding has besides `side` (server, client or both) and `lines`, the first error lines of both ends.
    """
    return _diagnose(_End("server", server, memory), _End("client", client, memory), host_passed)


def _diagnose(server: _End, client: _End, host_passed: bool | None) -> dict:
    ends = {"server": server, "client": client}
    differ = _options_differ(server, client)
    matches = {}
    for side, end in ends.items():
        match = best_match(end.lines(), end.context(host_passed, differ), _TEXT_LAYERS)
        if match is not None:
            matches[side] = match

    def at_rank(limit: int) -> dict | None:
        near = {side: m for side, m in matches.items() if m[0].rank <= limit}
        if not near:
            return None
        side = min(near, key=lambda s: (near[s][0].rank, s if limit else SIDES.index(s)))
        signature, line = near[side]
        code = _refined(signature.code, line, ends[side])
        other = matches.get("client" if side == "server" else "server")
        both = (
            other is not None
            and other[0].code == signature.code
            and other[0].rank == signature.rank
        )
        extra = (
            {"status": _wc_status(ends[side])}
            if code in ("completion_error", "mtu_mismatch")
            else {}
        )
        return report(code, "both" if both else side, line, f"{side}: {line}", **extra)

    def report(code: str, side: str, line: str, seen: str, **extra: object) -> dict:
        return finding(
            code,
            where={"side": side},
            seen=seen[:500],
            line=line[:500],
            side=side,
            lines={s: _first_lines(ends[s]) for s in SIDES},
            **extra,
        )

    if found := at_rank(0):
        return found
    for end in (server, client):
        if code := _exec_code(end):
            return report(
                code,
                end.side,
                end.message,
                end.message or f"{end.side}: {end.outcome} ({end.reason})",
            )
    for end, code in ((server, "server_died"), (client, "client_died")):
        signal = end.killed
        if signal is not None:
            crash = signal in (4, 6, 7, 8, 11)
            return report(
                "tool_crash" if crash else code,
                end.side,
                "",
                f"{end.side}: ended by signal {signal} (exit status {end.rc})",
            )
    if found := at_rank(_CONNECTION):
        return found
    if client.outcome == "not_started" and server.outcome in ("timeout", "ended", "not_started"):
        return report(
            "server_never_listened",
            "server",
            "",
            f"server: did not print that it waits for a client; {server.message}".rstrip("; "),
        )
    if found := at_rank(_CRASH):
        return found
    abandoned = client.outcome == "ended" and server.rc == 0
    if client.outcome == "timeout" or abandoned:
        rows = client.parsed["rows"]
        got = f"its last row is of {rows[-1]['bytes']} bytes" if rows else "without a row"
        when = "though the server had ended with exit code 0" if abandoned else "in time"
        return report("hung_client", "client", "", f"client: did not end {when}, {got}")
    if server.outcome == "timeout":
        return report(
            "deadline", "server", "", f"server: did not end in time; {server.message}".rstrip("; ")
        )
    for end in (client, server):
        for rejected in end.parsed["rejected"]:
            code = {"zero": "zero_row", "unit": "unit_mismatch", "range": "garbage_row"}.get(
                rejected["code"]
            )
            if code == "garbage_row" and differ:
                code = "options_mismatch"
            if code:
                return report(code, end.side, rejected["line"], f"{end.side}: {rejected['reason']}")
    if found := at_rank(len(RANKS)):
        return found
    if client.rc == 0 and not client.parsed["errors"] and not server.parsed["errors"]:
        return report("no_result", "client", "", f"client: {client.parsed['completeness_reason']}")
    side = next((e.side for e in (client, server) if e.parsed["errors"]), "both")
    line = next(iter(ends[side].parsed["errors"]), "") if side in ends else ""
    status = ", ".join(
        f"{e.side} {e.outcome or 'not run'} (exit status {e.rc})" for e in (server, client)
    )
    return report("unknown", side, line, f"no line that the catalogue knows; {status}")


def _first_lines(end: _End) -> list[str]:
    return [line[:300] for line in end.parsed["errors"][:KEPT_LINES]]


def _exec_code(end: _End) -> str | None:
    """Return the code of an exec that failed as an exec, or None."""
    if end.outcome == "lost":
        return "exec_failed" if end.reason == "exec_failed" else "exec_lost"
    if end.outcome == "refused":
        return "exec_refused"
    if end.reason == "interrupted":
        return "interrupted"
    if end.outcome == "not_started" and end.reason not in _DEPENDENT:
        return _EXEC_CODE.get(end.reason, "exec_failed")
    if end.outcome == "completed" and end.rc == 127 and end.silent:
        return "image_missing_tool"
    return None


def _wc_status(end: _End) -> int | None:
    """Return the completion status that was printed: "Failed status 12:" or "Failed status-text (12):"."""
    for line in end.parsed["errors"]:
        if "Failed status" in line:
            digits = line.partition("wr_id")[0].rstrip(" :)")
            number = digits[len(digits.rstrip("0123456789")) :]
            return int(number[:9]) if number else None
    return None


def _refined(code: str, line: str, end: _End) -> str:
    """Tell a path with too small an MTU from other failures after the connection.

    Its sign: sizes that fit one packet passed, larger ones did not, and the sender's retries ran out (12).
    """
    if code != "completion_error" or _wc_status(end) != 12:
        return code
    sizes = [row["bytes"] for row in end.parsed["rows"] if row["bytes"]]
    every_size = end.command is None or end.command.has("all")
    return "mtu_mismatch" if sizes and every_size and max(sizes) <= LARGEST_MTU else code


def judge_run(
    server: dict,
    client: dict,
    *,
    memory: str = "host",
    expected_sizes: list[int] | None = None,
    host_passed: bool | None = None,
) -> dict:
    """Tell whether a run has measured its link, and if not, why.

    server, client, memory, host_passed: as for diagnose_link. expected_sizes: message sizes in bytes that
    the client's table must hold; by default what the client's command asks for (-a: 2 to 8388608).

    Returns {measured, rows, best, parsed, finding}: rows are the client's own (of a bidirectional run: the
    sums), best is {bytes, bandwidth_average_gbps} of the fastest average or None, parsed has both ends'
    parse results, finding is None exactly if measured.
    """
    ends = {"server": _End("server", server, memory), "client": _End("client", client, memory)}
    rows = [row for row in ends["client"].parsed["rows"] if row["scope"] in ("own", "total")]
    trouble = _trouble(ends["server"], ends["client"], rows, memory, expected_sizes, host_passed)
    averages = [row for row in rows if row.get("bandwidth_average_gbps") is not None]
    best = max(averages, key=lambda row: row["bandwidth_average_gbps"], default=None)
    return {
        "measured": trouble is None,
        "rows": rows,
        "best": (
            None
            if best is None
            else {key: best[key] for key in ("bytes", "bandwidth_average_gbps")}
        ),
        "parsed": {side: end.parsed for side, end in ends.items()},
        "finding": trouble,
    }


def _trouble(
    server: _End,
    client: _End,
    rows: list[dict],
    memory: str,
    expected_sizes: list[int] | None,
    host_passed: bool | None,
) -> dict | None:
    def report(code: str, side: str, seen: str, line: str = "") -> dict:
        lines = {"server": _first_lines(server), "client": _first_lines(client)}
        return finding(
            code, where={"side": side}, seen=seen[:500], line=line[:300], side=side, lines=lines
        )

    ran = client.outcome == "completed" and client.rc == 0
    server_ok = server.outcome == "ended" or (server.outcome == "completed" and server.rc == 0)
    parsed = client.parsed
    if (
        not ran
        or parsed["completeness"] == "none"
        or (not server_ok and server.outcome != "completed")
    ):
        return _diagnose(server, client, host_passed)
    if _options_differ(server, client):
        return report(
            "options_mismatch",
            "both",
            "the two command lines differ in options that must be the same",
        )
    for end in (client, server):
        for rejected in end.parsed["rejected"]:
            code = {"zero": "zero_row", "unit": "unit_mismatch"}.get(
                rejected["code"], "garbage_row"
            )
            return report(code, end.side, f"{end.side}: {rejected['reason']}", rejected["line"])
    if parsed["role"] == "server":
        return report("no_result", "client", "client: its output is that of a server")
    if parsed["completeness"] != "complete":
        return report("no_result", "client", f"client: {parsed['completeness_reason']}")
    if not server_ok:
        found = _diagnose(server, client, host_passed)
        if found["code"] in ("peer_gone", "unknown", "no_result"):
            return report(
                "exit_status",
                "server",
                f"server: exit status {server.rc} after a complete table of the client",
            )
        return found
    if wrong := _wrong_unit(client, rows):
        return report("unit_mismatch", "client", f"client: {wrong}")
    if missing := _missing_sizes(client, rows, expected_sizes):
        return report("incomplete_sizes", "client", f"client: {missing}")
    if memory == "cuda":
        for end in (server, client):
            if lack := _lacks_gpu_proof(end, rows):
                return report("gpu_not_proven", end.side, f"{end.side}: {lack}")
    return None


def _wrong_unit(client: _End, rows: list[dict]) -> str | None:
    bandwidth = [row for row in rows if "bandwidth_average_gbps" in row]
    if not bandwidth or client.command is None or client.command.has("output"):
        return None
    want = ("Gb/sec",) if client.command.has("report_gbits") else ("MiB/sec", "MB/sec")
    unit = bandwidth[0]["printed"]["unit"]
    if unit not in want:
        return f"the table is in {unit}, the command asks for {want[0]}"
    if not any(row["unit_proven"] for row in bandwidth):
        return f"no row is exact enough to prove that the figures are in {unit}"
    return None


def _missing_sizes(client: _End, rows: list[dict], expected: list[int] | None) -> str | None:
    seen = [row["bytes"] for row in rows]
    if expected is None:
        command = client.command
        if command is None or command.has("run_infinitely"):
            return None if seen else "no row"
        if not command.has("all"):
            size = command.options.get("size")
            expected = [int(size)] if isinstance(size, str) and size.isdigit() else None
            if expected is None:
                return None if len(seen) == 1 else f"{len(seen)} rows where one was asked for"
        elif client.parsed["parameters"].get("connection") in ("UD", "SRD"):
            # Datagrams end at the MTU of the device, which differs: an unbroken series is all that can be asked.
            expected = [1 << n for n in range(1, max(len(seen), 1) + 1)]
        else:
            expected = list(ALL_SIZES)
    missing = sorted(set(expected) - set(seen))
    if missing:
        return f"{len(missing)} of {len(set(expected))} sizes are missing, the first is {missing[0]} bytes"
    if extra := sorted(set(seen) - set(expected)):
        return f"sizes that were not asked for, the first is {extra[0]} bytes"
    if len(seen) != len(set(seen)):
        return "a size occurs twice"
    return None


def _lacks_gpu_proof(end: _End, client_rows: list[dict]) -> str | None:
    """Return what an end lacks as proof that its buffer was in GPU memory, or None."""
    memory = end.parsed["memory"]
    if memory["proven"]:
        return None
    if end.silent and end.outcome == "ended":
        return "it had printed nothing when it was ended (its output is held back where the image has no stdbuf)"
    if memory["kind"] != "cuda":
        return "its output does not speak of GPU memory; it was started without --use_cuda, or its perftest ignores it"
    if memory["memory_type"] not in (None, "CUDA_MEM_DEVICE"):
        return f"its buffer is {memory['memory_type']}, not device memory of the GPU"
    if not memory["buffer_bytes"] or not memory["device"]:
        return "its output lacks the allocation of the buffer or the name of the GPU"
    if memory["address_in_buffer"] is False:
        return "the address it gave to the other end lies outside its GPU buffer"
    # A server that was ended after its client may have lost its row; its banner comes after the registration
    # of the buffer, and the client's complete table shows that the buffer was used.
    if (
        end.side == "server"
        and end.outcome == "ended"
        and end.parsed["parameters"].get("test")
        and client_rows
    ):
        return None
    return "its output has no result row, or its exit status is not 0"
