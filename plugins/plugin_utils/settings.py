# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a test, made from role variables: typed, checked, with nothing left to be guessed later. Pure.

Argument specs neither convert types nor see what a value means, so it is done here; every error is a sentence that names
the variable, the value and what is allowed.
"""

from __future__ import annotations

import re

TOOLS = ("ib_write_bw", "ib_read_bw", "ib_send_bw")
CUDA_METHODS = ("peermem", "dmabuf")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")  # RFC 1123 label
_RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?)/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NETWORK = re.compile(r"([a-z0-9][-a-z0-9.]*/)?[a-z0-9][-a-z0-9.]*(@[A-Za-z0-9_.-]{1,15})?")
_DEVICE = re.compile(r"[A-Za-z0-9_.-]+")


def make_settings(variables: dict, prefix: str) -> dict:
    """Checks and converts the variables of a test role.

    Args:
        variables: the role's variables without their prefix: {`namespace`: …, `nodes`: …, …}.
        prefix: `rdma_test_` or `gpudirect_test_`, for the words of errors.

    Returns:
        The same names with proper types, plus `rails`: [{index, network, resource, device, port}].

    Raises:
        ValueError: with a sentence that names variable, value and what is allowed.
    """
    v = _Reader(variables, prefix)
    memory = v.choice("memory", ("host", "cuda"))
    settings = {
        "test": v.text("test"),
        "memory": memory,
        "run": v.text("run", _NAME),
        "namespace": v.text("namespace", _NAME),
        "image": v.text("image"),
        "image_pull_policy": v.choice("image_pull_policy", ("Always", "IfNotPresent", "Never")),
        "image_pull_secrets": v.texts("image_pull_secrets"),
        "container": v.text("container", _NAME),
        "nodes": v.nodes(),
        "tolerations": v.dicts("tolerations"),
        "tool": v.choice("tool", TOOLS),
        "sizes": v.sizes(),
        "duration_s": v.integer("duration", 0, 3600),
        "iterations": v.integer("iterations", 0, 100_000_000),
        "qps": v.integer("qps", 1, 16384),
        "bidirectional": v.boolean("bidirectional"),
        "both_directions": v.boolean("both_directions"),
        "rdma_cm": v.boolean("rdma_cm"),
        "extra_options": v.texts("extra_options"),
        "threshold_percent": v.number("threshold_percent", 0, 100),
        "threshold_gbps": v.number("threshold_gbps", 0, 100_000),
        "timeout_s": v.number("timeout", 1, 86_400),
        "pod_timeout_s": v.number("pod_timeout", 1, 86_400),
        "pod_lifetime_s": v.integer("pod_lifetime", 60, 604_800),
        "rails": v.rails(),
        "gpu_resource": "",
        "gpu_count": 0,
        "cuda_device": 0,
        "cuda_method": "",
        "host_passed": v.raw("host_passed"),
    }
    if memory == "cuda":
        settings["gpu_resource"] = v.text("gpu_resource", _RESOURCE)
        settings["gpu_count"] = v.integer("gpu_count", 1, 64)
        settings["cuda_device"] = v.integer("cuda_device", 0, 63)
        settings["cuda_method"] = v.choice("method", CUDA_METHODS)
    if settings["duration_s"] and settings["sizes"] == "all":
        raise ValueError(
            f"{prefix}duration={settings['duration_s']} with {prefix}sizes=all: perftest cannot run all sizes for a duration;"
            f" set {prefix}sizes to one size in bytes, or {prefix}duration to 0"
        )
    if not settings["threshold_gbps"] and not settings["threshold_percent"]:
        raise ValueError(
            f"{prefix}threshold_percent and {prefix}threshold_gbps are both 0: every link would pass; set one of them"
        )
    longest = settings["timeout_s"] + settings["pod_timeout_s"]
    if settings["pod_lifetime_s"] <= longest:
        raise ValueError(
            f"{prefix}pod_lifetime={settings['pod_lifetime_s']} s: pods would expire while they are used; it must be more than"
            f" {prefix}pod_timeout + {prefix}timeout ({longest:g} s)"
        )
    return settings


class _Reader:
    """Reads one dictionary of variables; every method raises ValueError with the variable's full name."""

    def __init__(self, variables: dict, prefix: str):
        self.variables, self.prefix = variables, prefix

    def raw(self, name):
        return self.variables.get(name)

    def _bad(self, name, what):
        return ValueError(f"{self.prefix}{name}={self.raw(name)!r}: {what}")

    def text(self, name, pattern=None):
        value = self.raw(name)
        if not isinstance(value, str) or not value.strip():
            raise self._bad(name, "it must be a text that is not empty")
        if pattern and not pattern.fullmatch(value):
            raise self._bad(name, f"it must have the form {pattern.pattern}")
        return value

    def texts(self, name):
        value = self.raw(name)
        if value in (None, ""):
            return []
        if isinstance(value, (str, int, float)):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(t, (str, int, float)) for t in value):
            raise self._bad(name, "it must be a list of texts")
        return [str(t) for t in value]

    def dicts(self, name):
        value = self.raw(name) or []
        if not isinstance(value, list) or not all(isinstance(t, dict) for t in value):
            raise self._bad(name, "it must be a list of dictionaries")
        return value

    def choice(self, name, choices):
        if self.raw(name) not in choices:
            raise self._bad(name, f"it must be one of {', '.join(choices)}")
        return self.raw(name)

    def boolean(self, name):
        value = self.raw(name)
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower()
        if text in ("true", "yes", "on", "1"):
            return True
        if text in ("false", "no", "off", "0"):
            return False
        raise self._bad(name, "it must be true or false")

    def number(self, name, low, high):
        try:
            value = float(self.raw(name))
        except (TypeError, ValueError):
            raise self._bad(name, "it must be a number") from None
        if not low <= value <= high:
            raise self._bad(name, f"it must be from {low} to {high}")
        return int(value) if value == int(value) else value

    def integer(self, name, low, high):
        value = self.number(name, low, high)
        if not isinstance(value, int):
            raise self._bad(name, "it must be a whole number")
        return value

    def nodes(self):
        value = self.raw("nodes")
        if isinstance(value, str) and "," in value:
            value = [n.strip() for n in value.split(",") if n.strip()]
        if isinstance(value, list):
            if len(set(value)) < 2 or not all(isinstance(n, str) for n in value):
                raise self._bad("nodes", "a list must name two or more different nodes")
            return list(dict.fromkeys(value))
        if value == "all":
            return value
        text = str(value)
        if text.isdigit() and int(text) >= 2:
            return int(text)
        raise self._bad("nodes", "it must be a number from 2, `all`, or a list of node names")

    def sizes(self):
        value = self.raw("sizes")
        if value == "all":
            return value
        text = str(value)
        if text.isdigit() and 2 <= int(text) <= 2**31 - 1:
            return int(text)
        raise self._bad("sizes", "it must be `all` (2 bytes to 8 MiB) or one message size in bytes")

    def rails(self):
        """Rails from `networks`, `rdma_resources` and `devices`: lists of the same length, or one value for all rails."""
        networks = self.texts("networks")
        resources = self.texts("rdma_resources")
        devices = self.texts("devices")
        count = max(len(networks), len(resources), len(devices), 1)
        for name, values, pattern in (
            ("networks", networks, _NETWORK),
            ("rdma_resources", resources, _RESOURCE),
            ("devices", devices, _DEVICE),
        ):
            if len(values) not in (0, 1, count):
                raise self._bad(
                    name, f"it has {len(values)} entries, the rails are {count}; give one a rail"
                )
            for value in values:
                if not pattern.fullmatch(value):
                    raise self._bad(name, f"{value!r} must have the form {pattern.pattern}")
        if len(set(networks)) < len(networks):
            raise self._bad("networks", "every rail needs a network of its own")
        if len(networks) == 1 and count > 1:
            raise self._bad(
                "networks", f"one network cannot serve {count} rails; give one a rail, or none"
            )

        def entry(values, index):
            return values[index if len(values) > 1 else 0] if values else ""

        return [
            {
                "index": index,
                "network": entry(networks, index),
                "resource": entry(resources, index),
                "device": entry(devices, index),
                "port": self.integer("ib_port", 0, 255),
            }
            for index in range(count)
        ]
