# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the output of the perftest tools (ib_write_bw and its family) of every version and option form.

Never wrong rather than never silent: a table's header gives the columns, bytes x message rate proves the
unit, and a line that does not fit is reported as rejected with a reason. Time is linear in the text.
"""

from __future__ import annotations

import re

from ansible_collections.k8si.fabric.plugins.plugin_utils import (
    perftest_banner,
    perftest_json,
    perftest_lines,
    perftest_table,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest_command import (
    Command,
    prompt_command,
    read_command,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest_messages import Messages

_FIGURE = re.compile(r"\s*(-?(?:\d{1,15}\.\d{6}|nan|inf))\s*", re.ASCII)
_VERSION = re.compile(r"\s*Version: (\d+\.\d[\w.+-]{0,32})", re.ASCII)
_RULE = "-" * 40
# No line of a banner, a table or an error is shorter.
_SHORTEST = 6
_KEPT_REJECTED = 100
_MAX_RUNS = 1000
_ONE_SIDED = ("write", "read", "atomic")


class PerftestParseError(ValueError):
    """The arguments are not texts. Nothing that a text can contain raises it."""


def _kind(value: object) -> str:
    """Return in words what a value is; templating engines have types of their own for the usual ones."""
    kinds = ((dict, "a dictionary"), ((list, tuple), "a list"), (str, "a text"), (bytes, "bytes"))
    if value is None:
        return "null"
    return next((word for kind, word in kinds if isinstance(value, kind)), type(value).__name__)


class _Run:
    """One run of a tool within a text."""

    def __init__(self) -> None:
        self.title: dict | None = None
        self.command: Command | None = None
        self.waiting = False
        self.parameters: dict = {}
        self.addresses: dict[str, list[dict]] = {"local": [], "remote": []}
        self.memory = perftest_banner.MemoryEvidence()
        self.rows: list[dict] = []
        self.rejected: list[dict] = []
        self.figures: list[float | None] = []
        self.header: perftest_table.Header | None = None
        self.header_seen = False
        self.open = False
        self.closed = False
        self.scope: str | None = None
        self.json: list[dict] = []
        self.text = False

    @property
    def started(self) -> bool:
        return bool(self.title or self.rows or self.header_seen)

    def verb_kind(self) -> tuple[str | None, str | None]:
        if self.title:
            return self.title["verb"], self.title["kind"]
        if self.command:
            name = self.command.tool
            verb = "raw_ethernet" if name.startswith("raw") else name.split("_")[1]
            return verb, name.rsplit("_", 1)[1]
        if self.header is not None:
            return None, "bw" if self.header.kind == "bandwidth" else "lat"
        return None, None

    def tool(self) -> str | None:
        verb, kind = self.verb_kind()
        return perftest_banner.tool_name(verb, kind, self.parameters.get("connection"))

    def role(self) -> str | None:
        if self.waiting:
            return "server"
        if self.command is not None:
            return self.command.role
        if self.title is None:
            return None
        if "tx_depth" in self.parameters:
            return "client"
        # Only who sends prints its TX depth: the client, and in a bidirectional test both.
        return "server" if "connection" in self.parameters and not self.bidirectional() else None

    def tableless(self) -> bool:
        """Tell whether this end prints no table at all even when all is well."""
        verb, kind = self.verb_kind()
        return verb in ("read", "atomic") and kind == "lat" and self.role() == "server"

    def bidirectional(self) -> bool:
        if self.title and self.title["bidirectional"]:
            return True
        return bool(self.command and self.command.has("bidirectional"))

    def row_scope(self) -> str:
        """Whose figures a row without its own heading holds."""
        verb, kind = self.verb_kind()
        if kind == "bw" and self.bidirectional():
            return "total"
        # With write_with_imm the server measures by itself.
        by_itself = self.title is not None and self.title["write_with_imm"]
        if kind == "bw" and verb in _ONE_SIDED and self.role() == "server" and not by_itself:
            return "peer"
        return "own"


class _TooManyRuns(Exception):
    """The text holds more runs than anyone puts into one log; the rest of it is not read."""


class _Reader:
    """Goes through the lines of stdout once."""

    def __init__(self, command: Command | None) -> None:
        self.messages = Messages()
        self.version: str | None = None
        self.command = command
        self.runs = [_Run()]
        self.runs[0].command = command
        self.prefix = ""
        self.usage = False
        self.last_address: dict | None = None

    @property
    def run(self) -> _Run:
        return self.runs[-1]

    def next_run(self) -> _Run:
        if len(self.runs) >= _MAX_RUNS:
            raise _TooManyRuns
        self.runs.append(_Run())
        self.runs[-1].command = self.command
        self.usage = False
        self.last_address = None
        return self.runs[-1]

    def read(self, lines: list[str]) -> None:
        for number, raw in enumerate(lines, 1):
            if len(raw) < _SHORTEST:
                continue
            self.line(number, raw[: perftest_lines.MAX_LINE])

    def line(self, number: int, line: str) -> None:
        run = self.run
        if "#bytes" in line and self.header_line(line):
            return
        body = perftest_lines.without_prefix(line, self.prefix) if self.prefix else line
        if _RULE in line:
            if run.open and (run.rows or run.rejected):
                run.open, run.closed = False, True
            return
        first = body.lstrip()[:1]
        if not ("0" <= first <= "9" and self.digits(run, number, body)):
            self.words(run, line)

    def header_line(self, line: str) -> bool:
        at = line.index("#bytes")
        prefix = line[:at].rstrip()
        if not perftest_lines.is_prefix(prefix):
            return False
        run = self.run
        if run.rows and run.scope is None:
            run = self.next_run()
        self.prefix = prefix
        run.header = perftest_table.read_header(line[at:].rstrip())
        run.header_seen = run.open = run.text = True
        run.closed = False
        return True

    def digits(self, run: _Run, number: int, line: str) -> bool:
        """Take a line that begins with a digit, if it is a row or a bare figure."""
        if run.open:
            if not perftest_table.looks_like_row(line):
                return False
            self.row(run, number, line)
        elif len(line) > 12 and perftest_table.looks_like_full_row(line):
            self.reject(
                run,
                number,
                line,
                "no_header",
                "a row without a header before it: its columns are unknown",
            )
        elif not run.header_seen and (match := _FIGURE.fullmatch(line)):
            run.figures.append(float(match.group(1)))
        else:
            return False
        return True

    def row(self, run: _Run, number: int, line: str) -> None:
        if run.header is None:
            self.reject(
                run,
                number,
                line,
                "header",
                "the table's header is cut off or not one of perftest's",
            )
            return
        try:
            row, tail = perftest_table.read_row(run.header, line)
        except perftest_table.Rejected as exc:
            self.reject(run, number, line, exc.code, exc.reason)
            return
        row["scope"] = run.scope or run.row_scope()
        row["run"] = len(self.runs)
        row["line"] = number
        run.rows.append(row)
        if tail.strip():
            self.messages.add(tail, "stdout")

    def reject(self, run: _Run, number: int, line: str, code: str, reason: str) -> None:
        if len(run.rejected) < _KEPT_REJECTED:
            run.rejected.append(
                {"line": line.strip()[:300], "number": number, "code": code, "reason": reason}
            )

    def words(self, run: _Run, line: str) -> None:
        if "Waiting for client" in line:
            if "rdma_cm QP" not in line and (run.started or run.waiting):
                run = self.next_run()
            run.waiting = run.text = True
            return
        if self.usage and "Test" not in line:
            return  # the usage that follows a bad option: example commands, and every word for a failure
        if ("ib_" in line or "raw_ethernet_" in line) and (command := prompt_command(line)):
            if run.started or (run.command is not None and run.command is not self.command):
                run = self.next_run()
            run.command = command
            return
        title = perftest_banner.read_title(line)
        if title is not None:
            if run.started:
                run = self.next_run()
            run.title = title
            run.text = True
            self.usage = False
            return
        if ":" in line:
            if "GID:" in line:
                if self.last_address is not None and self.last_address["gid"] is None:
                    self.last_address["gid"] = perftest_banner.read_gid(line)
                return
            if "address:" in line and (address := perftest_banner.read_address(line)):
                if len(run.addresses[address[0]]) < 4096:
                    run.addresses[address[0]].append(address[1])
                self.last_address = address[1]
                return
            parameters = perftest_banner.read_parameters(line) if len(line) < 400 else {}
            if parameters:
                for key, value in parameters.items():
                    run.parameters.setdefault(key, value)
                return
            if match := _VERSION.match(line):
                self.version = match.group(1)
                return
        if run.title and " results: " in line + " ":
            if "Local results" in line:
                run.scope = "local"
                return
            if "Remote results" in line:
                run.scope = "remote"
                return
        if "GPU" in line or "CUDA" in line or "dev = " in line or "ibv_reg_" in line:
            if "initializing CUDA" in line and run.closed:
                run = self.next_run()
            if run.memory.note(line):
                run.text = True
                return
        if line.startswith("Usage:"):
            self.usage = True
        self.other(run, line)

    def other(self, run: _Run, line: str) -> None:
        self.messages.add(line, "stdout")
        if not run.text and line.strip():
            run.text = True


def parse_perftest(
    stdout: str,
    stderr: str = "",
    rc: int | None = None,
    *,
    command: list[str] | str | None = None,
    out_json: str = "",
) -> dict:
    """Return what one end of a perftest run printed, as data.

    stdout, stderr: the two streams (or both merged in stdout). rc: exit status, None if unknown.
    command: the command line, if known; it settles the role and the meaning of --output's bare figure.
    out_json: the content of --out_json's file, held against the table.

    Raises PerftestParseError only for arguments of the wrong type. The keys of the result are described
    in the documentation of the filter k8si.fabric.parse_perftest.
    """
    for name, value in (("stdout", stdout), ("stderr", stderr), ("out_json", out_json)):
        if not isinstance(value, str):
            raise PerftestParseError(f"{name} must be a text, not {_kind(value)}")
    if rc is not None and (isinstance(rc, bool) or not isinstance(rc, int)):
        raise PerftestParseError(f"rc must be a whole number or null, not {_kind(rc)}")
    if command is not None and not isinstance(command, (str, list, tuple)):
        raise PerftestParseError(f"command must be a list or a text, not {_kind(command)}")

    blocks: list[str] = []
    if "test_info" in stdout:
        stdout, blocks = perftest_json.cut_blocks("\n".join(perftest_lines.clean_lines(stdout)))
    if "test_info" in out_json:
        blocks += perftest_json.cut_blocks(out_json)[1]

    reader = _Reader(read_command(command))
    try:
        reader.read(perftest_lines.clean_lines(stdout))
    except _TooManyRuns:
        reader.messages.add(
            f"warning: more than {_MAX_RUNS} runs in one text; the rest was not read", "stdout"
        )
    if stderr:
        errors = Messages()
        for line in perftest_lines.clean_lines(stderr):
            if len(line) > 2:
                errors.add(line[: perftest_lines.MAX_LINE], "stderr")
        warnings = list(dict.fromkeys(reader.messages.warnings + errors.warnings))
        error_lines = list(dict.fromkeys(errors.errors + reader.messages.errors))
    else:
        warnings, error_lines = reader.messages.warnings, reader.messages.errors
    for block in blocks:
        _take_json(reader.runs[-1], perftest_json.read_block(block), warnings, len(reader.runs))

    runs = [
        run
        for run in reader.runs
        if run.started or run.text or run.rejected or run.figures or run.json
    ]
    if not runs:
        runs = reader.runs[-1:]
    results = [_finish(run, rc, error_lines) for run in runs]
    return _combine(results, reader.version, warnings, error_lines)


def _take_json(run: _Run, block: dict, warnings: list[str], number: int) -> None:
    parameters, title = perftest_json.parameters_of(block["test_info"])
    for key, value in parameters.items():
        run.parameters.setdefault(key, value)
    run.title = run.title or title
    if not block["valid"]:
        warnings.append("the JSON that perftest wrote is not valid JSON; it was read line by line")
    unit = run.header.unit if run.header is not None and run.header.kind == "bandwidth" else None
    if unit is None and run.command is not None and run.command.has("report_gbits"):
        unit = "Gb/sec"
    entry = {"valid": block["valid"], "results": block["results"], "agrees": None}
    run.json.append(entry)
    try:
        row = perftest_json.row_of(block["results"], unit)
    except perftest_table.Rejected as exc:
        if run.rows:
            entry["agrees"] = False
            warnings.append(
                f"the figures in perftest's JSON are not those of the table: {exc.reason}"
            )
            return
        line = ", ".join(f"{k}: {v}" for k, v in block["results"].items())[:300]
        run.rejected.append({"line": line, "number": None, "code": exc.code, "reason": exc.reason})
        return
    if row is None:
        return
    if run.rows:
        figures = ("bytes", "iterations", "bandwidth_average_gbps", "latency_average_us")
        entry["agrees"] = any(all(row.get(f) == r.get(f) for f in figures) for r in run.rows)
        if not entry["agrees"]:
            warnings.append("the figures in perftest's JSON are in no row of the table")
        return
    row.update(scope=run.row_scope(), run=number, line=None)
    run.rows.append(row)
    run.closed = True


def _output_row(run: _Run) -> dict | None:
    """Give --output's bare figure its meaning, where the command line tells it."""
    command = run.command
    if command is None or len(run.figures) != 1 or "output" not in command.options:
        return None
    meaning, figure = command.options["output"], run.figures[0]
    size = command.options.get("size")
    row = {
        "bytes": int(size) if isinstance(size, str) and size.isdigit() else None,
        "iterations": None,
    }
    if meaning == "bandwidth":
        unit = "Gb/sec" if command.has("report_gbits") else "MiB/sec"
        row.update(
            bandwidth_peak_gbps=None,
            bandwidth_average_gbps=(
                figure if unit == "Gb/sec" else perftest_table.gbps_from_mib_per_second(figure)
            ),
            message_rate_mpps=None,
            unit_proven=False,
            printed={"unit": unit, "peak": None, "average": figure},
        )
    elif meaning == "message_rate":
        row.update(
            bandwidth_peak_gbps=None,
            bandwidth_average_gbps=None,
            message_rate_mpps=figure,
            unit_proven=False,
            printed={"unit": None, "peak": None, "average": None},
        )
    elif meaning == "latency":
        row.update(latency_average_us=figure, printed={"unit": "usec"})
    else:
        return None
    row.update(scope=run.row_scope(), run=None, line=None)
    return row


def _finish(run: _Run, rc: int | None, errors: list[str]) -> dict:
    role = run.role()
    if role is None:
        role = next(
            (end for end in ("client", "server") if any(f"error at {end}" in e for e in errors)),
            None,
        )
    if not run.rows and (row := _output_row(run)):
        run.rows.append(row)
        run.closed = True
    completeness, reason = _completeness(run)
    parameters = dict(run.parameters)
    if run.title:
        parameters["test"] = run.title["title"]
        parameters["bidirectional"] = run.title["bidirectional"]
    return {
        "tool": run.tool(),
        "role": role,
        "parameters": parameters,
        "addresses": run.addresses,
        "rows": run.rows,
        "figures": run.figures,
        "completeness": completeness,
        "completeness_reason": reason,
        "memory": run.memory.result(
            run.started or bool(run.rows),
            bool(run.rows or run.figures),
            rc,
            run.addresses["local"],
            run.tableless(),
        ),
        "json": run.json,
        "rejected": run.rejected,
    }


def _completeness(run: _Run) -> tuple[str, str]:
    if not run.rows:
        if run.rejected:
            return "none", f"every row was rejected; the first: {run.rejected[0]['reason']}"
        if run.figures:
            return "none", "a bare figure of --output, whose meaning only the command line tells"
        if run.header_seen:
            return (
                "none",
                "the table has a header and no row: the run did not get as far as a result",
            )
        if run.tableless():
            return "none", "the server of this test prints no table"
        if run.title:
            return "none", "the output ends before the table"
        return "none", (
            "there is no perftest table in the text" if run.text else "there is no output"
        )
    if run.rejected:
        return "partial", f"a row was rejected: {run.rejected[0]['reason']}"
    if not run.closed:
        return (
            "partial",
            "the line that closes the table is missing: the run was cut off, or the text was",
        )
    return "complete", "the table is closed and every row obeys its header"


def _combine(
    results: list[dict], version: str | None, warnings: list[str], errors: list[str]
) -> dict:
    first = results[0]
    combined = {
        "tool": first["tool"],
        "version": version,
        "role": first["role"],
        "parameters": first["parameters"],
        "addresses": first["addresses"],
        "rows": first["rows"],
        "figures": first["figures"],
        "completeness": first["completeness"],
        "completeness_reason": first["completeness_reason"],
        "memory": first["memory"],
        "json": first["json"],
        "warnings": warnings,
        "errors": errors,
        "rejected": first["rejected"],
        "runs": [],
    }
    if len(results) == 1:
        for row in combined["rows"]:
            row["run"] = 1
        return combined
    combined["rows"] = []
    for number, result in enumerate(results, 1):
        for row in result["rows"]:
            row["run"] = number
        combined["rows"].extend(result["rows"])
    for key in ("figures", "json", "rejected"):
        combined[key] = [entry for result in results for entry in result[key]]
    tools = {result["tool"] for result in results}
    roles = {result["role"] for result in results}
    combined["tool"] = tools.pop() if len(tools) == 1 else None
    combined["role"] = (
        roles.pop() if len(roles) == 1 else ("both" if {"client", "server"} <= roles else None)
    )
    kinds = [result["completeness"] for result in results]
    if len(set(kinds)) > 1:
        worst = next(r for r in results if r["completeness"] != "complete")
        combined["completeness"] = "partial"
        combined["completeness_reason"] = (
            f"of {len(results)} runs, one is not complete: {worst['completeness_reason']}"
        )
    combined["runs"] = [
        {
            key: r[key]
            for key in (
                "tool",
                "role",
                "parameters",
                "addresses",
                "completeness",
                "completeness_reason",
                "memory",
            )
        }
        for r in results
    ]
    return combined
