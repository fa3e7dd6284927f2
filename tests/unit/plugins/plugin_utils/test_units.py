# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from fractions import Fraction

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import units


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("63", 63),
        ("0", 0),
        ("1k", 1000),
        ("1Ki", 1024),
        ("8Gi", 8 << 30),
        ("500m", 0.5),
        ("2000m", 2),
        ("1e3", 1000),
        ("1E", 10**18),
        ("1E3", 1000),
        ("1.5Gi", 1610612736),
        (".5", 0.5),
        ("-3", -3),
        (" 4 ", 4),
        (7, 7),
        (0.25, 0.25),
    ],
)
def test_quantity(text: str | int | float, number: float) -> None:
    assert units.quantity(text) == number
    assert isinstance(units.quantity(text), type(number))


@pytest.mark.parametrize(
    "text", ["", "k", "1K", "1kB", "one", "1 Gi", "1e", "0x10", None, True, [], "1" * 90]
)
def test_not_a_quantity(text: object) -> None:
    with pytest.raises(units.UnitError, match="quantity"):
        units.quantity(text)


def test_gbps_from_mib() -> None:
    assert units.gbps_from_mib_per_second(22292.76) == 187.005225
    assert units.gbps_from_mib_per_second(0.0) == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("63", 63),
        ("0", 0),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1500m", Fraction(3, 2)),
        ("2e3", 2000),
        ("2E3", 2000),
        ("1E", 10**18),
        ("-1", -1),
        ("+.5", Fraction(1, 2)),
        ("5.", 5),
        (8, 8),
        ("12345678901234567890Ei", 12345678901234567890 * 2**60),
    ],
)
def test_exact_quantity(text, value):
    assert units.exact_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "k", "1kk", "1 k", "1K", "one", "1e", None, True, [], "1e9999"]
)
def test_no_exact_quantity(text):
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        units.exact_quantity(text)


@pytest.mark.parametrize(
    ("text", "gbps", "lanes", "generation"),
    [
        ("400 Gb/sec (4X NDR)", 400, 4, "NDR"),
        ("2.5 Gb/sec (1X SDR)", 2.5, 1, "SDR"),
        ("100 Gb/sec (2X HDR)\n", 100, 2, "HDR"),
        ("25 Gb/sec (1X)", 25, 1, None),
        ("200 Gb/s", 200, None, None),
    ],
)
def test_line_rate(text: str, gbps: float, lanes: int | None, generation: str | None) -> None:
    assert units.line_rate(text) == {"gbps": gbps, "lanes": lanes, "generation": generation}
    assert units.line_rate_gbps(text) == gbps


@pytest.mark.parametrize("text", ["", "fast", "400", "400 MiB/sec", "-1 Gb/sec", None, 400])
def test_no_line_rate(text: object) -> None:
    with pytest.raises(units.UnitError, match="port rate"):
        units.line_rate(text)


@pytest.mark.parametrize(
    ("text", "size"), [("65536", 65536), ("64k", 65536), ("64 KiB", 65536), ("8M", 1 << 23), (2, 2)]
)
def test_size(text: str | int, size: int) -> None:
    assert units.size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "-1", "8T", None, -1, True, "1.5k"])
def test_no_size(text: object) -> None:
    with pytest.raises(units.UnitError, match="message size"):
        units.size_bytes(text)


def test_format_size() -> None:
    assert [units.format_size(n) for n in (2, 1024, 65536, 1 << 23, 1 << 30, 1000)] == [
        "2 B",
        "1 KiB",
        "64 KiB",
        "8 MiB",
        "1 GiB",
        "1000 B",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "00:00:00:00:00:00:00:00:00:00:255:255:10:09:00:01",  # perftest, decimal
        "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:09:00:01",  # the same in hex
        "0000:0000:0000:0000:0000:ffff:0a09:0001",  # sysfs
        "::ffff:a09:1",
        "::ffff:10.9.0.1",
        "10.9.0.1",
        "10.9.0.1/24",
    ],
)
def test_one_spelling_of_a_mapped_gid(text: str) -> None:
    assert units.canonical_gid(text) == "::ffff:10.9.0.1"


def test_gids() -> None:
    assert (
        units.canonical_gid("254:128:00:00:00:00:00:00:16:76:116:255:254:00:00:01")
        == "fe80::104c:74ff:fe00:1"
    )
    assert (
        units.canonical_gid("fe80:0000:0000:0000:104c:74ff:fe00:0001") == "fe80::104c:74ff:fe00:1"
    )
    assert units.canonical_gid("fe80::104c:74ff:fe00:1%net1") == "fe80::104c:74ff:fe00:1"
    assert units.is_zero_gid("00:" * 15 + "00")
    assert not units.is_zero_gid("10.0.0.1")
    for text in ("", "256:" * 15 + "1", "12:34", "nonsense", None):
        assert units.canonical_gid(text) is None
