# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From pods and their probes to endpoints: which RDMA device, port, GID and address each side of a test uses.

Never a guess: a device is chosen because its GID table holds the address of the secondary network (RoCE), because its
port GUID is in the IPoIB interface's hardware address (InfiniBand), or because it is the only one that the pod may open.
More than one that fits is the finding `ambiguous_device`. A device that the user names is verified in the same way.

Facts: with the shared device plugin every HCA of the node is in sysfs, but only granted ones have /dev/infiniband/uverbsN
(k8s-rdma-shared-dev-plugin issue 93); GID tables in pods are sparse (nccl issue 1573); rdma_cm needs the address of the
secondary network, not the pod IP (k8s-rdma-shared-dev-plugin issue 108).
"""

from __future__ import annotations

import ipaddress
import json

from ansible_collections.k8si.fabric.plugins.plugin_utils import diagnosis, gpus, units
from ansible_collections.k8si.fabric.plugins.plugin_utils import probe as probes

STATUS_ANNOTATION = "k8s.v1.cni.cncf.io/network-status"
STATUS_ANNOTATION_OLD = "k8s.v1.cni.cncf.io/networks-status"  # Multus before 3.7
ROCE_V2 = "RoCE v2"


class _Problem(Exception):
    """Why one endpoint could not be made; carries its finding."""

    def __init__(self, code: str, seen: str, **extra):
        super().__init__(seen)
        self.code, self.seen, self.extra = code, seen, extra


def network_status(pod: dict) -> list[dict]:
    """The pod's networks as Multus reports them: a list of {name, interface, ips, default, device_info, mtu}.

    Raises ValueError when the annotation is absent (text "absent") or not the JSON list that it should be.
    """
    annotations = pod.get("metadata", {}).get("annotations") or {}
    text = annotations.get(STATUS_ANNOTATION) or annotations.get(STATUS_ANNOTATION_OLD)
    if not text:
        raise ValueError("absent")
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON ({error}): {text[:200]}") from error
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise ValueError(f"not a list of networks: {text[:200]}")
    return [
        {
            "name": e.get("name") or "",
            "interface": e.get("interface") or "",
            "ips": [i for i in e.get("ips") or [] if i],
            "default": bool(e.get("default")),
            "device_info": e.get("device-info") or {},
            "mtu": e.get("mtu"),
        }
        for e in entries
    ]


def secondary_network(pod: dict, network: str) -> dict:
    """The status entry of one requested network (`name` or `namespace/name`, optionally `@interface`).

    Names are compared with the pod's namespace filled in. Where Multus left names empty (multus-cni issue 656) and only
    one network is not the default, that one is taken. Raises ValueError: "absent", "not JSON …", "no entry …".
    """
    entries = network_status(pod)
    wanted, _sep, interface = network.partition("@")
    namespace = pod.get("metadata", {}).get("namespace") or "default"
    full = wanted if "/" in wanted else f"{namespace}/{wanted}"
    own = {ip["ip"] for ip in pod.get("status", {}).get("podIPs") or [] if ip.get("ip")}
    own.add(pod.get("status", {}).get("podIP") or "")
    others = [e for e in entries if not e["default"] and not (own & set(e["ips"]))]

    def fits(entry):
        return entry["name"] in (full, wanted) and interface in ("", entry["interface"])

    found = [e for e in others if fits(e)]
    if not found and len(others) == 1 and not others[0]["name"]:
        found = others
    if not found:
        names = ", ".join(sorted(e["name"] or "(no name)" for e in entries)) or "none"
        raise ValueError(f"no entry for {full}; there are: {names}")
    return found[0]


def build_endpoints(pods: list[dict], probe_results: list[dict], settings: dict) -> dict:
    """Makes one endpoint for each pod and rail.

    Args:
        pods: the test pods as the API gives them.
        probe_results: what `k8s_exec_batch` returned for the probe; `id` is the pod's name.
        settings: the test's settings; used here: `rails` [{index, network, device, port}], `rdma_cm`, `memory`.

    Returns:
        {`endpoints`: [{id, node, rail, namespace, pod, container, device, port, interface, address, pod_ip, gid, gid_index,
        link_layer, lid, line_rate_gbps (null when it cannot be read), mtu, fw_ver, tool, stdbuf, gpus, and for GPU memory
        cuda_device (index in the pod), gpu_path (PIX, PXB, PHB, NODE, SYS or null), cuda_method, peermem_loaded}],
        `findings`: [...], `notes`: [what a person should know of the choices made]}.
        Pods that share a node or an address are findings (`same_node`, `duplicate_secondary_ip`), not endpoints.
    """
    by_pod = {r["id"]: r for r in probe_results}
    endpoints, findings, notes = [], [], []
    for pod in pods:
        taken: set[int] = set()
        where = {"node": pod["spec"].get("nodeName"), "pod": pod["metadata"]["name"]}
        for rail in settings["rails"]:
            try:
                result = by_pod.get(pod["metadata"]["name"])
                endpoint, note = _endpoint(pod, result, rail, settings, taken)
                endpoints.append(endpoint)
                taken.add(endpoint.get("cuda_device"))
                notes += [f"{endpoint['node']}, rail {rail['index']}: {note}"] if note else []
            except _Problem as problem:
                findings.append(
                    diagnosis.finding(
                        problem.code,
                        where={**where, "rail": rail["index"]},
                        seen=problem.seen,
                        **problem.extra,
                    )
                )
    for code, key, words in (
        (
            "same_node",
            lambda e: (e["node"], e["rail"]),
            "are on one node, so nothing crosses the network",
        ),
        ("duplicate_secondary_ip", lambda e: e["address"], "all have the address"),
    ):
        endpoints, twins = _without_twins(endpoints, key)
        for several in twins:
            shared = f" {several[0]['address']}" if code == "duplicate_secondary_ip" else ""
            findings.append(
                diagnosis.finding(
                    code,
                    where={"nodes": [e["node"] for e in several], "rail": several[0]["rail"]},
                    seen=f"{', '.join(e['pod'] for e in several)} {words}{shared}",
                )
            )
    if settings["memory"] == "cuda" and endpoints:
        method, why = gpus.choose_method(endpoints, settings["cuda_method"])
        endpoints = [{**e, "cuda_method": method} for e in endpoints]
        if settings["cuda_method"] == "auto":
            notes.append(f"GPU memory by {method}: {why}")
    return {"endpoints": endpoints, "findings": findings, "notes": notes}


def _without_twins(endpoints: list[dict], key) -> tuple[list[dict], list[list[dict]]]:
    """(the endpoints whose key is theirs alone, groups of those that share one). An empty key is nobody's."""
    groups: dict = {}
    for endpoint in endpoints:
        groups.setdefault(key(endpoint), []).append(endpoint)
    alone = [e for e in endpoints if not key(e) or len(groups[key(e)]) == 1]
    return alone, [g for k, g in groups.items() if k and len(g) > 1]


def _endpoint(
    pod: dict, result: dict | None, rail: dict, settings: dict, taken: set[int]
) -> tuple[dict, str]:
    """(the endpoint, a note about the choice of its GPU)."""
    probe = _usable_probe(result, settings)
    network = _network(pod, rail)
    device, port, gid = _device(probe, network, rail, settings)
    facts = probe["devices"][device]["ports"][port]
    if not facts["active"]:
        raise _Problem("port_down", f"{device} port {port} is {facts['state']}, it must be ACTIVE")
    node = pod["spec"]["nodeName"]
    pod_ip = pod.get("status", {}).get("podIP") or ""
    on_gpu, note = {}, ""
    if settings["memory"] == "cuda":
        gpu = gpus.choose(probe, device, settings["cuda_device"], taken)
        note = gpu["note"]
        on_gpu = {
            "cuda_device": gpu["device"],
            "gpu_path": gpu["path"],
            "peermem_loaded": probe["peermem"],
        }
    endpoint = {
        "id": f"{node}/{rail['index']}",
        "node": node,
        "rail": rail["index"],
        "namespace": pod["metadata"].get("namespace", "default"),
        "pod": pod["metadata"]["name"],
        "container": pod["spec"]["containers"][0]["name"],
        "device": device,
        "port": port,
        "interface": network["interface"] if network else "",
        "address": network["ips"][0] if network else pod_ip,
        "pod_ip": pod_ip,
        "gid": gid["gid"] if gid else "",
        "gid_index": gid["index"] if gid else None,
        "link_layer": facts["link_layer"],
        "lid": facts["lid"],
        "line_rate_gbps": facts["rate_gbps"],
        "mtu": probe["interfaces"].get(network["interface"], {}).get("mtu") if network else None,
        "fw_ver": probe["devices"][device]["fw_ver"],
        "tool": probe["tool"],
        "stdbuf": probe["stdbuf"],
        "gpus": probe["gpus"],
        **on_gpu,
    }
    return endpoint, note


def _usable_probe(result: dict | None, settings: dict) -> dict:
    if result is None:
        raise _Problem("exec_lost", "the probe did not run in this pod")
    if result["outcome"] != "completed":
        code = "exec_refused" if result["outcome"] == "refused" else "exec_lost"
        raise _Problem(code, f"the probe ended as {result['outcome']}: {result.get('message', '')}")
    probe = probes.parse_probe(result["stdout"])
    if not probe["complete"]:
        last = (result["stderr"] or result["stdout"]).strip().splitlines()[-1:]
        raise _Problem("exec_lost", "the probe's output is cut short", line="".join(last))
    if probe["tool"] is None:
        raise _Problem(
            "image_missing_tool", f"there is no {settings['tool']} in {settings['image']}"
        )
    if settings["memory"] == "cuda" and not probe["tool"]["cuda"]:
        raise _Problem(
            "perftest_no_cuda",
            f"not tested: {settings['tool']} {probe['tool']['version'] or ''} in {settings['image']} was built without CUDA"
            " (its usage text has no --use_cuda)",
        )
    if not probe["devices"]:
        raise _Problem("no_devices", "/sys/class/infiniband has no device")
    if not any(d["granted"] for d in probe["devices"].values()):
        raise _Problem(
            "no_devices",
            "no /dev/infiniband/uverbs* in the container; in sysfs: "
            + ", ".join(sorted(probe["devices"])),
        )
    return probe


def _network(pod: dict, rail: dict) -> dict | None:
    """The secondary network of the rail; None where the rail has none (then the pod IP only carries the exchange of addresses)."""
    if not rail["network"]:
        return None
    try:
        network = secondary_network(pod, rail["network"])
    except ValueError as error:
        text = str(error)
        if text == "absent":
            raise _Problem(
                "multus_not_active",
                f"the pod runs, but has no annotation {STATUS_ANNOTATION}; requested network: {rail['network']}",
            ) from error
        raise _Problem("bad_network_status", f"{STATUS_ANNOTATION}: {text}") from error
    if not network["ips"]:
        raise _Problem("no_endpoint_address", f"network {network['name']} gave the pod no address")
    try:
        for ip in network["ips"]:
            ipaddress.ip_address(ip)
    except ValueError as error:
        raise _Problem("bad_network_status", f"{STATUS_ANNOTATION}: {error}") from error
    return network


def _device(probe: dict, network: dict | None, rail: dict, settings: dict):
    """(device, port, GID entry or None) of the rail."""
    granted = {n: d for n, d in probe["devices"].items() if d["granted"]}
    wanted = rail.get("device") or ""
    if wanted and wanted not in probe["devices"]:
        raise _Problem(
            "device_not_found",
            f"there is no RDMA device {wanted}; there are: {', '.join(sorted(probe['devices']))}",
        )
    if wanted and wanted not in granted:
        raise _Problem(
            "device_not_granted",
            f"{wanted} is in sysfs, but the pod may not open it; it may open: {', '.join(sorted(granted)) or 'none'}",
        )
    fits = _fitting(probe, network, granted)
    names = sorted({(f["device"], f["port"]) for f in fits})
    if wanted:
        mine = [n for n in names if n[0] == wanted]
        if names and not mine and network:
            raise _Problem(
                "device_not_found",
                f"the address {network['ips'][0]} of {network['interface']} belongs to {names[0][0]}, not to {wanted}",
            )
        names = mine or names
    if network and not names:
        raise _Problem("no_gid", _no_gid_words(probe, network, granted), devices=sorted(granted))
    if not names:
        names = _only_ports(granted, wanted, rail)
    if rail.get("port"):
        names = [n for n in names if n[1] == rail["port"]] or names
    if len(names) > 1:
        hint = _device_info(network, names)
        if not hint:
            several = ", ".join(f"{d} port {p}" for d, p in names)
            raise _Problem("ambiguous_device", f"more than one device fits: {several}")
        names = hint
    device, port = names[0]
    gids = [f for f in fits if (f["device"], f["port"]) == (device, port) and "index" in f]
    gids.sort(key=lambda g: (g["type"] != ROCE_V2, g["index"]))
    return device, port, gids[0] if gids else None


def _fitting(probe: dict, network: dict | None, granted: dict) -> list[dict]:
    if not network:
        return []
    wanted = {units.canonical_gid(ip) for ip in network["ips"]}
    interface = network["interface"]
    fits = [
        g
        for g in probe["gids"]
        if g["device"] in granted and g["gid"] in wanted and g["ndev"] in ("", interface)
    ]
    if fits:
        return fits
    # InfiniBand: the last eight bytes of the IPoIB hardware address are the GUID of the port.
    mac = probe["interfaces"].get(interface, {}).get("mac", "").replace(":", "").lower()
    if len(mac) != 40:
        return []
    guid = int(mac[-16:], 16)
    return [
        g
        for g in probe["gids"]
        if g["device"] in granted
        and probe["devices"][g["device"]]["ports"].get(g["port"], {}).get("link_layer")
        == "InfiniBand"
        and int(ipaddress.IPv6Address(g["gid"])) & 0xFFFFFFFFFFFFFFFF == guid
    ]


def _only_ports(granted: dict, wanted: str, rail: dict) -> list[tuple[str, int]]:
    """Without a secondary network: the active ports of the devices that may be opened."""
    ports = [
        (name, number)
        for name, device in sorted(granted.items())
        if not wanted or name == wanted
        for number, port in sorted(device["ports"].items())
        if not rail.get("port") or number == rail["port"]
    ]
    active = [(n, p) for n, p in ports if granted[n]["ports"][p]["active"]]
    return active or ports[:1]


def _device_info(network: dict | None, names: list) -> list:
    """SR-IOV and host-device networks name their RDMA device (comma-joined when there are several)."""
    told = ((network or {}).get("device_info") or {}).get("pci", {}).get("rdma-device", "")
    several = [n for n in told.split(",") if n]
    return [n for n in names if several == [n[0]]][:1]


def _no_gid_words(probe: dict, network: dict, granted: dict) -> str:
    seen = [f"{g['gid']} ({g['device']})" for g in probe["gids"] if g["device"] in granted]
    have = ", ".join(dict.fromkeys(seen)) or "no GID at all"
    return (
        f"no device that the pod may open ({', '.join(sorted(granted))}) has a GID for {network['ips'][0]}"
        f" of {network['interface']}; it has: {have}"
    )
