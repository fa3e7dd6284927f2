"""Addresses: of nodes, of pods on the cluster network, and of secondary networks, one block a node and rail."""

from __future__ import annotations

import ipaddress
import random

from .config import Config
from .fabric import Port
from .machine import Attachment, Device, Gid

BLOCK = 64  # addresses a node has in a rail's pool


def node_ip(index: int) -> str:
    """index counts from 1."""
    return str(ipaddress.IPv4Address("10.10.0.0") + index)


def rail_subnet(rail: int) -> ipaddress.IPv4Network:
    """The IPv4 pool of a rail: a /16 that holds a block for each of 1000 nodes."""
    return ipaddress.IPv4Network(f"10.{100 + rail}.0.0/16")


def rail_block(rail: int, index: int) -> tuple[str, str]:
    """First and last IPv4 address of a node's block."""
    first = rail_subnet(rail).network_address + (index - 1) * BLOCK + 2
    return str(first), str(first + BLOCK - 1)


class Addresses:
    """Hands out addresses and takes them back."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._used: dict[tuple[str, int], set[int]] = {}

    def _slot(self, network: str, index: int, limit: int) -> int:
        used = self._used.setdefault((network, index), set())
        slot = next((s for s in range(limit) if s not in used), None)
        if slot is None:
            raise LookupError(f"no free address in the block of node {index} in {network}")
        used.add(slot)
        return slot

    def pod(self, index: int) -> tuple[list[str], int]:
        """Addresses on the cluster network of a new pod of node `index`, and the slot to give back."""
        slot = self._slot("pods", index, 1 << 12)
        out = []
        if "4" in self._config.ip:
            out.append(str(ipaddress.IPv4Address("10.244.0.0") + index * 250 + 10 + slot))
        if "6" in self._config.ip:
            out.append(str(ipaddress.IPv6Address("fd00:10:244::") + (index << 16) + 10 + slot))
        return out, slot

    def secondary(self, rail: int, index: int) -> tuple[list[str], int]:
        """Addresses in a rail's pool; raises LookupError when the node's block is used up."""
        slot = self._slot(f"rail-{rail}", index, BLOCK)
        out = []
        if "4" in self._config.ip:
            out.append(str(ipaddress.IPv4Address(rail_block(rail, index)[0]) + slot))
        if "6" in self._config.ip:
            out.append(
                str(ipaddress.IPv6Address(f"fd00:{100 + rail}::") + (index << 16) + 2 + slot)
            )
        return out, slot

    def adopt(self, attachment: Attachment, index: int) -> Attachment:
        """What becomes of an interface on node `index`; one that exists for real has its own name and MAC."""
        return attachment

    def give_back(self, network: str, index: int, slot: int) -> None:
        """Frees an address that was handed out."""
        self._used.get((network, index), set()).discard(slot)


def mac(rng: random.Random) -> str:
    """A MAC of an interface."""
    octets = [rng.randrange(256) for _unused in range(6)]
    octets[0] = octets[0] & 0xFC | 0x02
    return ":".join(f"{o:02x}" for o in octets)


def ipoib_mac(guid: str) -> str:
    """The hardware address of an IPoIB interface, 20 bytes: it ends in the GID of its port, fe80:: and the GUID."""
    octets = "0000029bfe80000000000000" + guid.replace(":", "")
    return ":".join(octets[i : i + 2] for i in range(0, len(octets), 2))


def eui64(text: str) -> str:
    """The interface identifier of a MAC, as eight octets."""
    o = text.split(":")
    return ":".join([f"{int(o[0], 16) ^ 2:02x}", o[1], o[2], "ff", "fe", o[3], o[4], o[5]])


def link_local(text: str) -> str:
    """The link-local IPv6 address that goes with a MAC."""
    parts = eui64(text).split(":")
    groups = [parts[i] + parts[i + 1] for i in range(0, 8, 2)]
    return str(ipaddress.IPv6Address("fe80:0:0:0:" + ":".join(groups)))


def gids(attachment: Attachment, first: int = 4) -> list[Gid]:
    """The entries that a macvlan interface adds to the GID table: each address as RoCE v1 and v2, after empty ones."""
    texts = [link_local(attachment.mac)]
    for address in attachment.addresses:
        parsed = ipaddress.ip_address(address)
        texts.append(
            str(ipaddress.IPv6Address(f"::ffff:{parsed}")) if parsed.version == 4 else address
        )
    out = []
    for text in texts:
        for kind in ("IB/RoCE v1", "RoCE v2"):
            out.append(Gid(first + len(out), text, kind, attachment.interface))
    return out


def device_name(rail: int | None) -> str:
    """mlx5_0 is the front end; the rails come after it, so that the first device is not the one to test."""
    return "mlx5_0" if rail is None else f"mlx5_{rail + 1}"


def devices(config: Config, node: str, index: int) -> list[Device]:
    """All RDMA devices of a node, none granted to anybody."""
    out = []
    for rail in [None, *range(config.rails)]:
        number = 0 if rail is None else rail + 1
        guid = f"a088:c2{index >> 8:02x}:{index & 255:04x}:{number:04x}"
        infiniband = config.link == "infiniband" and rail is not None
        out.append(
            Device(
                name=device_name(rail),
                port=Port(node, rail),
                rate_gbps=100.0 if rail is None else config.line_rate,
                granted=False,
                infiniband=infiniband,
                lid=(index * 16 + number) if infiniband else 0,
                numa=0 if rail is None or rail < 4 else 1,
                guid=guid,
            )
        )
    return out
