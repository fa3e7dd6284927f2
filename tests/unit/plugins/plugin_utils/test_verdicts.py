"""Verdicts of links, nodes and tests. The texts are shortened to the lines that count; real ones are tested in test_perftest."""

from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import commands, verdicts, words
from ansible_collections.k8si.fabric.plugins.plugin_utils.settings import make_settings

from .engine_data import VARIABLES, endpoint, link

ONE_SIZE = make_settings({**VARIABLES, "sizes": 65536}, "rdma_test_")
LINK = {"id": "n2/0 -> n1/0", "rail": 0, "server": "n1/0", "client": "n2/0", "round": 1}
RULE = "-" * 87


def printed(local: str, remote: str, gbps: float, size: int = 65536, server: bool = False) -> str:
    """What perftest 6.29 prints for one size: the message rate obeys the law bytes x rate x 8."""

    def gid(last: str) -> str:
        return f" GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:168:04:{int(last):02d}"

    rate = gbps * 1e9 / 8 / size / 1e6
    waiting = ["", "*" * 36, "* Waiting for client to connect... *", "*" * 36] if server else []
    return "\n".join(
        [
            *waiting,
            RULE,
            "                    RDMA_Write BW Test",
            " Dual-port       : OFF\t\tDevice         : mlx5_2",
            " Number of qps   : 1\t\tTransport type : IB",
            " Connection type : RC\t\tUsing SRQ      : OFF",
            " Mtu             : 4096[B]",
            " Link type       : Ethernet",
            " rdma_cm QPs\t : ON",
            RULE,
            " local address: LID 0000 QPN 0x0017 PSN 0x99eb8b",
            gid(local),
            " remote address: LID 0000 QPN 0x001d PSN 0xbaac1c",
            gid(remote),
            RULE,
            " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
            f" {size:<7}    {5000:<10}       {gbps:<7.2f}            {gbps:<7.2f}\t\t     {rate:<7.6f}",
            RULE,
            "",
        ]
    )


def runs(client_text: str, server_text: str, **client) -> list[dict]:
    server_item, client_item = commands.round_items([LINK], [endpoint(1), endpoint(2)], ONE_SIZE)
    base = {
        "rc": 0,
        "outcome": "completed",
        "reason": "exit_code",
        "message": "",
        "stderr": "",
        "duration_s": 1.0,
    }
    return [
        {**base, "id": server_item["id"], "command": server_item["command"], "stdout": server_text},
        {
            **base,
            "id": client_item["id"],
            "command": client_item["command"],
            "stdout": client_text,
            **client,
        },
    ]


def judge(gbps: float, settings=None, ends=None, local="2", remote="1", **client) -> dict:
    results = runs(
        printed(local, remote, gbps), printed(remote, local, gbps, server=True), **client
    )
    return verdicts.judge_round(
        [LINK], results, ends or [endpoint(1), endpoint(2)], settings or ONE_SIZE
    )[0]


def test_passed():
    judged = judge(392.4)
    assert (judged["verdict"], judged["code"], judged["finding"]) == ("passed", None, None)
    assert judged["bandwidth_average_gbps"] == 392.4 and judged["bytes"] == 65536
    assert judged["threshold_gbps"] == 360.0 and judged["line_rate_gbps"] == 400.0
    assert judged["outputs"]["client"]["command"][-1] == "192.168.4.1"


def test_slow_is_measured_and_says_figure_and_threshold():
    judged = judge(211.0)
    assert (judged["verdict"], judged["code"]) == ("slow", "slow_link")
    assert judged["bandwidth_average_gbps"] == 211.0
    assert "211 Gb/s on average at best (messages of 65536 bytes)" in judged["finding"]["seen"]
    assert "required 360 Gb/s (90 % of the line rate 400 Gb/s)" in judged["finding"]["seen"]


def test_the_slower_ends_line_rate_counts():
    ends = [endpoint(1, line_rate_gbps=200.0), endpoint(2)]
    judged = judge(190.0, ends=ends)
    assert judged["verdict"] == "passed" and judged["threshold_gbps"] == 180.0


def test_an_absolute_threshold_takes_the_place():
    settings = {**ONE_SIZE, "threshold_gbps": 100}
    ends = [endpoint(1, line_rate_gbps=None), endpoint(2, line_rate_gbps=None)]
    assert judge(120.0, settings, ends)["verdict"] == "passed"
    assert judge(90.0, settings, ends)["verdict"] == "slow"


def test_no_line_rate_and_no_threshold_is_no_pass():
    judged = judge(392.4, ends=[endpoint(1, line_rate_gbps=None), endpoint(2)])
    assert (judged["verdict"], judged["code"]) == ("failed", "no_line_rate")


def test_a_run_over_another_rail_is_no_result():
    judged = judge(392.4, local="52", remote="51")
    assert (judged["verdict"], judged["code"]) == ("failed", "wrong_path")
    assert "GID ::ffff:192.168.4.52, expected ::ffff:192.168.4.2" in judged["finding"]["seen"]


def test_loopback_is_no_result():
    assert judge(392.4, local="1", remote="1")["code"] == "wrong_path"


def test_without_addresses_the_path_is_not_proven():
    text = "\n".join(t for t in printed("2", "1", 392.4).splitlines() if "GID:" not in t)
    text = "\n".join(t for t in text.splitlines() if "address:" not in t)
    results = runs(text, printed("1", "2", 392.4, server=True))
    judged = verdicts.judge_round([LINK], results, [endpoint(1), endpoint(2)], ONE_SIZE)[0]
    assert (judged["verdict"], judged["code"]) == ("failed", "wrong_path")
    assert "not proven" in judged["finding"]["seen"]


def test_infiniband_paths_are_compared_by_lid():
    ends = [endpoint(n, link_layer="InfiniBand", lid=16 + n, gid="") for n in (1, 2)]
    text = printed("2", "1", 392.4).replace("local address: LID 0000", "local address: LID 0x12")
    text = text.replace("remote address: LID 0000", "remote address: LID 0x11")
    other = printed("1", "2", 392.4, server=True).replace(
        "local address: LID 0000", "local address: LID 0x11"
    )
    other = other.replace("remote address: LID 0000", "remote address: LID 0x12")
    assert verdicts.judge_round([LINK], runs(text, other), ends, ONE_SIZE)[0]["verdict"] == "passed"
    ends[0]["lid"] = 99
    judged = verdicts.judge_round([LINK], runs(text, other), ends, ONE_SIZE)[0]
    assert judged["code"] == "wrong_path" and "LID 17, expected 99" in judged["finding"]["seen"]


def test_a_run_that_failed_keeps_both_outputs():
    error = "Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n"
    judged = judge(392.4, rc=1, stdout="", stderr=error)
    assert judged["verdict"] == "failed" and judged["bandwidth_average_gbps"] is None
    assert (
        judged["finding"]["where"]["client"] == "n2"
        and judged["finding"]["where"]["server"] == "n1"
    )
    assert judged["outputs"]["client"]["stderr"] == error
    assert "Waiting for client" in judged["outputs"]["server"]["stdout"]


def test_exit_status_zero_with_no_row_is_no_pass():
    assert judge(392.4, stdout="")["verdict"] == "failed"


def test_both_ways_at_once_doubles_the_threshold():
    limit = verdicts.threshold(endpoint(1), endpoint(2), {**ONE_SIZE, "bidirectional": True})
    assert limit["gbps"] == 720.0 and "twice the line rate" in limit["words"]


# ---- who is to blame


def blame(links):
    return [
        (f["localisation"], f["where"].get("node") or f["where"].get("nodes"))
        for f in verdicts.localise(links)
    ]


GOOD = [link(a, b) for a, b in ((3, 4), (4, 3), (5, 6), (6, 5))]


def test_a_node_that_fails_with_two_partners():
    links = [link(1, 2, "slow", gbps=200.0), link(2, 1, "slow", gbps=210.0), *GOOD]
    links += [
        link(3, 2, "slow", gbps=205.0),
        link(2, 3, "slow", gbps=204.0),
        link(4, 1),
        link(1, 4),
    ]
    found = verdicts.localise(links)
    assert [(f["localisation"], f["where"]["node"]) for f in found] == [("bad_node", "n2")]
    assert "no link to any of 2 partners passed" in found[0]["seen"]
    assert "200.0 Gb/s" in found[0]["seen"] and len(found[0]["links"]) == 4


def test_two_nodes_alone_cannot_tell():
    links = [link(1, 2, "slow"), link(2, 1, "slow")]
    assert blame(links) == [("not_enough_evidence", ["n1", "n2"])]


def test_one_direction():
    assert blame([link(1, 2, "slow"), link(2, 1)]) == [("one_way", ["n1", "n2"])]


def test_a_path_between_two_good_nodes():
    links = [link(1, 2, "failed"), link(2, 1, "failed"), *GOOD]
    links += [link(3, 1), link(1, 3), link(4, 2), link(2, 4)]
    assert blame(links) == [("bad_path", ["n1", "n2"])]


def test_everything():
    links = [link(a, b, "slow") for a, b in ((1, 2), (2, 1), (3, 4), (4, 3))]
    assert blame(links) == [("fabric_wide", None)]


def test_two_bad_nodes_that_met_each_other():
    links = [link(1, 2, "slow"), link(2, 1, "slow"), *GOOD]
    links += [link(3, 1, "slow"), link(1, 3, "slow"), link(4, 2, "slow"), link(2, 4, "slow")]
    assert blame(links) == [("bad_node", "n1"), ("bad_node", "n2")]


def test_a_failed_link_weighs_more_than_a_slow_one():
    links = [link(1, 2, "slow"), link(2, 1, "failed")]
    assert verdicts.localise(links)[0]["code"] == "completion_error"


def test_nothing_to_blame():
    assert verdicts.localise(GOOD) == []


def test_one_of_two_rails_of_a_node_is_its_port():
    links = [link(a, b, rail=r) for r in (0, 1) for a, b in ((3, 4), (4, 3), (1, 3), (3, 1))]
    links += [link(1, 2), link(2, 1)]
    links += [link(a, b, "slow", rail=1) for a, b in ((1, 2), (2, 1), (3, 2), (2, 3))]
    (found,) = verdicts.localise(links)
    assert found["localisation"] == "bad_port" and found["where"] == {"node": "n2", "rail": 1}
    assert "other rails of the node do" in found["seen"]


def test_all_rails_of_a_node_are_the_node():
    links = [link(a, b, rail=r) for r in (0, 1) for a, b in ((3, 4), (4, 3), (1, 3), (3, 1))]
    links += [
        link(a, b, "slow", rail=r) for r in (0, 1) for a, b in ((1, 2), (2, 1), (3, 2), (2, 3))
    ]
    (found,) = verdicts.localise(links)
    assert found["localisation"] == "bad_node" and found["where"] == {"node": "n2"}
    assert len(found["links"]) == 8


def test_a_port_that_is_bad_in_one_role():
    links = [*GOOD, link(1, 2, "slow"), link(2, 1), link(3, 2, "slow"), link(2, 3)]
    links += [link(1, 4), link(4, 1)]
    (found,) = verdicts.localise(links)
    assert found["localisation"] == "one_way"
    assert found["where"] == {"node": "n2", "rail": 0, "role": "client"}


def test_one_rail_of_two():
    links = [link(a, b) for a, b in ((1, 2), (2, 1), (3, 4), (4, 3))]
    links += [link(a, b, "slow", rail=1) for a, b in ((1, 2), (2, 1), (3, 4), (4, 3))]
    (found,) = verdicts.localise(links)
    assert (found["localisation"], found["where"]) == ("rail_wide", {"rail": 1})


def test_both_rails():
    links = [link(a, b, "slow", rail=r) for r in (0, 1) for a, b in ((1, 2), (2, 1), (3, 4))]
    (found,) = verdicts.localise(links)
    assert (found["localisation"], found["where"]) == ("fabric_wide", {"rails": [0, 1]})


def test_across_rails_nothing_passes():
    links = [link(a, b, rail=r) for r in (0, 1) for a, b in ((1, 2), (2, 1), (3, 4), (4, 3))]
    across = [link(1, 2, "failed"), link(3, 4, "failed")]
    links += [{**k, "client": k["client"][:-1] + "1", "client_rail": 1} for k in across]
    (found,) = verdicts.localise(links)
    assert found["localisation"] == "rail_wide"
    assert found["where"] == {"rail": 0, "client_rail": 1}
    assert "from rail 1 to rail 0" in found["seen"]


def test_a_failure_that_does_not_come_again_blames_nobody():
    links = [*GOOD, link(1, 2, "slow"), link(2, 1), link(3, 1, wave=1), link(1, 3, wave=1)]
    links += [link(4, 2, wave=1), link(2, 4, wave=1), link(1, 2, wave=2), link(2, 1, wave=2)]
    (found,) = verdicts.localise(links)
    assert found["localisation"] == "not_enough_evidence"
    assert "passed when it was repeated" in found["seen"]


# ---- other measurements and thresholds

LATENCY = make_settings({**VARIABLES, "tool": "ib_send_lat", "threshold_us": 3}, "rdma_test_")


@pytest.mark.parametrize(("limit", "verdict"), [(3, "passed"), (2, "slow")])
def test_latency(limit, verdict):
    rows = [
        {"bytes": 2, "latency_average_us": 2.5, "latency_p99_us": 3.1},
        {"bytes": 4096, "latency_average_us": 9.0, "latency_p99_us": 12.0},
        {"bytes": 8, "latency_average_us": None, "latency_p99_us": None},
    ]
    quickest = verdicts._quickest(rows)
    assert quickest["bytes"] == 2
    limits = verdicts._limits(endpoint(1), endpoint(2), {**LATENCY, "threshold_us": limit}, "l")
    found, finding = verdicts._judge_latency(quickest, limits)
    assert found == verdict
    if verdict == "slow":
        assert finding["code"] == "high_latency"
        assert "2.5 µs on average at best (messages of 2 bytes); required 2 µs" in finding["seen"]


def test_a_latency_that_is_no_number_is_no_pass():
    row = {"bytes": 2, "latency_average_us": None}
    verdict, finding = verdicts._judge_latency(verdicts._quickest([row]), [])
    assert (verdict, finding["code"]) == ("failed", "no_result")


def test_gpu_memory_against_the_same_link_in_host_memory():
    settings = {**ONE_SIZE, "threshold_host_percent": 95, "host_gbps": {"l": 392.0}}
    limit = verdicts.threshold(endpoint(1), endpoint(2), settings, "l")
    assert limit["gbps"] == 372.4 and "same link in host memory" in limit["words"]
    # the other threshold is more, or there is no figure of this link
    assert (
        verdicts.threshold(
            endpoint(1), endpoint(2), {**settings, "threshold_host_percent": 50}, "l"
        )["gbps"]
        == 360.0
    )
    assert verdicts.threshold(endpoint(1), endpoint(2), settings, "m")["gbps"] == 360.0
    none = verdicts.threshold(endpoint(1), endpoint(2), {**settings, "threshold_percent": 0}, "m")
    assert none["gbps"] is None and "no figure" in none["words"]


BASELINE = {"run": "r0", "started": "2026-01-08T09:00:00Z", "tolerance_percent": 5}


@pytest.mark.parametrize(
    ("gbps", "figures", "verdict", "code", "required"),
    [
        (372.4, {LINK["id"]: 392.0}, "passed", None, 372.4),
        (372.3, {LINK["id"]: 392.0}, "slow", "regression", 372.4),
        (372.3, {"another -> one": 392.0}, "passed", None, 360.0),
        (359.9, {LINK["id"]: 392.0}, "slow", "slow_link", 372.4),
        (359.9, {LINK["id"]: 200.0}, "slow", "slow_link", 360.0),
    ],
)
def test_a_link_against_its_own_earlier_figure(gbps, figures, verdict, code, required):
    judged = judge(gbps, {**ONE_SIZE, "baseline": {**BASELINE, "figures": figures}})
    assert (judged["verdict"], judged["code"], judged["threshold_gbps"]) == (
        verdict,
        code,
        required,
    )
    if code == "regression":
        assert (
            "372.3 Gb/s on average at best (messages of 65536 bytes); required 372.4 Gb/s"
            " (95 % of 392 Gb/s, the same link in run r0 of 2026-01-08T09:00:00Z)"
        ) in judged["finding"]["seen"]


@pytest.mark.parametrize(
    ("latency", "code"), [(2.6, None), (2.7, "regression"), (3.1, "high_latency")]
)
def test_a_latency_against_its_own_earlier_figure(latency, code):
    settings = {**LATENCY, "baseline": {**BASELINE, "figures": {"l": 2.5}}}
    limits = verdicts._limits(endpoint(1), endpoint(2), settings, "l")
    _verdict, finding = verdicts._judge_latency({"bytes": 2, "latency_average_us": latency}, limits)
    assert (finding or {}).get("code") == code
    if code == "regression":
        assert (
            "required 2.62 µs at most (105 % of 2.5 µs, the same link in run r0" in finding["seen"]
        )


# ---- the whole test

STATE = {
    "nodes": ["n1", "n2"],
    "skipped": [],
    "endpoints": [],
    "rounds": 2,
    "findings": [],
    "notes": [],
    "left_behind": [],
    "check_mode": False,
    "started": "2026-01-15T09:00:00Z",
    "ended": "2026-01-15T09:00:09Z",
}


def conclude(links, **state):
    return verdicts.conclude({**STATE, "links": links, **state}, ONE_SIZE)


def test_a_test_passes_only_with_links_that_all_passed():
    result = conclude([link(1, 2, gbps=390.0), link(2, 1, gbps=380.0)])
    assert result["passed"] and result["verdict"] == "passed" and result["reason"] is None
    assert (result["best_gbps"], result["worst_gbps"]) == (390.0, 380.0)


@pytest.mark.parametrize(
    ("links", "state", "verdict", "reason"),
    [
        ([], {}, "failed", "nothing_measured"),
        ([], {"check_mode": True}, "skipped", "nothing_measured"),
        ([link(1, 2, "slow")], {}, "slow", "slow_link"),
        ([link(1, 2, "failed")], {}, "failed", "completion_error"),
        ([link(1, 2)], {"left_behind": ["p"]}, "failed", "pods_left_behind"),
    ],
)
def test_everything_else_does_not(links, state, verdict, reason):
    result = conclude(links, **state)
    assert not result["passed"] and (result["verdict"], result["reason"]) == (verdict, reason)


def test_a_finding_about_a_pod_is_a_failure_even_if_all_links_passed():
    finding = verdicts.failed_task_finding({"msg": "Forbidden"}, "pods | Create")
    result = conclude([link(1, 2)], findings=[finding])
    assert result["verdict"] == "failed" and result["reason"] == "task_failed"
    assert "Forbidden" in words.explain_result(result)


def test_words_name_figure_cause_and_remedy():
    text = words.explain_result(
        conclude([link(1, 2, "slow", gbps=200.0), link(2, 1, "slow", gbps=201.0)])
    )
    assert "RDMA, host memory: slow (slow_link)" in text
    assert "nodes n1 and n2" in text and "200.0 Gb/s" in text
    assert "cause:  c" in text and "remedy: r" in text


def test_the_summary_never_calls_a_skipped_test_fit():
    passed = conclude([link(1, 2)])
    skipped = verdicts.skipped_result("gpudirect", "cuda", "host_test_not_passed", "not tested: x")
    assert words.answer(None, [passed])[0] == "fit"
    assert words.answer(None, [passed, skipped])[0] == "not_fit"
    assert words.answer(None, [skipped])[0] == "not_fit"
    assert "NOT FIT" in words.summary(None, [passed, skipped])[-1]
