# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the variables of the test roles: nodes, rails, sizes. Pure."""

from __future__ import annotations

import re

from ansible_collections.k8si.fabric.plugins.plugin_utils import selectors
from ansible_collections.k8si.fabric.plugins.plugin_utils.values import Values

RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?)/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NETWORK = re.compile(r"([a-z0-9][-a-z0-9.]*/)?[a-z0-9][-a-z0-9.]*(@[A-Za-z0-9_.-]{1,15})?")
_DEVICE = re.compile(r"[A-Za-z0-9_.-]+")
_RAIL_FORMS = {"network": _NETWORK, "resource": RESOURCE, "device": _DEVICE}


class Reader(Values):
    """Reads the variables of a test; every method raises ValueError with the variable's full name."""

    def words(self, name):
        """A list of texts; one text, also one that holds commas, or one number may come without a list."""
        value = self.raw(name)
        if value in (None, ""):
            return []
        if isinstance(value, (str, int, float)):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(t, (str, int, float)) for t in value):
            raise self.bad(name, "it must be a list of texts")
        return [str(t) for t in value]

    def dicts(self, name):
        value = self.raw(name) or []
        if not isinstance(value, list) or not all(isinstance(t, dict) for t in value):
            raise self.bad(name, "it must be a list of dictionaries")
        return value

    def nodes(self):
        """A number, `all`, a list of names, or {`label`: selector} (also a text with an equals sign)."""
        value = self.raw("nodes")
        if isinstance(value, str) and "=" in value:
            value = {"label": value}
        if isinstance(value, dict):
            if list(value) != ["label"] or not isinstance(value["label"], str):
                raise self.bad("nodes", "a selector has the form {label: 'key=value'}")
            try:
                selectors.parse(value["label"])
            except ValueError as error:
                raise self.bad("nodes", str(error)) from error
            return value
        if isinstance(value, str) and "," in value:
            value = [n.strip() for n in value.split(",") if n.strip()]
        if isinstance(value, list):
            if len(set(map(str, value))) < 2 or not all(isinstance(n, str) for n in value):
                raise self.bad("nodes", "a list must name two or more different nodes")
            return list(dict.fromkeys(value))
        if value == "all":
            return value
        text = str(value)
        if text.isdigit() and int(text) >= 2:
            return int(text)
        raise self.bad(
            "nodes", "it must be a number from 2, `all`, a list of node names, or a label selector"
        )

    def sizes(self):
        value = self.raw("sizes")
        if value == "all":
            return value
        text = str(value)
        if text.isdigit() and 2 <= int(text) <= 2**31 - 1:
            return int(text)
        raise self.bad("sizes", "it must be `all` (2 bytes to 8 MiB) or one message size in bytes")

    def rails(self):
        """Rails from `rails`, or else from `networks`, `rdma_resources` and `devices`: lists of the same length, or one value
        for all rails."""
        if self.raw("rails"):
            return self._rail_list()
        networks = self.words("networks")
        resources = self.words("rdma_resources")
        devices = self.words("devices")
        count = max(len(networks), len(resources), len(devices), 1)
        for name, values, pattern in (
            ("networks", networks, _NETWORK),
            ("rdma_resources", resources, RESOURCE),
            ("devices", devices, _DEVICE),
        ):
            if len(values) not in (0, 1, count):
                raise self.bad(
                    name, f"it has {len(values)} entries, the rails are {count}; give one a rail"
                )
            for value in values:
                if not pattern.fullmatch(value):
                    raise self.bad(name, f"{value!r} must have the form {pattern.pattern}")
        if len(set(networks)) < len(networks):
            raise self.bad("networks", "every rail needs a network of its own")
        if len(networks) == 1 and count > 1:
            raise self.bad(
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
                raise self.bad(
                    "rails", f"rail {index} has unknown keys: {', '.join(sorted(unknown))}"
                )
            for name, pattern in _RAIL_FORMS.items():
                value = entry.get(name) or ""
                if value and not pattern.fullmatch(str(value)):
                    raise self.bad(
                        "rails",
                        f"rail {index}: {name} {value!r} must have the form {pattern.pattern}",
                    )
            port = str(entry.get("port") or 0)
            if not port.isdigit() or int(port) > 255:
                raise self.bad(
                    "rails", f"rail {index}: port {port!r} must be a number from 0 to 255"
                )
            texts = {name: str(entry.get(name) or "") for name in _RAIL_FORMS}
            rails.append({"index": index, **texts, "port": int(port)})
        networks = [r["network"] for r in rails if r["network"]]
        if len(set(networks)) < len(networks):
            raise self.bad("rails", "every rail needs a network of its own")
        return rails
