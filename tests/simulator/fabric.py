"""A model of the fabric: how fast data goes from one port to another, and what stands in its way.

Pure: no I/O, no clock. The same seed gives the same figures in the same order of questions.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Port:
    """One RDMA port of a node; rail None is the NIC that carries no rail (front end, storage)."""

    node: str
    rail: int | None = 0


# A factor for data that goes from one port to another; gpu says whether an end is in GPU memory.
Impairment = Callable[[Port, Port, bool], float]


@dataclass(frozen=True)
class Bandwidth:
    """One row of a bandwidth test. Gb/s is 10^9 bit/s, the rate is in 10^6 messages a second."""

    peak_gbps: float
    average_gbps: float
    message_rate_mpps: float
    seconds: float


@dataclass(frozen=True)
class Latency:
    """One row of a latency test, in microseconds."""

    minimum: float
    maximum: float
    typical: float
    average: float
    stdev: float
    p99: float
    p999: float


class PathBroken(Exception):
    """Messages of this size do not get through (larger than what the path carries, or no path at all)."""


@dataclass
class Fabric:
    """Line rates, message rates and impairments.

    line_rate_gbps: of a rail; frontend_gbps: of the NIC beside the rails.
    efficiency: the share of the line rate that large messages reach.
    message_rate_mpps: of one queue pair with small messages.
    gpu_efficiency: what is left of the host's bandwidth when an end is in GPU memory.
    """

    seed: int = 1
    line_rate_gbps: float = 400.0
    frontend_gbps: float = 100.0
    efficiency: float = 0.98
    noise: float = 0.005
    message_rate_mpps: float = 4.6
    gpu_efficiency: float = 0.975
    base_latency_us: float = 1.85
    active_mtu: int = 4096
    infiniband: bool = False
    _impairments: dict[str, Impairment] = field(default_factory=dict)
    _path_mtu: dict[str, int] = field(default_factory=dict)
    _down: set[Port] = field(default_factory=set)
    _flows: dict[tuple[str, Port], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    # ---- faults
    def impair(self, name: str, impairment: Impairment) -> None:
        """Adds a factor under a name, replacing the one that had it."""
        self._impairments[name] = impairment

    def mend(self) -> None:
        """Takes all impairments away."""
        self._impairments.clear()
        self._path_mtu.clear()
        self._down.clear()

    def limit_mtu(self, node: str, mtu: int) -> None:
        """Packets with more payload than this are lost on the way to and from a node."""
        self._path_mtu[node] = mtu

    def bring_down(self, port: Port) -> None:
        """A port goes down."""
        self._down.add(port)

    def is_down(self, port: Port) -> bool:
        """Whether a port is down."""
        return port in self._down or Port(port.node, -1) in self._down

    # ---- figures
    def line_rate(self, port: Port) -> float:
        """The nominal rate of a port in Gb/s."""
        return self.frontend_gbps if port.rail is None else self.line_rate_gbps

    def carries(self, source: Port, sink: Port, size: int) -> bool:
        """Whether messages of this size get from one port to the other."""
        if self.is_down(source) or self.is_down(sink) or source.rail != sink.rail:
            return False
        limits = [self._path_mtu[p.node] for p in (source, sink) if p.node in self._path_mtu]
        return min(size, self.active_mtu) <= min(limits, default=self.active_mtu)

    def _ceiling_back(self, there: Port, here: Port, gpu: bool) -> float:
        """The ceiling of the way back."""
        return self.ceiling(here, there, gpu)

    def ceiling(self, source: Port, sink: Port, gpu: bool = False) -> float:
        """What a stream of large messages reaches now, without noise, in Gb/s."""
        rate = min(self.line_rate(source), self.line_rate(sink)) * self.efficiency
        if gpu:
            rate *= self.gpu_efficiency
        for impairment in self._impairments.values():
            rate *= impairment(source, sink, gpu)
        sharing = max(self._flows.get(("out", source), 1), self._flows.get(("in", sink), 1), 1)
        return rate / sharing

    def bandwidth(
        self,
        source: Port,
        sink: Port,
        size: int,
        *,
        iterations: int = 5000,
        queue_pairs: int = 1,
        gpu: bool = False,
        seconds: float | None = None,
        both_ways: bool = False,
    ) -> Bandwidth:
        """One row: messages of `size` bytes from source to sink, `iterations` a queue pair or for so many seconds.

        Raises PathBroken when they do not get through.
        """
        if not self.carries(source, sink, size):
            raise PathBroken
        rate = self.ceiling(source, sink, gpu)
        packets = self.message_rate_mpps * min(queue_pairs, 4) ** 0.8
        average = _soft_minimum(rate, packets * size * 8e-3) * self._jitter()
        if both_ways:
            back = _soft_minimum(self._ceiling_back(source, sink, gpu), packets * size * 8e-3)
            average += back * self._jitter()
        peak = min(
            average * (1 + abs(self._random.gauss(0, self.noise))),
            rate * (2 if both_ways else 1) * 1.002,
        )
        peak = max(peak, average)
        bits = size * 8.0 * iterations * queue_pairs * (2 if both_ways else 1)
        took = seconds if seconds is not None else bits / (average * 1e9)
        return Bandwidth(peak, average, average / (size * 8e-3), took)

    def latency(
        self, source: Port, sink: Port, size: int, *, gpu: bool = False, factor: float = 1.0
    ) -> Latency:
        """One row of a latency test (half the round trip; factor 2 for a read or an atomic)."""
        if not self.carries(source, sink, size):
            raise PathBroken
        wire = size * 8e-3 / max(self.ceiling(source, sink, gpu), 1e-9)
        slow = self.line_rate(source) * self.efficiency / max(self.ceiling(source, sink, gpu), 1e-9)
        typical = (self.base_latency_us * max(1.0, slow**0.5) + wire + (0.9 if gpu else 0)) * factor
        typical *= self._jitter()
        spread = abs(self._random.gauss(0.04, 0.01))
        return Latency(
            minimum=typical * 0.96,
            maximum=typical * (2.5 + self._random.random()),
            typical=typical,
            average=typical * 1.01,
            stdev=typical * spread,
            p99=typical * (1.08 + spread),
            p999=typical * (1.4 + spread),
        )

    def _jitter(self) -> float:
        return max(0.5, self._random.gauss(1.0, self.noise))

    # ---- streams that share a port
    def begin(self, source: Port, sink: Port) -> None:
        """A stream starts: from now on it shares both ports with the others."""
        for key in (("out", source), ("in", sink)):
            self._flows[key] = self._flows.get(key, 0) + 1

    def end(self, source: Port, sink: Port) -> None:
        """A stream ends."""
        for key in (("out", source), ("in", sink)):
            self._flows[key] = max(0, self._flows.get(key, 0) - 1)

    # ---- ready-made impairments
    def slow_node(self, name: str, node: str, factor: float) -> None:
        """All paths of a node."""
        self.impair(name, lambda a, b, _gpu: factor if node in (a.node, b.node) else 1.0)

    def slow_port(self, name: str, port: Port, factor: float) -> None:
        """All paths of a port."""
        self.impair(name, lambda a, b, _gpu: factor if port in (a, b) else 1.0)

    def slow_path(self, name: str, source: str, sink: str, factor: float) -> None:
        """One path, one way."""
        self.impair(name, lambda a, b, _gpu: factor if (a.node, b.node) == (source, sink) else 1.0)

    def slow_gpu(self, name: str, node: str, factor: float) -> None:
        """All paths of a node, for GPU memory alone."""
        self.impair(name, lambda a, b, gpu: factor if gpu and node in (a.node, b.node) else 1.0)


def _soft_minimum(a: float, b: float) -> float:
    """The smaller of two limits, with the rounded shoulder that a curve over message sizes has."""
    power = 3.0
    return float((a**-power + b**-power) ** (-1 / power))
