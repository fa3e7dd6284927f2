# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of the rails: pools read and checked, and the address management that goes into a network's CNI configuration. Pure.

nv-ipam (Mellanox/nvidia-k8s-ipam) gives each node a block of `perNodeBlockSize` addresses of an IPPool; whereabouts takes from one
range for the whole cluster; host-local counts on each node for itself; static gives every pod the same addresses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from .values import NAME, Values

IPAMS = ("nv-ipam", "whereabouts", "host-local", "static")
BLOCK_SIZE = 16
#: Keys of a rail that say something about addresses.
KEYS = (
    "pool",
    "subnet",
    "gateway",
    "block_size",
    "exclude",
    "range_start",
    "range_end",
    "routes",
    "addresses",
)
_ALLOWED = {
    "nv-ipam": ("pool", "subnet", "gateway", "block_size", "exclude", "routes"),
    "whereabouts": ("subnet", "gateway", "exclude", "range_start", "range_end", "routes"),
    "host-local": ("subnet", "gateway", "range_start", "range_end", "routes"),
    "static": ("addresses", "gateway", "routes"),
}
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Pool = dict[str, Any]


def read_pool(rail: Values, ipam: str, network: str) -> Pool:
    """The addresses of one rail.

    Returns:
        {ipam, name, subnet, gateway, block_size, exclude: [[first, last]], range_start, range_end, routes: [CIDR],
        addresses: [CIDR]}; texts are empty where there is nothing, `block_size` is 0 but for nv-ipam.

    Raises:
        ValueError: a key that this kind of address management does not use, a subnet that is none, an address outside of it.
    """
    for key in KEYS:
        if key not in _ALLOWED[ipam] and rail.given(key):
            raise rail.bad(
                key, f"{ipam} does not use it; it uses {', '.join(_ALLOWED[ipam])} (deploy_ipam)"
            )
    pool: Pool = {
        "ipam": ipam,
        "name": "",
        "subnet": "",
        "gateway": "",
        "block_size": 0,
        "exclude": [],
        "range_start": "",
        "range_end": "",
        "routes": [str(_network(rail, "routes", r)) for r in rail.texts("routes")],
        "addresses": [],
    }
    if ipam == "static":
        pool["addresses"] = [_interface(rail, text) for text in rail.texts("addresses")]
        if not pool["addresses"]:
            raise rail.bad(
                "addresses", "static needs addresses with prefix, for example ['192.168.4.2/24']"
            )
        subnet = ipaddress.ip_interface(pool["addresses"][0]).network
    else:
        if not rail.given("subnet"):
            raise rail.bad(
                "subnet", f"{ipam} needs the subnet of the rail, for example 192.168.4.0/24"
            )
        subnet = _network(rail, "subnet", rail.text("subnet"))
        pool["subnet"] = str(subnet)
    if rail.given("gateway"):
        pool["gateway"] = str(_inside(rail, "gateway", rail.text("gateway"), subnet))
    if pool["routes"] and not pool["gateway"]:
        raise rail.bad("routes", f"routes need {rail.prefix}gateway")
    pool["exclude"] = [_range(rail, text, subnet) for text in rail.texts("exclude")]
    for key in ("range_start", "range_end"):
        if rail.given(key):
            pool[key] = str(_inside(rail, key, rail.text(key), subnet))
    if pool["range_start"] and pool["range_end"]:
        first, last = (ipaddress.ip_address(pool[k]) for k in ("range_start", "range_end"))
        if int(first) > int(last):
            raise rail.bad("range_end", f"it is before {rail.prefix}range_start ({first})")
    if ipam == "nv-ipam":
        pool["name"] = (
            rail.text("pool", NAME, "a name of lower-case letters, digits and hyphens")
            if rail.given("pool")
            else f"{network}-pool"
        )
        pool["block_size"] = (
            rail.integer("block_size", 1, 1 << 20) if rail.given("block_size") else BLOCK_SIZE
        )
    return pool


def _network(rail: Values, key: str, text: str) -> Network:
    try:
        if "/" not in text:
            raise ValueError
        return ipaddress.ip_network(text)
    except ValueError:
        try:
            meant = (
                f"; did you mean {ipaddress.ip_network(text, strict=False)}?" if "/" in text else ""
            )
        except ValueError:
            meant = ""
        raise rail.bad(
            key, f"{text!r} must be a network with its prefix, like 192.168.4.0/24{meant}"
        ) from None


def _interface(rail: Values, text: str) -> str:
    try:
        if "/" not in text:
            raise ValueError
        return str(ipaddress.ip_interface(text))
    except ValueError:
        raise rail.bad(
            "addresses", f"{text!r} must be an address with its prefix, like 192.168.4.2/24"
        ) from None


def _inside(rail: Values, key: str, text: str, subnet: Network) -> Any:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise rail.bad(key, f"{text!r} must be an address") from None
    if address not in subnet:
        raise rail.bad(key, f"{address} is not in the subnet {subnet}")
    if subnet.num_addresses > 2 and address == subnet.network_address:
        raise rail.bad(key, f"{address} is the address of the subnet itself")
    return address


def _range(rail: Values, text: str, subnet: Network) -> list[str]:
    """First and last of `address`, `first-last` or a CIDR."""
    if "/" in text:
        part = _network(rail, "exclude", text)
        first, last = part[0], part[-1]
    else:
        begin, dash, end = (t.strip() for t in text.partition("-"))
        try:
            first = ipaddress.ip_address(begin)
            last = ipaddress.ip_address(end) if dash else first
        except ValueError:
            raise rail.bad(
                "exclude", f"{text!r} must be an address, first-last, or a network with prefix"
            ) from None
    if first not in subnet or last not in subnet:
        raise rail.bad("exclude", f"{text} is not in the subnet {subnet}")
    if int(first) > int(last):
        raise rail.bad("exclude", f"{text}: the last is before the first")
    return [str(first), str(last)]


def check_pools(rails: Iterable[Mapping[str, Any]]) -> None:
    """Rails that share a pool must say the same of it; other subnets must not overlap. Raises ValueError."""
    with_pool = [rail for rail in rails if rail["pool"]]
    for one, other in combinations(with_pool, 2):
        mine, theirs = one["pool"], other["pool"]
        if mine["name"] and mine["name"] == theirs["name"]:
            for key, value in mine.items():
                if value != theirs[key]:
                    raise ValueError(
                        f"deploy_rails[{other['index']}].{key}={theirs[key]!r}: rail {one['index']} has the same pool"
                        f" {mine['name']} with {value!r}; say the same in both, or name another pool"
                    )
        elif mine["subnet"] and theirs["subnet"] and _overlap(mine["subnet"], theirs["subnet"]):
            raise ValueError(
                f"deploy_rails[{other['index']}].subnet={theirs['subnet']!r}: it overlaps {mine['subnet']} of rail"
                f" {one['index']}; give each rail a subnet of its own"
            )


def _overlap(one: str, other: str) -> bool:
    a, b = ipaddress.ip_network(one), ipaddress.ip_network(other)
    return a.version == b.version and a.overlaps(b)  # type: ignore[arg-type]


def check_sizes(rails: Iterable[Mapping[str, Any]], nodes: int, told: str) -> None:
    """Every pool must have an address for one pod of each rail on each of `nodes` nodes.

    `told` says where the number of nodes comes from, for the words of errors. Raises ValueError.
    """
    rails = [rail for rail in rails if rail["pool"] and rail["pool"]["subnet"]]
    for rail in rails:
        pool = rail["pool"]
        where = f"deploy_rails[{rail['index']}]"
        sharing = sum(
            r["pool"] is pool or bool(pool["name"] and r["pool"]["name"] == pool["name"])
            for r in rails
        )
        usable = _usable(pool)
        if pool["ipam"] == "nv-ipam":
            taken = 1 if pool["gateway"] else 0
            if pool["block_size"] < sharing + taken:
                raise ValueError(
                    f"{where}.block_size={pool['block_size']}: a node needs {sharing + taken} addresses of pool"
                    f" {pool['name']} ({sharing} rails{' and the gateway' if taken else ''}); make it larger"
                )
            blocks = usable // pool["block_size"]
            if blocks < nodes:
                raise ValueError(
                    f"{where}.subnet={pool['subnet']!r}: too small: it holds {blocks} blocks of {pool['block_size']} addresses,"
                    f" {nodes} are needed, one a node ({told}); take a larger subnet or a smaller block_size"
                )
        else:
            excluded = sum(_length(first, last) for first, last in pool["exclude"])
            # host-local counts on every node from the start of the range
            needed = sharing * (1 if pool["ipam"] == "host-local" else nodes)
            free = usable - excluded - (1 if pool["gateway"] else 0)
            if free < needed:
                raise ValueError(
                    f"{where}.subnet={pool['subnet']!r}: too small: {free} addresses are free for pods, {needed} are needed"
                    f" ({told}); take a larger subnet or range"
                )


def _usable(pool: Pool) -> int:
    """Addresses that hosts can have: all but those of network and broadcast, or those of the range."""
    subnet = ipaddress.ip_network(pool["subnet"])
    if subnet.num_addresses <= 2:
        first, last = int(subnet[0]), int(subnet[-1])
    else:
        first, last = int(subnet[1]), int(subnet[-1]) - (subnet.version == 4)
    if pool["range_start"]:
        first = max(first, int(ipaddress.ip_address(pool["range_start"])))
    if pool["range_end"]:
        last = min(last, int(ipaddress.ip_address(pool["range_end"])))
    return max(0, last - first + 1)


def _length(first: str, last: str) -> int:
    return int(ipaddress.ip_address(last)) - int(ipaddress.ip_address(first)) + 1


def conflict(rail: Mapping[str, Any], others: Iterable[tuple[str, str]]) -> str | None:
    """Words for the first of `others` (what it is, CIDR) that overlaps the rail's subnet; None without."""
    if not rail["pool"] or not rail["pool"]["subnet"]:
        return None
    for what, cidr in others:
        try:
            if _overlap(rail["pool"]["subnet"], cidr):
                return (
                    f"deploy_rails[{rail['index']}].subnet={rail['pool']['subnet']!r}: it overlaps {cidr}, {what};"
                    " take a subnet that nothing else uses"
                )
        except ValueError:
            continue  # an object of the cluster that holds no proper network is none of our business
    return None


def cni_ipam(pool: Pool) -> dict[str, Any]:
    """The `ipam` part of a CNI configuration."""
    if pool["ipam"] == "nv-ipam":
        return {"type": "nv-ipam", "poolName": pool["name"]}
    routes = [{"dst": dst} for dst in pool["routes"]]
    if pool["ipam"] == "whereabouts":
        out: dict[str, Any] = {"type": "whereabouts", "range": pool["subnet"]}
        for key in ("range_start", "range_end", "gateway"):
            if pool[key]:
                out[key] = pool[key]
        if pool["exclude"]:
            out["exclude"] = [str(net) for pair in pool["exclude"] for net in _networks(*pair)]
        return out | ({"routes": routes} if routes else {})
    if pool["ipam"] == "host-local":
        names = {"range_start": "rangeStart", "range_end": "rangeEnd", "gateway": "gateway"}
        part = {"subnet": pool["subnet"]} | {n: pool[k] for k, n in names.items() if pool[k]}
        return {"type": "host-local", "ranges": [[part]]} | ({"routes": routes} if routes else {})
    addresses = [
        {"address": a} | ({"gateway": pool["gateway"]} if pool["gateway"] else {})
        for a in pool["addresses"]
    ]
    return {"type": "static", "addresses": addresses} | ({"routes": routes} if routes else {})


def _networks(first: str, last: str) -> Iterable[Network]:
    return ipaddress.summarize_address_range(
        ipaddress.ip_address(first), ipaddress.ip_address(last)  # type: ignore[type-var]
    )


def ip_pool_spec(pool: Pool, node_selector: Mapping[str, str]) -> dict[str, Any]:
    """The spec of an nv-ipam IPPool."""
    spec: dict[str, Any] = {"subnet": pool["subnet"], "perNodeBlockSize": pool["block_size"]}
    if pool["gateway"]:
        spec["gateway"] = pool["gateway"]
    if pool["routes"]:
        spec["routes"] = [{"dst": dst} for dst in pool["routes"]]
    if pool["exclude"]:
        spec["exclusions"] = [{"startIP": a, "endIP": b} for a, b in pool["exclude"]]
    if node_selector:
        spec["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": match(node_selector)}]}
    return spec


def match(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Labels as the expressions of a node selector term."""
    return [{"key": k, "operator": "In", "values": [v]} for k, v in sorted(labels.items())]
