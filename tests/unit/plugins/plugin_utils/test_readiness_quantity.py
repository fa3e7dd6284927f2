from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_quantity import (
    adapter_generation,
    count,
    version_tuple,
)
from hypothesis import given
from hypothesis import strategies as st


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
