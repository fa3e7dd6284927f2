# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every real run gives exactly the rows that were printed, and every failure its reason code."""

from __future__ import annotations

import json

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.diagnosis import judge_run
from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest import parse_perftest

from .captures import (
    CODES,
    REJECTED,
    RUNS,
    as_printed,
    memory_of,
    printed_rows,
    shared,
    shared_runs,
)

ENDS = [(name, side) for name, run in RUNS.items() for side in ("server", "client") if run[side]]


def check_rows(name: str, side: str, end: dict) -> int:
    """Compare an end's rows with what it printed; return how many there are."""
    expected = printed_rows(end["stdout"])
    parsed = parse_perftest(end["stdout"], end["stderr"], end["rc"])
    rejected = [entry["code"] for entry in parsed["rejected"]]
    if (name, side) in REJECTED:
        assert rejected == [REJECTED[name, side]], name
        bad = " ".join(parsed["rejected"][0]["line"].split())
        expected.remove(bad)
    else:
        assert rejected == [], name
    assert len(parsed["rows"]) == len(expected), name
    for row, text in zip(parsed["rows"], expected, strict=True):
        assert as_printed(row, text), (name, row, text)
    assert parsed["role"] in (side, None), name
    return len(expected)


@pytest.mark.parametrize(("name", "side"), ENDS)
def test_rows_of_a_run(name: str, side: str) -> None:
    run = RUNS[name]
    assert printed_rows(run[side]["stdout"]) == run["expect"]["rows"][side]
    check_rows(name, side, run[side])


@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if "code" in run["expect"]])
def test_code_of_a_failed_run(name: str) -> None:
    run = RUNS[name]
    expect = run["expect"]
    result = judge_run(run["server"], run["client"], memory=expect["memory"])
    assert not result["measured"]
    found = result["finding"]
    assert [found["code"], found["side"]] == CODES[name] == [expect["code"], expect["side"]]
    assert found["cause"] and found["remedy"] and found["reference"].endswith("#" + found["code"])


@pytest.mark.parametrize(
    "name", [name for name, run in RUNS.items() if "code" not in run["expect"]]
)
def test_run_that_passed(name: str) -> None:
    run = RUNS[name]
    result = judge_run(run["server"], run["client"], memory=run["expect"]["memory"])
    assert result["finding"] is None
    assert result["measured"]
    assert result["rows"]


def test_all_captures() -> None:
    rows = files = measured = 0
    codes: dict[str, int] = {}
    for name, server, client in shared_runs():
        for side, end in (("server", server), ("client", client)):
            if end:
                rows += check_rows(name, side, end)
                files += 1
        result = judge_run(server, client, memory=memory_of(server, client))
        if result["measured"]:
            measured += 1
            assert name not in CODES, name
        else:
            found = result["finding"]
            assert [found["code"], found["side"]] == CODES.get(name), (name, found["code"])
            codes[found["code"]] = codes.get(found["code"], 0) + 1
    assert files > 800
    print(
        f"\n{files} outputs, {rows} rows, {measured} runs measured, {sum(codes.values())} failed: {codes}"
    )


# What a text does not tell cannot be read from it: (public output, key) -> why.
NOT_IN_THE_TEXT = {
    ("038-device-not-found", "role"): "one error line, the same on both ends",
    ("039-no-devices", "role"): "the same on both ends",
    ("042-commented-header-and-row", "role"): "a table alone, without command or banner",
    ("030-json-valid-write-bw", "unit"): "JSON names no unit; it is proven by arithmetic: MiB/sec",
}
_LATENCY = {
    "t_min": "latency_min_us",
    "t_max": "latency_max_us",
    "t_typical": "latency_typical_us",
    "t_avg": "latency_average_us",
    "t_stdev": "latency_stdev_us",
    "p99": "latency_p99_us",
    "p99_9": "latency_p999_us",
    "tps": "transactions_per_second",
    "msg_rate": "message_rate_mpps",
    "bytes": "bytes",
    "iterations": "iterations",
}
# The reason codes of the public failures.
PUBLIC_CODES = {
    "005-efa-rdmacm-addr-error": "rdma_cm_addr_error",
    "020-cuda-mr-fail-server": "mr_gpu",
    "022-rtr-failure-zero-gid": "no_gid",
    "023-couldnt-connect-glued-message": "connect_failed",
    "036-wc-status-4-syndrome-51": "completion_error",
    "037-cross-tool-wc-status-9": "completion_error",
    "038-device-not-found": "device_not_found",
    "039-no-devices": "no_devices",
}


def test_all_public_outputs() -> None:
    folder = shared() / "public-outputs"
    texts = rows = 0
    for path in sorted(folder.glob("*.meta.json")):
        name = path.name.removesuffix(".meta.json")
        meta = json.loads(path.read_text("utf-8"))
        parsed = parse_perftest((folder / f"{name}.txt").read_text("utf-8"))
        expected = meta["expected"]
        assert len(parsed["rows"]) == len(expected["rows"]), name
        for row, want in zip(parsed["rows"], expected["rows"], strict=True):
            for key, value in want.items():
                if key == "bw_peak":
                    assert row["printed"]["peak"] == value, name
                    assert (row["bandwidth_peak_gbps"] is None) == (value == 0), name
                elif key == "bw_avg":
                    assert row["printed"]["average"] == value, name
                elif key == "unit":
                    assert row["printed"]["unit"] == value or (name, key) in NOT_IN_THE_TEXT, name
                else:
                    assert row[_LATENCY[key]] == value, (name, key)
        assert parsed["role"] == expected["role"] or (name, "role") in NOT_IN_THE_TEXT, name
        assert parsed["tool"] in (meta["tool"], None), name
        if expected["outcome"] == "failed":
            assert parsed["completeness"] == "none", name
            end = {
                "stdout": (folder / f"{name}.txt").read_text("utf-8"),
                "rc": 1,
                "outcome": "completed",
            }
            gpu = "cuda" if "use_cuda" in meta["options"] else "host"
            result = judge_run({}, end, memory=gpu)
            assert result["finding"]["code"] == PUBLIC_CODES[name], name
        texts += 1
        rows += len(expected["rows"])
    assert texts >= 49
    print(f"\n{texts} public outputs, {rows} rows")
