"""A pod as a machine: what the programs inside it can see."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from .fabric import Port
from .processes import Table


@dataclass
class Gid:
    """One entry of a port's GID table."""

    index: int
    address: str  # 16 bytes, as an IPv6 address
    kind: str  # "RoCE v2", "IB/RoCE v1" or, for InfiniBand, "IB/RoCE v1"
    interface: str

    @property
    def packed(self) -> bytes:
        return ipaddress.IPv6Address(self.address).packed

    @property
    def sysfs(self) -> str:
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

    def best_gid(self) -> Gid | None:
        """The entry perftest takes by itself: RoCE v2 over IPv4 first, then RoCE v2, then anything."""

        def rank(gid: Gid) -> tuple[bool, bool]:
            mapped = ipaddress.IPv6Address(gid.address).ipv4_mapped is not None
            return (gid.kind == "RoCE v2" and mapped, gid.kind == "RoCE v2")

        return max(self.gids, key=rank, default=None)


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
        return self.addresses + [a for x in self.attachments for a in x.addresses]

    def device(self, name: str | None) -> Device | None:
        """A device that a program in the pod can open, by name or the first."""
        usable = [d for d in self.devices if d.granted]
        return next((d for d in usable if name in (None, d.name)), None)

    def device_of(self, address: str) -> Device | None:
        """The device whose GID table holds an address, as rdma_cm finds it by route."""
        wanted = ipaddress.ip_address(address)
        mapped = ipaddress.IPv6Address(f"::ffff:{wanted}") if wanted.version == 4 else wanted
        for attachment in self.attachments:
            if address in attachment.addresses:
                for device in self.devices:
                    if device.infiniband and device.granted and device.port.rail == attachment.rail:
                        return device
        for device in self.devices:
            if device.granted and any(
                ipaddress.IPv6Address(g.address) == mapped for g in device.gids
            ):
                return device
        return None
