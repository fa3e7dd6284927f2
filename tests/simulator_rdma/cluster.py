"""A simulated cluster with a guest for each of its nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rdma_vm import GuestGroup, Node
from simulator.addressing import Addresses
from simulator.cluster import Cluster
from simulator.config import Config
from simulator.machine import Attachment

from .backend import GuestBackend


class _Addresses(Addresses):
    """On secondary networks, the addresses that the guests have."""

    def __init__(self, config: Config, nodes: list[Node]) -> None:
        super().__init__(config)
        self._nodes = nodes

    def secondary(self, rail: int, index: int) -> tuple[list[str], int]:
        """All pods of a node share its guest, and so its address."""
        _, slot = super().secondary(rail, index)
        return [self._nodes[index - 1].rails[rail].address], slot


class GuestCluster(Cluster):
    """To be made inside a running event loop, with a group that has a guest for every node and device for every rail."""

    def __init__(self, config: Config, folder: str, group: GuestGroup) -> None:
        super().__init__(config, folder)
        names = config.node_names()
        if len(names) != len(group.nodes) or config.rails != len(group.nodes[0].rails):
            raise ValueError("the group has another number of nodes or rails than the cluster")
        self.backend = GuestBackend(dict(zip(names, group.nodes, strict=True)), self.lacks)
        self.kubelet.backend = self.backend
        self.kubelet._addresses = _Addresses(config, group.nodes)
        attach = self.kubelet._attach

        def attach_guest(pod: Any, full: str, interface: str, index: int, slots: Any) -> Attachment:
            made = attach(pod, full, interface, index, slots)
            rail = group.nodes[index - 1].rails[made.rail]
            return replace(made, interface=rail.interface, mac=rail.mac)

        self.kubelet._attach = attach_guest
