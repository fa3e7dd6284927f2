# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real runs of perftest for tests: those in fixtures/, and all of them where the shared set is present."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parent / "fixtures"
CODES: dict[str, list[str]] = json.loads((FIXTURES / "captures_codes.json").read_text("utf-8"))
RUNS: dict[str, dict] = {
    path.stem: json.loads(path.read_text("utf-8"))
    for path in sorted((FIXTURES / "captures").glob("*.json"))
}

# Rows that are in a table and are no result, with the reason why they must be rejected.
REJECTED = {
    ("606-f-link-cut", "server"): "zero",
    ("606-f-link-cut", "client"): "zero",
    ("606-f-link-cut-det", "server"): "zero",
    ("606-f-link-cut-det", "client"): "zero",
    ("606-f-server-killed", "client"): "zero",
    ("606-f-server-sigterm", "client"): "zero",
    ("606-f-sk-duration", "client"): "zero",
    ("629-f-sk-duration", "client"): "zero",
    ("606-f-mismatch-gbits", "server"): "unit",  # Gb/s under a header that says MB/sec
    ("606-f-mismatch-qp", "server"): "range",  # figures that no run can have
    ("606-json-all", "client"): "zero",  # the emulator's clock stood still for one size
    ("629-json-all", "client"): "zero",
}

_ROW = re.compile(r"^ *(\d+) +(\d+)((?:\s+-?(?:[\d.]+|nan|inf))+)")


def printed_rows(text: str) -> list[str]:
    """Read a table the naive way, which is right for text that nothing was mixed into."""
    rows, inside = [], False
    for line in text.split("\n"):
        inside = inside or "#bytes" in line
        if inside and (match := _ROW.match(line)):
            rows.append(" ".join([match[1], match[2], *match[3].split()]))
    return rows


def as_printed(row: dict, decimals_of: str) -> bool:
    """Tell whether a parsed row holds exactly the figures of a printed one."""
    size, iterations, *figures = decimals_of.split()
    if (row["bytes"], row["iterations"]) != (int(size), int(iterations)):
        return False
    numbers = [None if text.lstrip("-") in ("nan", "inf") else float(text) for text in figures]
    if "bandwidth_average_gbps" in row:
        own = [row["printed"]["peak"], row["printed"]["average"], row["message_rate_mpps"]]
        if (row["bandwidth_peak_gbps"] is None) != (numbers[0] == 0):
            return False
        scale = 1 if row["printed"]["unit"] == "Gb/sec" else 2**20 * 8 / 1e9
        if abs(row["bandwidth_average_gbps"] - numbers[1] * scale) > 1e-6:
            return False
    elif "latency_min_us" in row:
        names = ("min", "max", "typical", "average", "stdev", "p99", "p999")
        own = [row[f"latency_{name}_us"] for name in names]
    else:
        own = [row["latency_average_us"], row["transactions_per_second"]]
    if "cpu_util_percent" in row:
        own.append(row["cpu_util_percent"])
    return own == numbers


def shared() -> Path:
    """Return the folder of the shared set, or skip the test."""
    default = Path(__file__).resolve().parents[4] / ".." / "shared"
    folder = Path(os.environ.get("FABRIC_SHARED") or default)
    for candidate in (folder, *(p / "shared" for p in Path(__file__).resolve().parents)):
        if (candidate / "captures").is_dir():
            return candidate
    pytest.skip("the shared set of captures is not here; FABRIC_SHARED names its folder")


def shared_runs() -> list[tuple[str, dict, dict]]:
    """Return (name, server, client) of every capture in the shared set, as exec results."""
    folder = shared()
    with (folder / "captures" / "INDEX.tsv").open(encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        notes = {row["capture"]: row["timeouts"] or "" for row in rows}
    found = []
    for group in ("captures", "captures-cuda"):
        for path in sorted((folder / group).iterdir()):
            if path.is_dir() and path.name not in ("help", "sys"):
                note = notes.get(path.name, "")
                found.append((path.name, _end(path, "server", note), _end(path, "client", note)))
    return found


def _end(path: Path, side: str, note: str) -> dict:
    def read(suffix: str) -> str:
        file = path / f"{side}.{suffix}"
        return file.read_bytes().decode("utf-8", "replace") if file.exists() else ""

    if not (path / f"{side}.cmd").exists():
        return {}
    status = read("rc").strip()
    rc = int(status) if status not in ("", "None") else None
    outcome = "completed"
    if f"{side} still running after" in note or rc is None:
        outcome = "timeout"
    elif side == "server" and "server still running" in note and "client ended" in note:
        outcome = "ended"
    elif rc == 124:
        outcome = "ended" if side == "server" else "timeout"
    return {
        "command": shlex.split(read("cmd")),
        "stdout": read("out") or read("both"),
        "stderr": read("err"),
        "rc": rc,
        "outcome": outcome,
    }


def memory_of(server: dict, client: dict) -> str:
    """Return which memory a pair of commands tests."""
    words = server.get("command", []) + client.get("command", [])
    return "cuda" if any("use_cuda" in word for word in words) else "host"
