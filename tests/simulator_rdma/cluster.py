"""A simulated cluster with a guest for each of its nodes."""

from __future__ import annotations

from dataclasses import replace

from rdma_vm import GuestGroup, Node
from simulator.addressing import Addresses
from simulator.cluster import Cluster
from simulator.config import Config
from simulator.machine import Attachment
from simulator.perftest.world import World
from simulator.podtree import PodTrees

from .backend import GuestBackend


class GuestAddresses(Addresses):
    """The addresses and interfaces that the guests have. All pods of a node share its guest's."""

    def __init__(self, config: Config, nodes: list[Node]) -> None:
        super().__init__(config)
        self._nodes = nodes

    def pod(self, index: int) -> tuple[list[str], int]:
        """That of the guest on the cluster network."""
        _pool, slot = super().pod(index)
        return [self._nodes[index - 1].pod_address], slot

    def adopt(self, attachment: Attachment, index: int) -> Attachment:
        """The interface with the name, the address and the MAC that it has in the guest, whatever a pool would give."""
        rail = self._nodes[index - 1].rails[attachment.rail]
        return replace(attachment, interface=rail.interface, addresses=[rail.address], mac=rail.mac)


class GuestCluster(Cluster):
    """To be made inside a running event loop, with a group that has a guest for every node and a device for every rail."""

    def __init__(self, config: Config, folder: str, group: GuestGroup) -> None:
        if config.nodes != len(group.nodes) or config.rails != len(group.nodes[0].rails):
            raise ValueError("the group has another number of nodes or rails than the cluster")
        self._guests = group.nodes
        super().__init__(config, folder)

    def make_backend(self, world: World, trees: PodTrees) -> GuestBackend:
        """Commands run in the guests."""
        names = self.config.node_names()
        return GuestBackend(dict(zip(names, self._guests, strict=True)), self.lacks)

    def make_addresses(self) -> GuestAddresses:
        """Addresses are those of the guests."""
        return GuestAddresses(self.config, self._guests)
