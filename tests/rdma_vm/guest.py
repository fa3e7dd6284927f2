"""What tests use: nodes with RDMA devices, in one guest or in one guest each."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Self

from . import image as images
from . import machine, snapshot
from .cache import default_cache
from .machine import DEFAULT_LIFETIME_S, Keeper, Machine
from .node import Node, pod_address, rails_of_group_node, rails_of_guest_node
from .shape import MAX_NODES, MAX_RAILS, Shape

MAX_GUESTS = 8


class _Fabric:
    """Running machines with nodes in them; a context manager. Made by Guest and GuestGroup only."""

    nodes: list[Node]

    def __init__(
        self, shape: Shape, guests: int, cache: Path | None, lifetime_s: float, detached: bool
    ):
        self.cache = (cache or default_cache()).absolute()
        self.image = images.ensure(self.cache)
        self.shape = snapshot.working_shape(shape, self.image, self.cache)
        states = [
            snapshot.ensure(self.shape, self.image, self.cache, index) for index in range(guests)
        ]
        began = time.monotonic()
        self._keeper, self._machines = machine.start(
            self.shape, self.image, states, lifetime_s=lifetime_s, detached=detached
        )
        self.restore_s = time.monotonic() - began
        """Seconds from the start of qemu until the nodes were ready."""

    @property
    def keeper(self) -> Keeper:
        return self._keeper

    @property
    def machines(self) -> list[Machine]:
        return self._machines

    def close(self) -> None:
        """Ends all guests; when it returns, no process of theirs is left."""
        self._keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Guest(_Fabric):
    """One guest with N nodes: N RDMA devices mlx5_0 … with addresses 10.9.0.1 … on one bridge.

    For runs without `-R`: rdma_cm chooses the device by the route, and every address of a guest is local to it, so
    with `-R` both ends are the same device and nothing crosses the bridge. Its figures repeat.
    """

    def __init__(
        self,
        nodes: int = 2,
        cache: Path | None = None,
        *,
        lifetime_s: float = DEFAULT_LIFETIME_S,
        detached: bool = False,
    ) -> None:
        """Builds what the cache folder lacks (once, about 30 s) and restores the guest.

        Raises RdmaVmError. After `lifetime_s` seconds the guest ends by itself. `detached`: it outlives this process.
        """
        super().__init__(guest_shape(nodes), 1, cache, lifetime_s, detached)
        port = self.machines[0].port
        self.nodes = [Node(i, rails_of_guest_node(i), port, nodes) for i in range(nodes)]


class GuestGroup(_Fabric):
    """One guest per node, joined by a switch: node i has device mlx5_0, interface net1 and address 10.9.0.(i+1).

    With `rails` > 1 node i has also mlx5_1, net2, 10.9.1.(i+1) and so on, each rail on a switch of its own. Here
    `-R` really crosses the fabric. A cluster network of its own, 10.8.0.(i+1) on `pods`, is for what has no RDMA.
    """

    def __init__(
        self,
        nodes: int = 2,
        cache: Path | None = None,
        *,
        rails: int = 1,
        lifetime_s: float = DEFAULT_LIFETIME_S,
        detached: bool = False,
    ) -> None:
        """As Guest. Each node takes a core while it works and 256 MiB of guest memory."""
        if not 1 <= nodes <= MAX_GUESTS:
            raise ValueError(f"nodes: {nodes} is not in 1..{MAX_GUESTS}")
        super().__init__(group_shape(rails), nodes, cache, lifetime_s, detached)
        self.nodes = [
            Node(i, rails_of_group_node(i, rails), machine.port, 1, pod_address(i))
            for i, machine in enumerate(self.machines)
        ]


def guest_shape(nodes: int, accelerator: str = "tcg") -> Shape:
    """The shape of a Guest with that many nodes."""
    if not 1 <= nodes <= MAX_NODES:
        raise ValueError(f"nodes: {nodes} is not in 1..{MAX_NODES}")
    return Shape(nodes=nodes, rails=0, accelerator=accelerator)


def group_shape(rails: int = 1, accelerator: str = "tcg") -> Shape:
    """The shape of each guest of a GuestGroup."""
    if not 1 <= rails <= MAX_RAILS:
        raise ValueError(f"rails: {rails} is not in 1..{MAX_RAILS}")
    return Shape(nodes=0, rails=rails, accelerator=accelerator)
