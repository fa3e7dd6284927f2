# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The components of NVIDIA Network Operator that a deployment may ask for: image, version, and their names in policy and status.

This is the one place with versions. Source of images and versions: the operator's documentation of this release,
page «NicClusterPolicy Custom Resource Example» (docs.nvidia.com/networking/display/kubernetes2641). Source of the names
in the status: the operator's pkg/state/*.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

RELEASE = "26.4.1"
REPOSITORY = "nvcr.io/nvidia/mellanox"
_OF_RELEASE = f"network-operator-v{RELEASE}"
_FIELDS = ("image", "repository", "version")


@dataclass(frozen=True)
class Component:
    """path: where the component is in the policy's spec. state: its name in status.appliedStates."""

    path: tuple[str, ...]
    image: str
    version: str
    state: str


COMPONENTS = {
    "driver": Component(("ofedDriver",), "doca-driver", "doca3.4.1-26.04-1.1.0.0-1", "state-OFED"),
    "rdma_shared_device_plugin": Component(
        ("rdmaSharedDevicePlugin",),
        "k8s-rdma-shared-dev-plugin",
        _OF_RELEASE,
        "state-RDMA-device-plugin",
    ),
    "sriov_device_plugin": Component(
        ("sriovDevicePlugin",),
        "sriov-network-device-plugin",
        _OF_RELEASE,
        "state-SRIOV-device-plugin",
    ),
    "nv_ipam": Component(("nvIpam",), "nvidia-k8s-ipam", _OF_RELEASE, "state-nv-ipam-cni"),
    "multus": Component(
        ("secondaryNetwork", "multus"), "multus-cni", _OF_RELEASE, "state-multus-cni"
    ),
    "cni_plugins": Component(
        ("secondaryNetwork", "cniPlugins"),
        "plugins",
        _OF_RELEASE,
        "state-container-networking-plugins",
    ),
    "ipoib_cni": Component(
        ("secondaryNetwork", "ipoib"), "ipoib-cni", _OF_RELEASE, "state-ipoib-cni"
    ),
}


def images(overrides: Mapping[str, Any] | None, repository: str = "") -> dict[str, dict[str, str]]:
    """`{component: {image, repository, version}}` for all components.

    Args:
        overrides: the variable deploy_versions: component -> version, or component -> {image, repository, version}.
        repository: takes the place of the repository of all components that the overrides do not name one for.

    Raises:
        ValueError: an unknown component or field, or a value that is no text.
    """
    table = {
        name: {"image": c.image, "repository": repository or REPOSITORY, "version": c.version}
        for name, c in COMPONENTS.items()
    }
    if overrides is None:
        return table
    if not isinstance(overrides, Mapping):
        raise ValueError(
            f"deploy_versions={overrides!r}: it must map components to versions, for example {{multus: {_OF_RELEASE}}}"
        )
    for name, value in overrides.items():
        if name not in table:
            near = get_close_matches(str(name), sorted(table), n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ValueError(
                f"deploy_versions: {name!r} is no component{hint}; the components are {', '.join(sorted(table))}"
            )
        fields = value if isinstance(value, Mapping) else {"version": value}
        for field, text in fields.items():
            if field not in _FIELDS:
                raise ValueError(
                    f"deploy_versions.{name}: {field!r} is not one of {', '.join(_FIELDS)}"
                )
            if not isinstance(text, str) or not text.strip():
                raise ValueError(
                    f"deploy_versions.{name}.{field}={text!r}: it must be a text that is not empty (quote numbers)"
                )
            table[name][field] = text
    return table
