# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the readiness role was asked to check: its variables, checked and brought into one shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

TESTS = ("rdma", "gpudirect")
#: The operator acts on this name only and answers ``ignore`` to any other.
POLICY_NAME = "nic-cluster-policy"
#: Label that the test pods of this collection carry.
OWN_LABEL = "app.kubernetes.io/managed-by=k8si.fabric"


@dataclass(frozen=True)
class Settings:
    """The role's variables without their prefix; ``docs/readiness.md`` says what each means."""

    namespace: str = "default"
    operator_namespace: str = "nvidia-network-operator"
    rdma_resources: tuple[str, ...] = ("rdma/rdma_shared_device_a",)
    networks: tuple[str, ...] = ("rdma-net-ipam",)
    gpu_resource: str = "nvidia.com/gpu"
    tests: tuple[str, ...] = TESTS
    nodes: tuple[str, ...] = ()
    minimum_nodes: int = 2
    tolerations: tuple[Mapping[str, Any], ...] = ()
    image_pull_secrets: tuple[str, ...] = ()
    required_components: tuple[str, ...] = ()
    disabled_checks: tuple[str, ...] = ()
    extra_checks: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def wants_gpu(self) -> bool:
        """Whether the GPUDirect test was chosen."""
        return "gpudirect" in self.tests


_STRINGS = {"namespace", "operator_namespace", "gpu_resource"}
_MAPPINGS = {"tolerations", "extra_checks"}


def make_settings(values: Mapping[str, Any]) -> Settings:
    """Checks ``values`` and returns them as :class:`Settings`; what is missing or null gets its default.

    Lists of names may come as text with commas, because that is what ``-e`` on the command line gives.
    Raises :class:`ValueError` naming the variable.
    """
    known = {item.name for item in fields(Settings)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise ValueError(f"unknown settings: {', '.join(unknown)}")
    clean: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        if name in _STRINGS:
            clean[name] = _text(name, value)
        elif name == "minimum_nodes":
            clean[name] = _whole_number(name, value)
        elif name == "nodes":
            clean.update(_nodes(value))
        elif name in _MAPPINGS:
            clean[name] = tuple(_mappings(name, value))
        else:
            clean[name] = tuple(_names(name, value))
    clean["minimum_nodes"] = max(clean.get("minimum_nodes", 2), clean.pop("nodes_wanted", 1))
    settings = Settings(**clean)
    if not settings.tests or set(settings.tests) - set(TESTS):
        raise ValueError(
            f"readiness_tests must hold one or more of {', '.join(TESTS)}, not {list(settings.tests)!r}"
        )
    return settings


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"readiness_{name} must be a name, not {value!r}")
    return value.strip()


def _whole_number(name: str, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = int(str(value))
    except (TypeError, ValueError):
        raise ValueError(f"readiness_{name} must be a whole number, not {value!r}") from None
    if number < 1:
        raise ValueError(f"readiness_{name} must be at least 1, not {number}")
    return number


def _nodes(value: Any) -> dict[str, Any]:
    """``readiness_nodes`` as the tests take it: a list of names, ``all``, or how many are needed."""
    if value == "all":
        return {}
    if isinstance(value, int) or (isinstance(value, str) and value.strip().isdigit()):
        return {"nodes_wanted": _whole_number("nodes", value)}
    return {"nodes": tuple(_names("nodes", value))}


def _names(name: str, value: Any) -> Iterable[str]:
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"readiness_{name} must be a list of names, not {value!r}")
    return [_text(name, item) for item in value]


def _mappings(name: str, value: Any) -> Iterable[Mapping[str, Any]]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise ValueError(f"readiness_{name} must be a list of mappings, not {value!r}")
    items = list(value)
    for item in items:
        if not isinstance(item, Mapping):
            raise ValueError(f"readiness_{name} must be a list of mappings; found {item!r}")
    return items
