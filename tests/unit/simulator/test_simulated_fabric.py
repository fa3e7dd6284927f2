"""The model of the fabric, by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.fabric import Fabric, PathBroken, Port

A, B, C = Port("a"), Port("b"), Port("c")
BIG = 1 << 20


def test_same_seed_same_figures():
    one, two = Fabric(seed=5), Fabric(seed=5)
    assert [one.bandwidth(A, B, 2**i) for i in range(1, 24)] == [
        two.bandwidth(A, B, 2**i) for i in range(1, 24)
    ]
    assert Fabric(seed=6).bandwidth(A, B, BIG) != Fabric(seed=5).bandwidth(A, B, BIG)


@given(st.integers(1, 23), st.integers(0, 1000))
def test_never_above_the_line_rate_and_peak_never_below_average(power, seed):
    row = Fabric(seed=seed).bandwidth(A, B, 2**power)
    assert 0 < row.average_gbps <= row.peak_gbps <= 400
    assert row.message_rate_mpps * 2**power * 8e-3 == pytest.approx(row.average_gbps)


def test_curve_over_sizes():
    fabric = Fabric(noise=0)
    averages = [fabric.bandwidth(A, B, 2**i).average_gbps for i in range(1, 24)]
    assert averages == sorted(averages)
    assert averages[0] < 0.1
    assert averages[15] == pytest.approx(392, rel=0.01)
    small = fabric.bandwidth(A, B, 64)
    assert small.message_rate_mpps == pytest.approx(fabric.message_rate_mpps, rel=0.01)


def test_impairments_hit_what_they_are_meant_for():
    fabric = Fabric(noise=0)
    full = fabric.ceiling(A, B)
    fabric.slow_node("n", "b", 0.5)
    assert fabric.ceiling(A, B) == fabric.ceiling(B, A) == full / 2
    assert fabric.ceiling(A, C) == full
    fabric.mend()
    fabric.slow_path("p", "a", "b", 0.25)
    assert (fabric.ceiling(A, B), fabric.ceiling(B, A)) == (full / 4, full)
    fabric.mend()
    fabric.slow_port("q", Port("b", 1), 0.5)
    assert fabric.ceiling(A, B) == full
    assert fabric.ceiling(Port("a", 1), Port("b", 1)) == full / 2
    fabric.mend()
    fabric.slow_gpu("g", "b", 0.5)
    assert fabric.ceiling(A, B) == full
    assert fabric.ceiling(A, B, gpu=True) == pytest.approx(full * fabric.gpu_efficiency / 2)


def test_mtu_and_ports_that_are_down():
    fabric = Fabric()
    fabric.limit_mtu("b", 1024)
    assert fabric.carries(A, B, 1024)
    assert not fabric.carries(A, B, 2048)
    with pytest.raises(PathBroken):
        fabric.bandwidth(A, B, 4096)
    with pytest.raises(PathBroken):
        fabric.latency(B, A, 4096)
    assert fabric.carries(A, C, BIG)
    fabric.mend()
    fabric.bring_down(B)
    assert not fabric.carries(A, B, 2)
    assert not fabric.carries(Port("a", 1), B, 2)


def test_streams_share_a_port():
    fabric = Fabric(noise=0)
    alone = fabric.ceiling(A, C)
    fabric.begin(A, C)
    assert fabric.ceiling(A, C) == alone
    fabric.begin(B, C)
    assert fabric.ceiling(A, C) == alone / 2
    fabric.end(B, C)
    assert fabric.ceiling(A, C) == alone


def test_both_ways_and_latency():
    fabric = Fabric(noise=0)
    assert fabric.bandwidth(A, B, BIG, both_ways=True).average_gbps == pytest.approx(
        2 * fabric.bandwidth(A, B, BIG).average_gbps, rel=0.01
    )
    row = fabric.latency(A, B, 2)
    assert row.minimum <= row.typical <= row.p99 <= row.p999 <= row.maximum
    assert fabric.latency(A, B, 2, factor=2.0).typical > row.typical
