# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest's --out_json, valid or not.

Up to 6.17 it is never JSON (bare keys and words, trailing commas); later it is, except with --output
and where a figure is -nan. It holds the last size only, names no unit, and with --report-both it holds
the remote half. Hence it is held against the text, and believed alone only where arithmetic tells the unit.
"""

from __future__ import annotations

import json
import re

from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest_banner import (
    read_title,
    typed_parameter,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest_table import (
    Rejected,
    read_header,
    read_row,
    units_that_obey,
)

MAX_BLOCKS = 8
MAX_BLOCK = 1 << 16

_BRACE = re.compile(r"[{}]")
_PAIR = re.compile(r'\s*"?([\w.]{1,64})"?\s*:\s*"?([^",{}]{0,200})"?[\s,]*$', re.ASCII)
_BANDWIDTH = ("MsgSize", "n_iterations", "BW_peak", "BW_average", "MsgRate")
_LATENCY = {
    "t_min": "t_min[usec]",
    "t_max": "t_max[usec]",
    "t_typical": "t_typical[usec]",
    "t_avg": "t_avg[usec]",
    "t_stdev": "t_stdev[usec]",
    "percentile_99": "99% percentile[usec]",
    "percentile_99.9": "99.9% percentile[usec]",
    "tps_average": "tps average",
}


def cut_blocks(text: str) -> tuple[str, list[str]]:
    """Return the text without perftest's JSON objects, and the objects."""
    blocks = []
    at = text.find("test_info")
    while at >= 0 and len(blocks) < MAX_BLOCKS:
        start = text.rfind("{", max(0, at - 64), at)
        if start < 0:
            at = text.find("test_info", at + 1, at + MAX_BLOCK)
            if not blocks and at >= 0:
                blocks.append(
                    ""
                )  # counts as a try, so that hostile text costs a bounded number of scans
            continue
        depth, end = 0, min(len(text), start + MAX_BLOCK)
        for brace in _BRACE.finditer(text, start, end):
            depth += 1 if brace.group() == "{" else -1
            if depth == 0:
                end = brace.end()
                break
        blocks.append(text[start:end])
        text = text[:start] + text[end:]
        at = text.find("test_info", start)
    return text, [block for block in blocks if block]


def read_block(block: str) -> dict:
    """Return {valid, test_info, results} with every figure as the text that was printed."""
    try:
        data = json.loads(block, parse_float=str, parse_int=str, parse_constant=str)
        if isinstance(data, dict) and all(
            isinstance(data.get(k), dict) for k in ("test_info", "results")
        ):
            return {
                "valid": True,
                "test_info": {k: str(v) for k, v in data["test_info"].items()},
                "results": {k: str(v) for k, v in data["results"].items()},
            }
    except (ValueError, RecursionError):
        pass
    sections: dict[str, dict[str, str]] = {"test_info": {}, "results": {}}
    section = "test_info"
    for line in block.split("\n"):
        if "results" in line and "{" in line:
            section = "results"
        elif match := _PAIR.match(line):
            sections[section][match.group(1)] = match.group(2).strip()
    return {"valid": False, **sections}


def parameters_of(test_info: dict) -> tuple[dict, dict | None]:
    """Return (parameters as the banner would give them, title) of a test_info section."""
    parameters = {}
    for name, text in test_info.items():
        if pair := typed_parameter(name, text):
            parameters[pair[0]] = pair[1]
    return parameters, read_title(
        " " + test_info.get("test", "").replace("_", " ").replace("RDMA ", "RDMA_")
    )


def row_of(results: dict, unit: str | None) -> dict | None:
    """Return the row of a results section, or None if it holds none.

    unit: the unit that the text or the command line told, or None: then the arithmetic must tell it.
    Raises perftest_table.Rejected.
    """
    if all(name in results for name in _BANDWIDTH):
        size, rate, average = results["MsgSize"], results["MsgRate"], results["BW_average"]
        if unit is None:
            try:
                fits = units_that_obey(int(size), _decimal(average), _decimal(rate))
            except ValueError:
                raise Rejected("not_a_number", "a figure in the JSON is not a number") from None
            if len(fits) != 1:
                raise Rejected(
                    "unit",
                    "the JSON names no unit and bytes x message rate does not tell which it is",
                )
            unit = fits.pop()
        header = read_header(f"#bytes #iterations BW peak[{unit}] BW average[{unit}] MsgRate[Mpps]")
        figures = [size, results["n_iterations"], *(_decimal(results[n]) for n in _BANDWIDTH[2:])]
    else:
        names = [name for name in _LATENCY if name in results]
        if "MsgSize" not in results or not names:
            return None
        header = read_header("#bytes #iterations " + " ".join(_LATENCY[n] for n in names))
        figures = [
            results["MsgSize"],
            results.get("n_iterations", ""),
            *(_decimal(results[n]) for n in names),
        ]
    if header is None:
        return None
    return read_row(header, " " + "   ".join(figures))[0]


def _decimal(text: str) -> str:
    """Figures that JSON tools rewrite (0.1 for 0.10) get back the decimals that the table prints."""
    whole, _dot, decimals = text.partition(".")
    if not whole.lstrip("-").isdigit():
        return text
    if len(decimals) <= 2:
        return f"{whole}.{decimals:0<2}"
    return f"{whole}.{decimals:0<6}"
