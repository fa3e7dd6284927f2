# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest's tables: the header says what the columns are, arithmetic says whether a row is to be believed.

In every bandwidth row the average equals bytes x message rate. With the decimals that were printed,
this proves the unit and the columns; a row that does not obey is rejected, never corrected.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ansible_collections.k8si.fabric.plugins.plugin_utils.units import gbps_from_mib_per_second

# Unit of the header -> (figure per byte and million messages a second, name of the unit).
# "MB/sec" was printed up to 6.21 and is 2^20 byte/s all the same.
UNITS = {"MB/sec": 1e6 / (1 << 20), "MiB/sec": 1e6 / (1 << 20), "Gb/sec": 8e-3, "Gbps": 8e-3}
MAX_MESSAGE = 1 << 31
MAX_ITERATIONS = 1 << 63

_COLUMN = re.compile(r"\s*(tps average|#\w+|[^#\[\]\s][^#\[\]]{0,40}\[[^\]\s]{1,16}\])", re.ASCII)
_NUMBER = r"(-?(?:\d{1,20}\.\d{1,12}|nan|inf))"
_INTEGER = {"bytes": r"(\d{1,20})", "iterations": r"(\d{1,20})", "service_level": r"(\d{1,3})"}
_LOOKS_LIKE_ROW = re.compile(r"\s*\d+\s+\d+(?:\s|$)", re.ASCII)
_LOOKS_LIKE_FULL_ROW = re.compile(
    rf"\s*\d+\s+\d+(?:\s+\d{{1,3}})?\s+{_NUMBER}\s+{_NUMBER}", re.ASCII
)
_MORE_NUMBERS = re.compile(r"\s+-?\d+(?:\.\d+)?(?:\s|$)", re.ASCII)

_BANDWIDTH = {"bw peak": "peak", "bw average": "average", "bw min": "minimum"}
_LATENCY = {
    "t_min": "minimum",
    "t_max": "maximum",
    "t_typical": "typical",
    "t_avg": "average",
    "t_stdev": "stdev",
    "99% percentile": "p99",
    "99.9% percentile": "p999",
}
_LATENCY_FIELD = {
    "minimum": "latency_min_us",
    "maximum": "latency_max_us",
    "typical": "latency_typical_us",
    "average": "latency_average_us",
    "stdev": "latency_stdev_us",
    "p99": "latency_p99_us",
    "p999": "latency_p999_us",
}
_PORT = re.compile(r"(bw|msgrate) port(\d)", re.ASCII)


class Rejected(Exception):
    """A line that looks like a row and is not to be believed."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Header:
    """The columns of a table: their meaning, in the order they are printed."""

    def __init__(self, kind: str, unit: str | None, columns: tuple, names: tuple) -> None:
        self.kind = kind
        self.unit = unit
        self.columns = columns
        self.names = names
        fields = (_INTEGER.get(column, _NUMBER) for column in columns)
        self.pattern = re.compile(r"\s*" + r"\s+".join(fields), re.ASCII)


@lru_cache(maxsize=256)
def read_header(text: str) -> Header | None:
    """Return the columns of a header line (from "#bytes" on), or None if they cannot be used."""
    names = tuple(name.strip() for name in _COLUMN.findall(text))
    if not names or names[0] != "#bytes" or "#iterations" not in names:
        return None
    columns, units, kind = [], set(), None
    for name in names:
        if name in ("#bytes", "#iterations"):
            columns.append(name[1:])
            continue
        label, _bracket, rest = name.partition("[")
        label, unit = " ".join(label.lower().split()), rest.rstrip("]")
        port = _PORT.fullmatch(label)
        if name == "#sl":
            columns.append("service_level")
        elif label in _BANDWIDTH:
            kind = "bandwidth"
            units.add(unit)
            columns.append(_BANDWIDTH[label])
        elif label == "msgrate" and unit == "Mpps":
            columns.append("message_rate")
        elif port and port.group(1) == "bw":
            units.add(unit)
            columns.append(f"port{port.group(2)}")
        elif port and unit == "Mpps":
            columns.append(f"port{port.group(2)}_message_rate")
        elif label in _LATENCY:
            kind = "latency"
            units.add(unit)
            columns.append(_LATENCY[label])
        elif label == "tps average":
            columns.append("transactions")
        elif label == "cpu_util":
            columns.append("cpu_util")
        else:
            columns.append(f"other:{name}")
    if kind is None or ("average" not in columns and "typical" not in columns):
        return None
    if len(units) != 1 or len(set(columns)) != len(columns):
        return None
    return Header(kind, units.pop(), tuple(columns), names)


def looks_like_row(line: str) -> bool:
    """Tell whether a line in an open table begins as a row does."""
    return _LOOKS_LIKE_ROW.match(line) is not None


def looks_like_full_row(line: str) -> bool:
    """Tell whether a line outside any table is a row that has lost its header."""
    return _LOOKS_LIKE_FULL_ROW.match(line) is not None


def read_row(header: Header, line: str) -> tuple[dict, str]:
    """Return (row, text glued to its end). Raises Rejected."""
    match = header.pattern.match(line)
    if match is None:
        raise Rejected(
            "columns",
            "does not have the figures that the header announces (cut off, or another table's)",
        )
    tail = line[match.end() :]
    texts = dict(zip(header.columns, match.groups(), strict=True))
    size, iterations = int(texts.pop("bytes")), int(texts.pop("iterations"))
    _check_decimals(header, texts)
    if tail and (tail[0] in ".0123456789" or _MORE_NUMBERS.match(tail)):
        raise Rejected("columns", "has more figures than the header has columns")
    if size > MAX_MESSAGE or iterations > MAX_ITERATIONS or size == 0:
        raise Rejected("range", "message size or iterations are not possible figures")
    if header.kind == "bandwidth":
        return _bandwidth_row(header, size, iterations, texts), tail
    return _latency_row(header, size, iterations, texts), tail


def _check_decimals(header: Header, texts: dict) -> None:
    """perftest prints two or six decimals, and six for message rates: fewer means a line cut off."""
    last = header.columns[-1]
    for column, text in texts.items():
        _whole, dot, decimals = text.partition(".")
        if not dot:
            continue
        count = len(decimals)
        if column.endswith("message_rate"):
            wrong = count != 6
        elif column == last:
            wrong = count not in (2, 6)
        else:
            wrong = count < 2
        if wrong:
            raise Rejected("cut", f"the figure {text} is cut off or has text glued to it")


def _number(text: str | None) -> float | None:
    if text is None or text[-1] in "nf":  # nan, inf
        return None
    return float(text)


def _half_unit(text: str) -> float:
    return 0.5 * 10.0 ** -len(text.partition(".")[2])


def _obeys(size: int, average: str, rate: str, factor: float) -> bool:
    """Tell whether average = bytes x message rate within what was printed."""
    expected = size * float(rate) * factor
    slack = _half_unit(average) + size * factor * _half_unit(rate)
    return abs(float(average) - expected) <= slack * 1.001 + expected * 1e-9


def _gbps(figure: float | None, unit: str) -> float | None:
    if figure is None:
        return None
    return figure if unit.startswith("Gb") else gbps_from_mib_per_second(figure)


def units_that_obey(size: int, average: str, rate: str) -> set[str]:
    """Return which of MiB/sec and Gb/sec the average can be in, by bytes x message rate."""
    return {unit for unit in ("MiB/sec", "Gb/sec") if _obeys(size, average, rate, UNITS[unit])}


def _bandwidth_row(header: Header, size: int, iterations: int, texts: dict) -> dict:
    unit = header.unit
    if unit not in UNITS:
        raise Rejected("unit_unknown", f"the header's unit {unit} is not one perftest prints")
    average_text, rate_text = texts.get("average"), texts.get("message_rate")
    average, rate, peak = _number(average_text), _number(rate_text), _number(texts.get("peak"))
    if average is None or (rate_text is not None and rate is None):
        raise Rejected("not_a_number", "the average or the message rate is not a number")
    if average < 0 or (rate is not None and rate < 0):
        raise Rejected("range", "a negative figure")
    if iterations == 0 or (average == 0 and not rate):
        raise Rejected("zero", "nothing was transferred: a row of zeros is no measurement")
    proven = False
    if rate_text is not None:
        name = "Gb/sec" if unit.startswith("Gb") else "MiB/sec"
        fits = units_that_obey(size, average_text, rate_text)
        if name not in fits:
            other = fits.pop() if fits else None
            raise Rejected(
                "unit",
                f"bytes x message rate gives {size * rate * UNITS[unit]:.6g} {unit}, not {average_text}"
                + (
                    f": the figures are in {other}, the ends were started with different options"
                    if other
                    else ""
                ),
            )
        proven = len(fits) == 1
    row = {
        "bytes": size,
        "iterations": iterations,
        # 0.00 is what perftest prints for a peak it did not measure.
        "bandwidth_peak_gbps": _gbps(peak, unit) if peak else None,
        "bandwidth_average_gbps": _gbps(average, unit),
        "message_rate_mpps": rate,
        "unit_proven": proven,
        "printed": {"unit": unit, "peak": peak, "average": average},
    }
    if "minimum" in texts:
        row["bandwidth_min_gbps"] = _gbps(_number(texts["minimum"]), unit)
    ports = sorted({c[4] for c in texts if c.startswith("port")})
    if ports:
        row["ports"] = [
            {
                "port": int(port),
                "bandwidth_average_gbps": _gbps(_number(texts.get(f"port{port}")), unit),
                "message_rate_mpps": _number(texts.get(f"port{port}_message_rate")),
            }
            for port in ports
        ]
    return _add_common(row, texts)


def _latency_row(header: Header, size: int, iterations: int, texts: dict) -> dict:
    if header.unit != "usec":
        raise Rejected(
            "unit_unknown", f"the header's unit {header.unit} is not one perftest prints"
        )
    if iterations == 0:
        raise Rejected("zero", "nothing was transferred: a row of zeros is no measurement")
    row = {"bytes": size, "iterations": iterations}
    figures = {}
    for column, text in texts.items():
        if column in _LATENCY_FIELD:
            figures[column] = row[_LATENCY_FIELD[column]] = _number(text)
    low, high = figures.get("minimum"), figures.get("maximum")
    for column, figure in figures.items():
        if figure is None:
            continue
        if figure < 0:
            raise Rejected("range", "a negative figure")
        if column == "stdev":
            continue
        if (low is not None and figure < low) or (high is not None and figure > high):
            raise Rejected(
                "order",
                "a figure lies outside t_min and t_max: the columns are not what the header says",
            )
    if not any(figures.values()) and all(f is not None for f in figures.values()):
        raise Rejected("zero", "nothing was transferred: a row of zeros is no measurement")
    if "transactions" in texts:
        row["transactions_per_second"] = _number(texts["transactions"])
    row["printed"] = {"unit": header.unit}
    return _add_common(row, texts)


def _add_common(row: dict, texts: dict) -> dict:
    if "cpu_util" in texts:
        row["cpu_util_percent"] = _number(texts["cpu_util"])
    if "service_level" in texts:
        row["service_level"] = int(texts["service_level"])
    other = {c[6:]: _number(t) for c, t in texts.items() if c.startswith("other:")}
    if other:
        row["other"] = other
    return row
