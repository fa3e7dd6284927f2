# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever is done to a text: nothing is raised, no row is invented, and what was there is not misread."""

from __future__ import annotations

import json
import re

from ansible_collections.k8si.fabric.plugins.plugin_utils.diagnosis import (
    catalogue,
    diagnose_pod,
    diagnose_text,
    judge_run,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest import parse_perftest
from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest_lines import clean_lines
from ansible_collections.k8si.fabric.plugins.plugin_utils.units import (
    GBPS_PER_MIB_PER_SECOND,
    UnitError,
    canonical_gid,
    line_rate,
    quantity,
    size_bytes,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .captures import RUNS

TEXTS = sorted(
    {run[side]["stdout"] for run in RUNS.values() for side in ("server", "client") if run[side]}
)
JUNK = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "\n",
            "\r",
            "\x1b[31m",
            " 1 2 3.00 4.00 5.000000\n",
            " 65536      5000             392.38             392.34 \t\t     0.748336",
            " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n",
            "Conflicting CPU frequency values detected: 1.0 != 2.0. CPU Frequency is not max.\n",
            "RDMA_Write BW Test\n",
            "-" * 87 + "\n",
            "{test_info",
            "-nan",
            "\x00",
            "\u0663\u0664",
            "* Waiting for client to connect... *\n",
        ]
    ),
)
RELAXED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
_TOKEN = re.compile(r"-?\d+\.\d+|\d+|-?nan|-?inf", re.ASCII)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A real output with truncations, insertions, deletions, repeats and shuffled lines."""
    text = draw(st.sampled_from(TEXTS))
    for _step in range(draw(st.integers(1, 5))):
        kind = draw(
            st.sampled_from(["cut", "insert", "delete", "repeat", "shuffle", "join", "swap"])
        )
        at = draw(st.integers(0, len(text)))
        end = draw(st.integers(at, min(len(text), at + 400)))
        if kind == "cut":
            text = text[:at] if draw(st.booleans()) else text[at:]
        elif kind == "insert":
            text = text[:at] + draw(JUNK) + text[at:]
        elif kind == "delete":
            text = text[:at] + text[end:]
        elif kind == "repeat":
            text = text[:end] + text[at:end] + text[end:]
        elif kind == "join":
            text = text[:at] + text[at:end].replace("\n", " ") + text[end:]
        elif kind == "swap":
            text = text[:at] + draw(st.sampled_from(TEXTS))[at:end] + text[end:]
        else:
            lines = text.split("\n")
            text = "\n".join(draw(st.permutations(lines))) if len(lines) < 60 else text[::-1]
    return text


def check(text: str, stderr: str = "") -> dict:
    """Parse and hold the result against the text: every figure of every row stands on one line of it."""
    parsed = parse_perftest(text, stderr)
    json.dumps(parsed)
    assert parsed["completeness"] in ("complete", "partial", "none")
    assert bool(parsed["rows"]) == (parsed["completeness"] != "none")
    lines = clean_lines(text)
    for row in parsed["rows"]:
        assert 0 < row["bytes"] <= 1 << 31
        assert row["iterations"] > 0
        if row["line"] is None:
            continue
        figures = [float(t) for t in _TOKEN.findall(lines[row["line"] - 1]) if "n" not in t]
        assert row["bytes"] in figures
        assert row["iterations"] in figures
        if "bandwidth_average_gbps" in row:
            assert row["printed"]["average"] in figures
            assert row["message_rate_mpps"] is None or row["message_rate_mpps"] in figures
            scale = 1 if row["printed"]["unit"] == "Gb/sec" else GBPS_PER_MIB_PER_SECOND
            assert abs(row["bandwidth_average_gbps"] - row["printed"]["average"] * scale) < 1e-5
            if row["message_rate_mpps"] is not None:
                arithmetic = row["bytes"] * row["message_rate_mpps"] * 8e-3
                slack = 0.0051 * max(scale, 1) + row["bytes"] * 8e-3 * 0.51e-6 + arithmetic * 1e-6
                assert abs(arithmetic - row["bandwidth_average_gbps"]) <= slack
        else:
            for key, value in row.items():
                if key.startswith("latency_") and value is not None:
                    assert value in figures
    return parsed


@RELAXED
@given(damaged())
def test_damaged_output(text: str) -> None:
    check(text)


@RELAXED
@given(st.sampled_from(TEXTS), st.data())
def test_a_truncated_text_gives_a_beginning_of_the_rows(text: str, data: st.DataObject) -> None:
    if "test_info" in text:
        return
    whole = parse_perftest(text)["rows"]
    part = check(text[: data.draw(st.integers(0, len(text)))])["rows"]
    assert len(part) <= len(whole)
    for mine, full in zip(part, whole, strict=False):
        same = {key: value for key, value in full.items() if key != "scope"}
        assert {key: value for key, value in mine.items() if key != "scope"} == same


@RELAXED
@given(st.text())
def test_any_text(text: str) -> None:
    check(text, text)


@RELAXED
@given(st.binary())
def test_any_bytes(raw: bytes) -> None:
    check(raw.decode("utf-8", "replace"))
    check(raw.decode("latin-1"))


@RELAXED
@given(
    st.lists(
        st.sampled_from(
            [
                " 65536",
                "5000 ",
                "392.34",
                "0.748336",
                "\t",
                " ",
                "\n",
                "#bytes",
                "#iterations",
                " BW average[Gb/sec]",
                "MsgRate[Mpps]",
                "-nan",
                "-" * 40,
            ]
        ),
        max_size=60,
    )
)
def test_words_of_a_table_in_any_order(words: list[str]) -> None:
    check("".join(words))


@RELAXED
@given(
    damaged(),
    damaged(),
    st.sampled_from(["completed", "timeout", "not_started", "lost", "refused", "ended", ""]),
    st.sampled_from([None, 0, 1, 127, 137, 139, -9]),
    st.sampled_from(["host", "cuda"]),
)
def test_judgement_of_any_run(
    out: str, err: str, outcome: str, rc: int | None, memory: str
) -> None:
    end = {"stdout": out, "stderr": err[-400:], "rc": rc, "outcome": outcome}
    for server, client in ((end, end), ({}, end), (end, {})):
        result = judge_run(server, client, memory=memory)
        json.dumps(result)
        assert result["measured"] == (result["finding"] is None)
        if result["measured"]:
            assert result["rows"]
            assert client["rc"] == 0
            assert client["outcome"] in ("completed", "")
        else:
            assert result["finding"]["code"] in catalogue()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=12,
)


@RELAXED
@given(
    st.fixed_dictionaries({}, optional={"metadata": _JSON, "status": _JSON, "spec": _JSON}),
    st.lists(
        st.dictionaries(
            st.sampled_from(["message", "type", "reason", "involvedObject"]), _JSON, max_size=4
        ),
        max_size=3,
    ),
)
def test_any_pod(pod: dict, events: list[dict]) -> None:
    found = diagnose_pod(pod, events)
    assert found is None or found["code"] in catalogue()


@RELAXED
@given(st.text(), st.sampled_from(["operator", "node", "pod", "rdma", "gpudirect", "perf", "run"]))
def test_any_message(text: str, layer: str) -> None:
    found = diagnose_text(text, layer)
    assert found is None or found["code"] in catalogue()


@RELAXED
@given(st.text(max_size=80) | st.from_regex(r"[0-9a-f:.%/]{0,50}", fullmatch=True))
def test_any_quantity(text: str) -> None:
    canonical_gid(text)
    for reader in (quantity, line_rate, size_bytes):
        try:
            reader(text)
        except UnitError as exc:
            assert str(exc)
