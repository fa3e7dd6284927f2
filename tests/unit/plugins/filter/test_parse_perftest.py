# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.k8si.fabric.plugins.filter import diagnose_perftest, parse_perftest

PARSE = parse_perftest.FilterModule().filters()["parse_perftest"]
DIAGNOSE = diagnose_perftest.FilterModule().filters()["diagnose_perftest"]
RULE = "-" * 87
TABLE = f"""{RULE}
                    RDMA_Write BW Test
 TX depth        : 128
{RULE}
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             392.38             392.34 \t\t     0.748336
{RULE}
"""


def test_parse() -> None:
    result = PARSE(TABLE, "", 0)
    assert result["role"] == "client"
    assert result["rows"][0]["bandwidth_average_gbps"] == 392.34
    assert PARSE(TABLE, command="ib_write_bw 10.0.0.1")["tool"] == "ib_write_bw"


@pytest.mark.parametrize(
    "arguments",
    [(None,), ({"stdout": ""},), (TABLE, ["line"]), (TABLE, "", "0"), (TABLE, "", 0, 5)],
)
def test_parse_says_what_is_wrong(arguments: tuple) -> None:
    with pytest.raises(
        AnsibleFilterError, match=r"parse_perftest: \w+ must be .* Give it what the tool printed"
    ):
        PARSE(*arguments)


def test_every_field_of_the_result_is_documented() -> None:
    documented = yaml.safe_load(parse_perftest.RETURN)["_value"]["contains"]
    result = PARSE(TABLE, "", 0)
    assert set(result) == set(documented)
    assert set(result["rows"][0]) <= set(documented["rows"]["contains"])
    assert set(result["memory"]) == set(documented["memory"]["contains"])
    rejected = PARSE(TABLE.replace("392.34", "1.00"))["rejected"][0]
    assert set(rejected) == set(documented["rejected"]["contains"])
    documented = yaml.safe_load(diagnose_perftest.RETURN)["_value"]["contains"]
    judged = DIAGNOSE(
        {},
        {
            "stdout": "",
            "stderr": " Completion with error at client\n Failed status 12: wr_id 0\n",
            "rc": 1,
        },
    )
    assert set(judged) == set(documented)
    assert set(judged["finding"]) == set(documented["finding"]["contains"])


def test_diagnose() -> None:
    ended = {"stdout": "", "rc": 143, "outcome": "ended"}
    good = DIAGNOSE(ended, {"stdout": TABLE, "rc": 0})
    assert good["measured"]
    assert good["best"] == {"bytes": 65536, "bandwidth_average_gbps": 392.34}
    assert DIAGNOSE({}, TABLE)["finding"] is not None
    assert (
        DIAGNOSE(None, {"stderr": "Couldn't allocate MR\n", "rc": 1})["finding"]["code"]
        == "memlock"
    )
    gpu = DIAGNOSE(
        None, {"stderr": "Couldn't allocate MR\n", "rc": 1}, memory="cuda", host_passed=True
    )
    assert gpu["finding"]["code"] == "mr_gpu"
    assert (
        DIAGNOSE(ended, {"stdout": TABLE, "rc": 0}, expected_sizes=[2])["finding"]["code"]
        == "incomplete_sizes"
    )


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((5, {}), {}, "result of the server must be a dictionary"),
        (({}, ["a"]), {}, "result of the client must be a dictionary"),
        (({}, {"rc": "0"}), {}, "rc of the client must be a whole number"),
        (({}, {}), {"memory": "gpu"}, "memory must be host or cuda"),
        (({}, {}), {"expected_sizes": "all"}, "expected_sizes must be a list"),
        (({}, {}), {"expected_sizes": [0]}, "expected_sizes must be a list"),
    ],
)
def test_diagnose_says_what_is_wrong(arguments: tuple, keywords: dict, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        DIAGNOSE(*arguments, **keywords)
