# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forms of output, and what logs and terminals do to them."""

from __future__ import annotations

import time

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest import (
    PerftestParseError,
    parse_perftest,
)

from .captures import RUNS, printed_rows

RULE = "-" * 87
GBITS = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
MIB = " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]"
LAT = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec] "
)
ROW = " 65536      5000             392.38             392.34 \t\t     0.748336"
CONFLICT = "Conflicting CPU frequency values detected: 3295.212000 != 4999.302000. CPU Frequency is not max."


def table(header: str, *rows: str) -> str:
    return "\n".join([RULE, header, *rows, RULE, ""])


def rows_of(text: str) -> list[tuple]:
    parsed = parse_perftest(text)
    return [(r["bytes"], r["iterations"], r.get("bandwidth_average_gbps")) for r in parsed["rows"]]


ONE = [(65536, 5000, 392.34)]


def test_a_bandwidth_row() -> None:
    parsed = parse_perftest(table(GBITS, ROW))
    assert parsed["rows"] == [
        {
            "bytes": 65536,
            "iterations": 5000,
            "bandwidth_peak_gbps": 392.38,
            "bandwidth_average_gbps": 392.34,
            "message_rate_mpps": 0.748336,
            "unit_proven": True,
            "printed": {"unit": "Gb/sec", "peak": 392.38, "average": 392.34},
            "scope": "own",
            "run": 1,
            "line": 3,
        }
    ]
    assert parsed["completeness"] == "complete"


def test_mib_is_2_to_the_20_whatever_it_is_called() -> None:
    row = " 65536      5000             22292.78            22292.76          0.356684"
    for unit in ("MB/sec", "MiB/sec"):
        parsed = parse_perftest(table(MIB.replace("MiB/sec", unit), row))
        assert parsed["rows"][0]["bandwidth_average_gbps"] == 187.005225
        assert parsed["rows"][0]["printed"]["unit"] == unit


def test_peak_is_null_where_it_was_not_measured() -> None:
    parsed = parse_perftest(
        table(
            GBITS, " 65536      560845           0.00               98.02                0.186950"
        )
    )
    assert parsed["rows"][0]["bandwidth_peak_gbps"] is None
    assert parsed["rows"][0]["printed"]["peak"] == 0


def test_a_table_mixes_both_number_forms() -> None:
    text = table(
        GBITS,
        " 2          20000           0.147331            0.146472            9.154486",
        " 4          20000            0.30               0.30                 9.239950",
    )
    assert [r[2] for r in rows_of(text)] == [0.146472, 0.3]


def test_cpu_utilisation_and_unknown_columns() -> None:
    parsed = parse_perftest(table(GBITS + "    CPU_Util[%]", ROW + "\t    0.66"))
    assert parsed["rows"][0]["cpu_util_percent"] == 0.66
    header = " #bytes     #iterations    BW min[Gb/sec]   BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]   Loss[ppm]"
    parsed = parse_perftest(
        table(header, " 65536      5000   391.00   392.38   392.34    0.748336   12.00")
    )
    assert parsed["rows"][0]["bandwidth_min_gbps"] == 391.0
    assert parsed["rows"][0]["other"] == {"Loss[ppm]": 12.0}
    header = " #bytes     #iterations    BW average[Gb/sec]   MsgRate[Mpps]"
    parsed = parse_perftest(table(header, " 65536      5000     392.34    0.748336"))
    assert parsed["rows"][0]["bandwidth_peak_gbps"] is None
    assert parsed["rows"][0]["unit_proven"]


def test_a_fork_without_message_rate_is_read_and_not_proven() -> None:
    header = " #bytes     #iterations    BW average[MB/sec]"
    parsed = parse_perftest(table(header, " 65536      5000     22292.76"))
    assert parsed["rows"][0]["bandwidth_average_gbps"] == 187.005225
    assert parsed["rows"][0]["unit_proven"] is False


def test_a_relative_of_perftest_with_another_spelling_of_the_unit() -> None:
    header = " #bytes     #iterations    BW average[Gbps]   MsgRate[Mpps]    CUDA Kernel[ms]"
    row = parse_perftest(table(header, " 65536    \t5000    392.343586    0.748336    6.681500"))[
        "rows"
    ][0]
    assert row["bandwidth_average_gbps"] == 392.343586
    assert row["unit_proven"]
    assert row["other"] == {"CUDA Kernel[ms]": 6.6815}


def test_two_commands_and_one_table() -> None:
    commands = (
        "$ kubectl exec -it server -- ib_write_bw -d mlx5_0 -zR   # the server, in the background\n"
        "$ kubectl exec -it client -- ib_write_bw -d mlx5_0 10.0.33.3 -zR\n"
    )
    parsed = parse_perftest(commands + table(GBITS, ROW))
    assert (parsed["tool"], parsed["role"], parsed["runs"]) == ("ib_write_bw", "client", [])
    parsed = parse_perftest(commands.partition("\n")[0] + "\n" + table(GBITS, ROW))
    assert (parsed["role"], parsed["rows"][0]["scope"]) == ("server", "peer")


def test_figures_of_each_port() -> None:
    header = (
        GBITS + "   BW Port1[Gb/sec]   MsgRate Port1[Mpps]   BW Port2[Gb/sec]   MsgRate Port2[Mpps]"
    )
    text = table(header, ROW + "   196.17   0.374168   196.17   0.374168")
    assert parse_perftest(text)["rows"][0]["ports"] == [
        {"port": 1, "bandwidth_average_gbps": 196.17, "message_rate_mpps": 0.374168},
        {"port": 2, "bandwidth_average_gbps": 196.17, "message_rate_mpps": 0.374168},
    ]


def test_service_level_between_size_and_iterations() -> None:
    header = GBITS.replace("#iterations", "#sl      #iterations")
    text = table(header, ROW.replace("65536 ", "65536 3 "))
    row = parse_perftest(text)["rows"][0]
    assert (row["service_level"], row["iterations"], row["bandwidth_average_gbps"]) == (
        3,
        5000,
        392.34,
    )


def test_latency_rows() -> None:
    text = table(
        LAT,
        " 2       1000          1.24           5.19         1.27     \t       1.27        \t0.00   \t\t1.37    \t\t5.19   ",
    )
    row = parse_perftest(text)["rows"][0]
    assert row["latency_min_us"] == 1.24
    assert row["latency_max_us"] == row["latency_p999_us"] == 5.19
    assert row["latency_typical_us"] == row["latency_average_us"] == 1.27
    assert (row["latency_stdev_us"], row["latency_p99_us"]) == (0.0, 1.37)


def test_latency_of_2016_and_of_a_duration() -> None:
    parsed = parse_perftest(
        table(
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]",
            " 2  1000  0.76  0.95  0.78",
        )
    )
    assert parsed["rows"][0]["latency_typical_us"] == 0.78
    parsed = parse_perftest(
        table(
            " #bytes        #iterations       t_avg[usec]    tps average",
            " 2   62078352    2.42    413812.77",
        )
    )
    assert parsed["rows"][0]["transactions_per_second"] == 413812.77


def test_not_a_number_is_null() -> None:
    text = table(
        LAT,
        " 2       20     21.10     99123.00      22.00    \t   5000.00     \t-nan   \t\tinf     \t\tinf    ",
    )
    row = parse_perftest(text)["rows"][0]
    assert row["latency_stdev_us"] is None
    assert row["latency_p99_us"] is None
    assert row["latency_average_us"] == 5000.0


def test_a_dump_of_samples_repeats_the_header() -> None:
    text = "\n".join(
        [
            LAT,
            "#, usec",
            "1, 47.4004",
            "2, inf",
            RULE,
            LAT,
            " 2  20  47.40  245.68  68.82  77.05  31.08  245.68  245.68",
            RULE,
        ]
    )
    parsed = parse_perftest(text)
    assert [row["bytes"] for row in parsed["rows"]] == [2]
    assert parsed["runs"] == []
    assert parsed["completeness"] == "complete"


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.replace("\n", "\r\n"),
        lambda t: t.replace("\n", "\r"),
        lambda t: t.replace(ROW, ROW + CONFLICT + "\n"),
        lambda t: t.replace(ROW, CONFLICT + "\n" + ROW),
        lambda t: t.replace(ROW, ROW + 'Defaulted container "a" out of: a, b\n'),
        lambda t: "\x1b[1m" + t.replace(GBITS, "\x1b[32m" + GBITS + "\x1b[0m"),
        lambda t: "\n".join("2026-04-21T08:12:52.123456789Z " + x for x in t.split("\n")),
        lambda t: "\n".join(
            "[pod/rdma-test-1/ctr] 2026-04-21T08:12:52Z " + x for x in t.split("\n")
        ),
        lambda t: "\n".join("2026-04-21T08:12:52.1+02:00 stdout F " + x for x in t.split("\n")),
        lambda t: "\n".join("node-1.example: " + x for x in t.split("\n")),
        lambda t: "\n".join(
            "Apr 21 08:12:52 node1 perftest[77]: " + x for x in t.split("\n")
        ).replace("node1 perftest", "node1"),
        lambda t: "\n".join("[1,0]<stdout>: " + x for x in t.split("\n")),
        lambda t: "\n".join("#  " + x for x in t.split("\n")),
        lambda t: "\n".join("> " + x for x in t.split("\n")),
        lambda t: t.replace(" ", "  "),
        lambda t: "\n".join(" ".join(x.split()) for x in t.split("\n")),
        lambda t: t.replace("\n", "\\n").replace("\t", "\\t"),
        lambda t: "\ufeff" + t.replace(" ", "\xa0"),
        lambda t: "\x00" + t.replace("\n", "\x07\n"),
        lambda t: "user@node:~$ ib_write_bw -a 10.0.0.1\n" + t + "user@node:~$ ",
    ],
)
def test_what_logs_and_terminals_do(change) -> None:
    assert rows_of(change(table(GBITS, ROW))) == ONE


def test_a_last_line_cut_off_is_no_row() -> None:
    text = "\n".join([RULE, GBITS, ROW])
    for end in range(text.index("65536") + 7, len(text)):
        parsed = parse_perftest(text[:end])
        assert parsed["rows"] == [], text[:end][-30:]
        assert parsed["completeness"] == "none"
    whole = parse_perftest(text)
    assert rows_of(text) == ONE
    assert whole["completeness"] == "partial"


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (" 65536      0                0.00               0.00   \t\t   0.000000", "zero"),
        (" 65536      500              0.00               0.00   \t\t   0.000000", "zero"),
        (" 65536      500              0.10               0.08   \t\t   0.900000", "unit"),
        (" 65536      5000             392.38             392.34 \t\t     0.7483360001", "cut"),
        (" 65536      5000             392.38             392.34 \t\t     0.748", "cut"),
        (
            " 65536      5000             392.38             392.34 \t\t     0.748336 1.00",
            "columns",
        ),
        (" 65536      5000             392.38             392.34", "columns"),
        (
            " 3472328296395452464    3547200640032716899       0.00      0.00   \t\t   0.000000",
            "range",
        ),
        (" 65536      5000             392.38             -nan \t\t     0.748336", "not_a_number"),
        (" 65536      5000             392.38             -1.00 \t\t     0.748336", "range"),
    ],
)
def test_rows_that_are_not_believed(row: str, code: str) -> None:
    parsed = parse_perftest(table(GBITS, row))
    assert parsed["rows"] == []
    assert [entry["code"] for entry in parsed["rejected"]] == [code]
    assert parsed["rejected"][0]["number"] == 3
    assert parsed["completeness"] == "none"


def test_other_reasons_to_reject() -> None:
    def codes(text: str) -> list[str]:
        return [entry["code"] for entry in parse_perftest(text)["rejected"]]

    assert codes(ROW + "\n") == ["no_header"]
    assert codes(table(GBITS.replace("MsgRate[Mpps]", "MsgRate[Mp"), ROW)) == ["columns"]
    assert codes(table(" #bytes     #iterations    BW pe", ROW)) == ["header"]
    assert codes(table(GBITS.replace("Gb/sec", "GB/sec"), ROW)) == ["unit_unknown"]
    assert codes(table(LAT, " 2  20  47.40  45.68  68.82  77.05  31.08  245.68  245.68")) == [
        "order"
    ]


def test_a_rejected_row_makes_a_table_partial() -> None:
    parsed = parse_perftest(table(GBITS, ROW, " 131072     500        0.10     0.08     0.900000"))
    assert parsed["completeness"] == "partial"
    assert len(parsed["rows"]) == 1


def test_halves_of_a_bidirectional_run() -> None:
    run = RUNS["606-bidir-report-both"]
    for side in ("server", "client"):
        parsed = parse_perftest(run[side]["stdout"])
        assert [row["scope"] for row in parsed["rows"]] == ["total", "local", "remote"]
        assert parsed["runs"] == []
        assert parsed["completeness"] == "complete"


def test_whose_figures_a_row_holds() -> None:
    def scopes(name: str, side: str) -> set[str]:
        return {row["scope"] for row in parse_perftest(RUNS[name][side]["stdout"])["rows"]}

    assert scopes("629-2n-all-gbits", "server") == {"peer"}
    assert scopes("629-2n-all-gbits", "client") == {"own"}
    assert scopes("606-send-bw", "server") == {"own"}
    assert scopes("629-all-gbits-bidir", "server") == {"total"}
    assert scopes("629-write-lat-R", "server") == {"own"}


def test_banner_and_addresses() -> None:
    parsed = parse_perftest(RUNS["606-q4-rdmacm"]["client"]["stdout"])
    assert parsed["tool"] == "ib_write_bw"
    assert parsed["role"] == "client"
    parameters = parsed["parameters"]
    assert parameters["device"] == "rxe1"
    assert (parameters["qps"], parameters["mtu_bytes"], parameters["gid_index"]) == (4, 4096, 1)
    assert parameters["transport"] == "IB"
    assert parameters["connection"] == "RC"
    assert parameters["link_type"] == "Ethernet"
    assert parameters["rdma_cm"] is True
    assert parameters["srq"] is False
    assert parameters["tx_depth"] == 128
    assert parameters["test"] == "RDMA_Write BW Test"
    local, remote = parsed["addresses"]["local"], parsed["addresses"]["remote"]
    assert len(local) == len(remote) == 4
    # rdma_cm took the device of the address, in one host that of the other end, and not the one of -d.
    assert {a["gid"] for a in local} == {"::ffff:10.9.0.1"}
    assert {a["gid"] for a in remote} == {"::ffff:10.9.0.1"}
    assert len({a["qpn"] for a in local}) == 4
    assert local[0]["rkey"] is None
    linklocal = parse_perftest(RUNS["629-gid0-linklocal"]["client"]["stdout"])
    assert linklocal["addresses"]["local"][0]["gid"].startswith("fe80::")


def test_the_role_of_a_text_that_begins_with_its_title() -> None:
    for name in (
        "629-2n-all-gbits",
        "606-send-bw",
        "629-write-lat-R",
        "606-atomic-bw",
        "6.25__rlat",
    ):
        for side in ("server", "client"):
            text = RUNS[name][side]["stdout"]
            title = next(line for line in text.split("\n") if line.endswith(" Test"))
            assert parse_perftest(text[text.index(title) :])["role"] == side


def test_both_ends_name_each_other() -> None:
    for name in ("629-rdmacm", "629-2n-all-gbits", "6.06__a_q2", "git__R"):
        server = parse_perftest(RUNS[name]["server"]["stdout"])["addresses"]
        client = parse_perftest(RUNS[name]["client"]["stdout"])["addresses"]
        for mine, theirs in (("local", "remote"), ("remote", "local")):
            keys = ("gid", "lid", "qpn", "psn")
            assert [[a[k] for k in keys] for a in server[mine]] == [
                [a[k] for k in keys] for a in client[theirs]
            ]


@pytest.mark.parametrize(
    ("name", "server", "client"),
    [
        ("6.06__a_q2", "peermem", "peermem"),
        ("git__a_q2", "peermem", "peermem"),
        ("git__R", "peermem", "peermem"),
        ("6.23__a_dmabuf", "dmabuf", "dmabuf"),
        ("git65__m_dmabuf", "dmabuf", "dmabuf"),
        ("6.25__rlat", "peermem", "peermem"),
        ("git__outbw", "peermem", "peermem"),
        ("6.29__cli_gpu", None, "peermem"),
        ("6.06__srv_gpu", "peermem", None),
        ("git__regmr14_c", None, None),
        ("6.23__dmabuf95", None, None),
        ("629-2n-all-gbits", None, None),
    ],
)
def test_each_end_proves_its_own_memory(name: str, server: str | None, client: str | None) -> None:
    run = RUNS[name]
    for side, method in (("server", server), ("client", client)):
        end = run[side]
        memory = parse_perftest(end["stdout"], end["stderr"], end["rc"])["memory"]
        assert memory["method"] == method
        assert memory["proven"] is (method is not None)
        if method:
            assert memory["kind"] == "cuda"
            assert memory["device"] == "NVIDIA H200"
            assert memory["device_index"] == 0
            assert memory["buffer_bytes"] >= 4096
            assert memory["address_in_buffer"] in (True, None)


def test_gpu_memory_is_not_proven_by_less() -> None:
    end = RUNS["6.06__a_q2"]["client"]
    text = end["stdout"]
    assert parse_perftest(text, "", 0)["memory"]["proven"]
    assert not parse_perftest(text, "", 1)["memory"]["proven"]
    for line in ("cuMemAlloc() of a", "device name = ["):
        without = "\n".join(x for x in text.split("\n") if line not in x)
        assert not parse_perftest(without, "", 0)["memory"]["proven"]
    elsewhere = text.replace("VAddr 0x007", "VAddr 0x005")
    assert parse_perftest(elsewhere, "", 0)["memory"]["address_in_buffer"] is False
    assert not parse_perftest(elsewhere, "", 0)["memory"]["proven"]
    managed = RUNS["git__a_q2"]["client"]["stdout"].replace("CUDA_MEM_DEVICE", "CUDA_MEM_MANAGED")
    assert not parse_perftest(managed, "", 0)["memory"]["proven"]


def test_a_bare_figure_needs_its_command() -> None:
    end = RUNS["606-output-bandwidth"]["client"]
    parsed = parse_perftest(end["stdout"])
    assert parsed["rows"] == []
    assert parsed["figures"] == [float(end["stdout"])]
    parsed = parse_perftest(end["stdout"], command=end["command"])
    assert parsed["rows"][0]["printed"] == {
        "unit": "MiB/sec",
        "peak": None,
        "average": float(end["stdout"]),
    }
    end = RUNS["629-output-msgrate"]["client"]
    parsed = parse_perftest(end["stdout"], command=end["command"])
    assert parsed["rows"][0]["message_rate_mpps"] == parsed["figures"][0]
    assert parsed["rows"][0]["bandwidth_average_gbps"] is None
    parsed = parse_perftest("12.500000\n", command="ib_write_lat --output=latency 10.0.0.1")
    assert parsed["rows"][0]["latency_average_us"] == 12.5


def test_json_is_held_against_the_table() -> None:
    end = RUNS["git__json"]["client"]
    parsed = parse_perftest(end["stdout"], out_json=end["out_json"])
    assert parsed["json"][0]["valid"]
    assert parsed["json"][0]["agrees"] is True
    assert len(parsed["rows"]) == 1
    other = end["out_json"].replace('"BW_average": ', '"BW_average": 1')
    parsed = parse_perftest(end["stdout"], out_json=other)
    assert parsed["json"][0]["agrees"] is False
    assert any("JSON" in warning for warning in parsed["warnings"])
    alone = parse_perftest(end["out_json"])
    assert alone["tool"] == "ib_write_bw"
    assert alone["role"] == "client"
    assert alone["parameters"]["mtu_bytes"] == 4096
    assert alone["rows"][0]["printed"]["unit"] == "Gb/sec"
    assert alone["rows"][0]["unit_proven"]
    within = parse_perftest(end["stdout"] + "\n" + end["out_json"] + "\n")
    assert within["json"][0]["agrees"] is True


def test_json_that_is_none() -> None:
    text = "\n".join(
        [
            "{",
            "test_info: {",
            "test: RDMA_Write_BW_Test,",
            'Device: "rxe1",',
            "Number_of_qps: 1,",
            "TX_depth : 5,",
            "},",
            "results: {",
            "MsgSize: 65536,",
            "n_iterations: 400,",
            "BW_peak: 29.76,",
            "BW_average: 18.36,",
            "MsgRate: 0.000294,",
            "},",
            "}",
        ]
    )
    parsed = parse_perftest(text)
    assert parsed["json"][0]["valid"] is False
    assert parsed["rows"][0]["printed"] == {"unit": "MiB/sec", "peak": 29.76, "average": 18.36}
    assert parsed["parameters"]["device"] == "rxe1"
    doubtful = (
        text.replace("18.36", "0.00").replace("0.000294", "0.000000").replace("29.76", "0.10")
    )
    assert parse_perftest(doubtful)["rejected"][0]["code"] in ("zero", "unit")


def test_latency_json_with_nan() -> None:
    text = """{
"test_info": {
"test": "RDMA_Write_Latency_Test",
"TX_depth": 1
},
"results": {
"MsgSize": 2,
"n_iterations": 300,
"t_min": 21.31,
"t_max": 2523.35,
"t_typical": 22.77,
"t_avg": 39.52,
"t_stdev": -nan,
"percentile_99": 460.95,
"percentile_99.9": 2523.35
}
}
"""
    parsed = parse_perftest(text)
    assert parsed["json"][0]["valid"] is False
    assert parsed["tool"] == "ib_write_lat"
    assert parsed["rows"][0]["latency_stdev_us"] is None
    assert parsed["rows"][0]["latency_p999_us"] == 2523.35


def test_several_runs_in_one_text() -> None:
    server = RUNS["629-2n-all-gbits"]["server"]["stdout"]
    client = RUNS["629-2n-all-gbits"]["client"]["stdout"]
    parsed = parse_perftest(client + server)
    assert parsed["role"] == "both"
    assert [run["role"] for run in parsed["runs"]] == ["client", "server"]
    assert [row["run"] for row in parsed["rows"]] == [1] * 23 + [2]
    assert parsed["completeness"] == "complete"
    parsed = parse_perftest(client * 3)
    assert len(parsed["rows"]) == 69
    assert parsed["role"] == "client"
    cut = parse_perftest(client + client[: len(client) // 2])
    assert cut["completeness"] == "partial"


def test_merged_streams() -> None:
    end = RUNS["606-f-cpufreq"]["client"]
    merged = end["stderr"] + end["stdout"]
    parsed = parse_perftest(merged)
    assert len(parsed["rows"]) == 1
    assert any("Conflicting CPU" in w for w in parsed["warnings"])
    assert parsed["errors"] == []


def test_usage_is_not_an_error_text() -> None:
    end = RUNS["606-f-unknown-option"]["client"]
    parsed = parse_perftest(end["stdout"], end["stderr"], end["rc"])
    assert "unrecognized option '--no_such_option'" in parsed["errors"][0]
    assert parsed["errors"][1:] == ["Invalid Command or flag.", "Parser function exited with Error"]
    assert parsed["completeness"] == "none"
    assert parsed["runs"] == []


def test_nothing() -> None:
    parsed = parse_perftest("")
    assert parsed["completeness"] == "none"
    assert parsed["completeness_reason"] == "there is no output"
    assert parsed["memory"]["kind"] is None
    assert parsed["role"] is parsed["tool"] is parsed["version"] is None
    assert parse_perftest("Version: 6.06\n")["version"] == "6.06"
    silent = parse_perftest(RUNS["606-read-lat"]["server"]["stdout"])
    assert silent["completeness_reason"] == "the server of this test prints no table"


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ((None,), {}),
        ((b"bytes",), {}),
        ((["line"],), {}),
        (("", None), {}),
        (("", "", "0"), {}),
        (("", "", True), {}),
        (("",), {"out_json": None}),
        (("",), {"command": 5}),
    ],
)
def test_wrong_types(arguments: tuple, keywords: dict) -> None:
    with pytest.raises(PerftestParseError, match="must be"):
        parse_perftest(*arguments, **keywords)


HOSTILE = {
    "empty lines": "\n",
    "short lines": "abc\n",
    "one line": "a",
    "digits": "9",
    "escapes": "\x1b[31",
    "escape starts": "\x1b]",
    "headers": GBITS + "\n",
    "rows": ROW + "\n",
    "half rows": " 2 3\n",
    "rows in one line": ROW,
    "json": "{ test_info: {\n",
    "braces": '{"test_info',
    "gids": " GID: 00:00\n",
    "addresses": " local address: LID 0000 QPN 0x1\n",
    "titles": " RDMA_Write BW Test\n",
    "half titles": "RDMA_Write ",
    "servers": "* Waiting for client to connect... *\n",
    "errors": "error one\n",
    "prompts": "$ ib_write_bw 'a\n",
    "parameters": " Mtu : 1 Mtu : 2\n",
    "gpu": "GPU dev = ibv_reg_\n",
    "columns": "#bytes a a a a[b]",
    "returns": "\r",
    "control": "\x00\x01",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_linear_time(name: str) -> None:
    unit = HOSTILE[name]
    text = table(GBITS, ROW) + unit * ((1 << 20) // len(unit))
    for arguments in ((text, ""), ("", text)):
        best = 10.0
        for _attempt in range(3):  # the machine may be busy with other things
            start = time.process_time()
            parse_perftest(*arguments)
            best = min(best, time.process_time() - start)
            if best < 1:
                break
        assert best < 1, f"{name}: {best:.2f} s for 1 MiB"


def test_captures_are_read_as_one_would_by_eye() -> None:
    assert printed_rows(table(GBITS, ROW)) == ["65536 5000 392.38 392.34 0.748336"]
