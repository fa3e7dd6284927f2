"""What a simulated cluster is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

LETTERS = "abcdefgh"


@dataclass
class Config:
    """The settings of one cluster; all have the defaults of the demo.

    nodes: how many GPU nodes; rails: RDMA ports a node that are tested; gpus: a node.
    busy_gpus: GPUs a node that other running pods already use.
    time_scale: 1.0 lets perftest run as long as in reality.
    start_delay, stop_delay: seconds until a pod runs, and until a deleted one is gone.
    ip: families of the pods' addresses, "4", "6" or "46". link: "ethernet" or "infiniband".
    line_rate: of a rail in Gb/s.
    """

    nodes: int = 8
    rails: int = 1
    gpus: int = 8
    busy_gpus: int = 0
    seed: int = 1
    perftest: str = "6.29"
    time_scale: float = 0.1
    start_delay: float = 0.3
    stop_delay: float = 0.2
    ip: str = "4"
    link: str = "ethernet"
    line_rate: float = 400.0
    faults: list[str] = field(default_factory=list)
    rbac: str = ""  # a manifest with the service account that the restricted kubeconfig uses

    def node_names(self) -> list[str]:
        """gpu-node-1 and so on."""
        return [f"gpu-node-{i}" for i in range(1, self.nodes + 1)]

    def rdma_resource(self, rail: int) -> str:
        """The extended resource of a rail."""
        return f"rdma/rdma_shared_device_{LETTERS[rail]}"

    def rail_networks(self) -> list[tuple[str, int]]:
        """Secondary networks by name, with the rail each is on."""
        networks = [("rdma-net-ipam", 0)]
        if self.rails > 1:
            networks += [(f"rdma-net-rail-{k}", k) for k in range(self.rails)]
        return networks

    def as_dict(self) -> dict[str, Any]:
        """All settings, for JSON."""
        return asdict(self)
