from __future__ import annotations

from fractions import Fraction

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_quantity import (
    adapter_generation,
    count,
    parse_quantity,
    version_tuple,
)
from hypothesis import given
from hypothesis import strategies as st


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
def test_quantity(text, value):
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", "k", "1kk", "1 k", "1K", "one", "1e", None, True, [], "1e9999"]
)
def test_no_quantity(text):
    with pytest.raises(ValueError, match="no Kubernetes quantity"):
        parse_quantity(text)


@given(st.integers(min_value=0, max_value=10**6))
def test_canonical_thousands_are_counted(number):
    text = f"{number // 1000}k" if number and number % 1000 == 0 else str(number)
    assert count(text) == number


def test_count_of_nothing_and_of_parts():
    assert (count(None), count("999m"), count("1k")) == (0, 0, 1000)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("v1.32.4+k3s1", (1, 32, 4)),
        ("6.8.0-60-generic", (6, 8, 0)),
        ("580.95.05", (580, 95, 5)),
        ("5.14.0-427.el9", (5, 14, 0)),
        ("", ()),
        (None, ()),
        ("unknown", ()),
    ],
)
def test_version(text, value):
    assert version_tuple(text) == value


def test_adapters():
    assert adapter_generation("1021") == ("ConnectX-7", 7)
    assert adapter_generation("0x101D") == ("ConnectX-6 Dx", 6)
    assert adapter_generation("ffff") is None
