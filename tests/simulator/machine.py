"""A pod as a machine: what the programs inside it can see."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from .fabric import Port
from .processes import Table


def as_gid(address: str) -> ipaddress.IPv6Address:
    """An address as a GID: IPv4 is mapped."""
    parsed = ipaddress.ip_address(address)
    return ipaddress.IPv6Address(f"::ffff:{parsed}") if parsed.version == 4 else parsed


@dataclass
class Gid:
    """One entry of a port's GID table."""

    index: int
    address: str  # 16 bytes, as an IPv6 address
    kind: str  # "RoCE v2", "IB/RoCE v1" or, for InfiniBand, "IB/RoCE v1"
    interface: str

    @property
    def packed(self) -> bytes:
        """The sixteen bytes."""
        return ipaddress.IPv6Address(self.address).packed

    @property
    def sysfs(self) -> str:
        """As sysfs prints it."""
        return ipaddress.IPv6Address(self.address).exploded

    @property
    def decimal(self) -> str:
        """As perftest prints it: sixteen decimal bytes."""
        return ":".join(f"{b:02d}" for b in self.packed)


@dataclass
class Device:
    """An RDMA device as a pod sees it."""

    name: str
    port: Port
    rate_gbps: float = 400.0
    granted: bool = True
    up: bool = True
    gids: list[Gid] = field(default_factory=list)
    infiniband: bool = False
    lid: int = 0
    mtu: int = 4096
    numa: int = 0
    guid: str = "0000:0000:0000:0000"
    transport: str = "IB"  # IW for iWARP
    # Whether perftest knows the device well enough to use inline data and the newer way to post work.
    recognised: bool = True
    new_post_send: bool = True
    outstanding_reads: int = 16

    def best_gid(self, ipv6: bool = False) -> Gid | None:
        """The entry perftest takes by itself: RoCE v2 over the IP version that is wanted, before all others."""

        def rank(gid: Gid) -> tuple[bool, bool, bool]:
            address = ipaddress.IPv6Address(gid.address)
            wanted = (address.ipv4_mapped is None) == ipv6
            return (gid.kind == "RoCE v2", wanted, not address.is_link_local)

        return max(self.gids, key=rank, default=None)

    def gid_of(self, address: str) -> Gid | None:
        """The RoCE v2 entry that holds an address."""
        wanted = as_gid(address)
        found = [g for g in self.gids if ipaddress.IPv6Address(g.address) == wanted]
        return next((g for g in found if g.kind == "RoCE v2"), found[0] if found else None)


@dataclass
class Attachment:
    """A secondary network's interface in a pod."""

    network: str  # namespace/name
    interface: str
    rail: int
    addresses: list[str]
    mac: str


@dataclass
class Machine:
    """A running pod."""

    uid: str
    namespace: str
    name: str
    node: str
    addresses: list[str] = field(default_factory=list)  # of the cluster network
    attachments: list[Attachment] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    gpus: int = 0  # visible in the container
    gpu_driver: bool = True  # whether libcuda was mounted
    image: str = ""
    container: str = ""
    memlock_kib: int | None = None  # None: unlimited
    ipc_lock: bool = True
    processes: Table = field(default_factory=Table)
    root: str = ""  # the fake tree on disk, once it was wanted

    @property
    def perftest_has_cuda(self) -> bool:
        """The images with perftest for GPUs say so in their names."""
        return "cuda" in self.image

    def all_addresses(self) -> list[str]:
        """Of the cluster network and of all others."""
        return self.addresses + [a for x in self.attachments for a in x.addresses]

    def device(self, name: str | None) -> Device | None:
        """A device that a program in the pod can open, by name or the first."""
        usable = [d for d in self.devices if d.granted]
        return next((d for d in usable if name in (None, d.name)), None)

    def device_of(self, address: str) -> Device | None:
        """The device whose GID table holds an address, as rdma_cm finds it by route."""
        for attachment in self.attachments:
            if address in attachment.addresses:
                for device in self.devices:
                    if device.infiniband and device.granted and device.port.rail == attachment.rail:
                        return device
        return next((d for d in self.devices if d.granted and d.gid_of(address)), None)
