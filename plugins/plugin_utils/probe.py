# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what `roles/perftest/files/probe.sh` prints in a pod.

Pure: text in, one dictionary out. Nothing is decided here; `endpoints.py` does that.
"""

from __future__ import annotations

import re

from ansible_collections.k8si.fabric.plugins.plugin_utils import units

# State of a port as the kernel writes it: "4: ACTIVE" (Documentation/ABI/stable/sysfs-class-infiniband).
ACTIVE = 4
IPC_LOCK = 14  # capabilities(7): CAP_IPC_LOCK
UNLIMITED = "unlimited"


def shorten(script: str) -> str:
    """The script without comments and indentation: it travels in a URL, and proxies bound those to about 8 KB."""
    lines = (line.strip() for line in script.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def parse_probe(stdout: str) -> dict:
    """Turns the probe's lines into a dictionary.

    Returns:
        `complete` (bool: the last line arrived), `devices` {name: {fw_ver, hca_type, board_id, numa_node, pci_path,
        granted (bool or null where no verbs device is listed), ports {number: {state, rate_gbps, link_layer, lid}}}},
        `gids` [{device, port, index, gid, type, ndev}], `interfaces` {name: {mac, mtu, type, operstate, dev_port, devices}},
        `rdma_cm` (bool), `memlock` {soft, hard} (bytes; null: unlimited), `ipc_lock` (bool or null), `uid` (int or null),
        `tool` {name, version, cuda, dmabuf} or null, `stdbuf` (bool), `gpus` [str], `topology` [str].
    """
    probe: dict = {
        "complete": False,
        "devices": {},
        "gids": [],
        "interfaces": {},
        "rdma_cm": False,
        "memlock": None,
        "ipc_lock": None,
        "uid": None,
        "tool": None,
        "stdbuf": False,
        "gpus": [],
        "topology": [],
    }
    for line in stdout.splitlines():
        kind, *fields = line.split("\t")
        reader = _READERS.get(kind)
        if reader is not None:
            try:
                reader(probe, *fields)
            except (TypeError, ValueError, KeyError, IndexError):
                continue  # a record cut short: what it says is not used; `complete` tells
    return probe


def _device(probe, name, fw_ver, hca_type, board_id, numa, pci_path):
    probe["devices"][name] = {
        "fw_ver": fw_ver,
        "hca_type": hca_type,
        "board_id": board_id,
        "numa_node": int(numa) if re.fullmatch(r"-?\d+", numa) else None,
        "pci_path": pci_path,
        "granted": None,
        "ports": {},
    }


def _port(probe, device, port, state, _phys, rate, link_layer, lid):
    number, _sep, name = state.partition(":")
    probe["devices"][device]["ports"][int(port)] = {
        "state": name.strip() or state,
        "active": number.strip() == str(ACTIVE),
        "rate_gbps": _rate(rate),
        "rate": rate,
        "link_layer": link_layer,
        "lid": int(lid, 0) if lid else None,
    }


def _rate(text):
    try:
        return units.line_rate_gbps(text)
    except ValueError:
        return None  # an unset or unknown rate is no rate; whoever needs one says so


def _gid(probe, device, port, index, gid, kind, ndev):
    probe["gids"].append(
        {
            "device": device,
            "port": int(port),
            "index": int(index),
            "gid": units.canonical_gid(gid) or "",
            "type": kind,
            "ndev": ndev,
        }
    )


def _uverbs(probe, _name, device, granted):
    if device in probe["devices"]:
        probe["devices"][device]["granted"] = granted == "yes"


def _net(probe, name, mac, mtu, kind, operstate, dev_port, devices):
    probe["interfaces"][name] = {
        "mac": mac,
        "mtu": int(mtu) if mtu.isdigit() else None,
        "type": int(kind) if kind.isdigit() else None,
        "operstate": operstate,
        "dev_port": int(dev_port, 0) if dev_port else None,
        "devices": [d for d in devices.split(",") if d],
    }


def _memlock(probe, soft, hard):
    def limit(text):
        return None if text == UNLIMITED else int(text)

    probe["memlock"] = {"soft": limit(soft), "hard": limit(hard)}


def _cap_eff(probe, *fields):
    probe["ipc_lock"] = bool(int("".join(fields).strip(), 16) >> IPC_LOCK & 1)


def _uid(probe, *fields):
    # /proc/self/status: real, effective, saved, file system
    probe["uid"] = int([f for f in fields if f.strip()][1])


def _tool(probe, name, version, cuda, dmabuf):
    probe["tool"] = {
        "name": name,
        "version": version or None,
        "cuda": cuda == "yes",
        "dmabuf": dmabuf == "yes",
    }


_READERS = {
    "device": _device,
    "port": _port,
    "gid": _gid,
    "uverbs": _uverbs,
    "net": _net,
    "memlock": _memlock,
    "cap_eff": _cap_eff,
    "uid": _uid,
    "tool": _tool,
    "rdma_cm": lambda probe, granted: probe.update(rdma_cm=granted == "yes"),
    "stdbuf": lambda probe, there: probe.update(stdbuf=there == "yes"),
    "gpu": lambda probe, line: probe["gpus"].append(line),
    "topo": lambda probe, *fields: probe["topology"].append("\t".join(fields)),
    "end": lambda probe: probe.update(complete=True),
}
