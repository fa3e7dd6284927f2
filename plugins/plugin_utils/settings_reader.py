# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads role variables: casts, checks, and says in one sentence what is wrong with which. Pure."""

from __future__ import annotations

import re

from ansible_collections.k8si.fabric.plugins.plugin_utils import selectors

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")  # RFC 1123 label
RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?)/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NETWORK = re.compile(r"([a-z0-9][-a-z0-9.]*/)?[a-z0-9][-a-z0-9.]*(@[A-Za-z0-9_.-]{1,15})?")
_DEVICE = re.compile(r"[A-Za-z0-9_.-]+")
_RAIL_FORMS = {"network": _NETWORK, "resource": RESOURCE, "device": _DEVICE}


class Reader:
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
        """A number, `all`, a list of names, or {`label`: selector} (also a text with an equals sign)."""
        value = self.raw("nodes")
        if isinstance(value, str) and "=" in value:
            value = {"label": value}
        if isinstance(value, dict):
            if list(value) != ["label"] or not isinstance(value["label"], str):
                raise self._bad("nodes", "a selector has the form {label: 'key=value'}")
            try:
                selectors.parse(value["label"])
            except ValueError as error:
                raise self._bad("nodes", str(error)) from error
            return value
        if isinstance(value, str) and "," in value:
            value = [n.strip() for n in value.split(",") if n.strip()]
        if isinstance(value, list):
            if len(set(map(str, value))) < 2 or not all(isinstance(n, str) for n in value):
                raise self._bad("nodes", "a list must name two or more different nodes")
            return list(dict.fromkeys(value))
        if value == "all":
            return value
        text = str(value)
        if text.isdigit() and int(text) >= 2:
            return int(text)
        raise self._bad(
            "nodes", "it must be a number from 2, `all`, a list of node names, or a label selector"
        )

    def sizes(self):
        value = self.raw("sizes")
        if value == "all":
            return value
        text = str(value)
        if text.isdigit() and 2 <= int(text) <= 2**31 - 1:
            return int(text)
        raise self._bad("sizes", "it must be `all` (2 bytes to 8 MiB) or one message size in bytes")

    def rails(self):
        """Rails from `rails`, or else from `networks`, `rdma_resources` and `devices`: lists of the same length, or one value
        for all rails."""
        if self.raw("rails"):
            return self._rail_list()
        networks = self.texts("networks")
        resources = self.texts("rdma_resources")
        devices = self.texts("devices")
        count = max(len(networks), len(resources), len(devices), 1)
        for name, values, pattern in (
            ("networks", networks, _NETWORK),
            ("rdma_resources", resources, RESOURCE),
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

    def _rail_list(self):
        rails = []
        for index, entry in enumerate(self.dicts("rails")):
            if unknown := set(entry) - {*_RAIL_FORMS, "port"}:
                raise self._bad(
                    "rails", f"rail {index} has unknown keys: {', '.join(sorted(unknown))}"
                )
            for name, pattern in _RAIL_FORMS.items():
                value = entry.get(name) or ""
                if value and not pattern.fullmatch(str(value)):
                    raise self._bad(
                        "rails",
                        f"rail {index}: {name} {value!r} must have the form {pattern.pattern}",
                    )
            port = str(entry.get("port") or 0)
            if not port.isdigit() or int(port) > 255:
                raise self._bad(
                    "rails", f"rail {index}: port {port!r} must be a number from 0 to 255"
                )
            texts = {name: str(entry.get(name) or "") for name in _RAIL_FORMS}
            rails.append({"index": index, **texts, "port": int(port)})
        networks = [r["network"] for r in rails if r["network"]]
        if len(set(networks)) < len(networks):
            raise self._bad("rails", "every rail needs a network of its own")
        return rails
