# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a deployment, made from role variables: typed, checked, with nothing left to be guessed later. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from . import deploy_addresses as addresses
from .deploy_rails import DEFAULT_NETWORKS, DEFAULT_RESOURCES, read_rails
from .deploy_types import TYPES
from .deploy_versions import images
from .values import NAME, NAME_FORM, OBJECT_NAME, OBJECT_NAME_FORM, Values

PREFIX = "deploy_"
STATES = ("present", "absent")
NFD_LABEL = "feature.node.kubernetes.io/pci-15b3.present"
_LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
Settings = dict[str, Any]


def make_settings(variables: Mapping[str, Any]) -> Settings:
    """Checks and converts the role's variables.

    Args:
        variables: without their prefix, {`network_type`: …, `rails`: …, …}. `networks` and `rdma_resources` may be None for not set.

    Returns:
        The same names with proper types, `rails` as :func:`deploy_rails.read_rails` gives them, and `images`
        ({component: {image, repository, version}}). With `state` absent only what removal needs.

    Raises:
        ValueError: with a sentence that names the variable, its value and what is allowed.
    """
    v = Values(variables, PREFIX)
    settings: Settings = {
        "state": v.choice("state", STATES),
        "namespace": v.text("namespace", NAME, NAME_FORM),
        "operator_namespace": v.text("operator_namespace", NAME, NAME_FORM),
        "timeout_s": v.integer("timeout", 0, 86_400),
    }
    settings["sriov_namespace"] = (
        v.text("sriov_namespace", NAME, NAME_FORM)
        if v.given("sriov_namespace")
        else settings["operator_namespace"]
    )
    if settings["state"] == "absent":
        return settings
    settings["operator"] = _operator(v)
    kind = v.choice("network_type", list(TYPES))
    network_type = TYPES[kind]
    link_layer = _link_layer(v, kind)
    ipam = v.choice("ipam", addresses.IPAMS)
    settings |= {
        "network_type": kind,
        "link_layer": link_layer,
        "ipam": ipam if network_type.secondary else "",
        "rails": read_rails(v, kind, network_type, link_layer, ipam, settings["namespace"]),
        "adopt": v.boolean("adopt"),
        "driver": v.boolean("driver"),
        "multus": v.boolean("multus") and network_type.secondary,
        "cni_plugins": v.boolean("cni_plugins") and network_type.secondary,
        "rdma_hca_max": v.integer("rdma_hca_max", 1, 1_000_000),
        "rdma_mode": _rdma_mode(v, kind),
        "minimum_nodes": v.integer("minimum_nodes", 1, 100_000),
        "node_selector": _node_selector(v),
        "images": images(v.raw("versions"), v.optional_text("repository")),
        "image_pull_secrets": v.texts("image_pull_secrets", OBJECT_NAME, OBJECT_NAME_FORM),
        "nic_cluster_policy_overrides": _overrides(v),
    }
    if settings["operator"]["install"] and kind == "sriov":
        given = settings["operator"]["values"]
        settings["operator"]["values"] = merge({"sriovNetworkOperator": {"enabled": True}}, given)
    # what the cluster has is not known yet: two nodes are the least that can be tested
    addresses.check_sizes(
        settings["rails"],
        settings["minimum_nodes"],
        f"deploy_minimum_nodes={settings['minimum_nodes']}",
    )
    return settings


def merge(base: Any, over: Any) -> Any:
    """`over` laid on `base`: dictionaries key by key, everything else replaced. Neither is changed."""
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        return over
    out = dict(base)
    for key, value in over.items():
        out[key] = merge(base[key], value) if key in base else value
    return out


def _link_layer(v: Values, kind: str) -> str:
    allowed = TYPES[kind].link_layers
    if not v.given("link_layer"):
        return allowed[0]
    link_layer = v.choice("link_layer", ("ethernet", "infiniband"))
    if link_layer not in allowed:
        others = [name for name, t in TYPES.items() if link_layer in t.link_layers]
        reason = (
            "a macvlan cannot be made on an InfiniBand interface"
            if kind == "macvlan"
            else f"{kind} is for {allowed[0]} only"
        )
        raise v.bad(
            "link_layer",
            f"{reason}; with {link_layer} use deploy_network_type {' or '.join(others)}",
        )
    return link_layer


def _rdma_mode(v: Values, kind: str) -> str:
    if not v.given("rdma_mode"):
        return ""
    mode = v.choice("rdma_mode", ("shared", "exclusive"))
    if kind != "sriov":
        raise v.bad(
            "rdma_mode",
            f"the SR-IOV operator sets it, and {kind} does not use that; leave it empty, or set deploy_network_type: sriov",
        )
    return mode


def _node_selector(v: Values) -> dict[str, str]:
    labels = v.mapping("node_selector")
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(str(key)) or not isinstance(value, str):
            raise v.bad(
                "node_selector",
                f"{key!r}: {value!r} must be a label and its value, both texts (quote 'true')",
            )
    return {str(key): value for key, value in labels.items()}


def _overrides(v: Values) -> dict[str, Any]:
    overrides = v.mapping("nic_cluster_policy_overrides")
    for key in ("spec", "metadata", "kind", "apiVersion", "status"):
        if key in overrides:
            raise v.bad(
                "nic_cluster_policy_overrides",
                f"it is merged into the policy's spec, so {key} has no place there; begin with fields like ofedDriver",
            )
    return overrides


def _operator(v: Values) -> dict[str, Any]:
    """The installation of the operator; {install: False} without."""
    if not v.boolean("install_operator"):
        return {"install": False}
    return {
        "install": True,
        "release": v.text("operator_release", NAME, NAME_FORM),
        "chart": v.text("operator_chart"),
        "repo": v.optional_text("operator_chart_repo"),
        "version": v.text("operator_chart_version"),
        "values": v.mapping("operator_values"),
        "helm": v.text("helm_binary"),
    }


def variables_for_tests(settings: Settings) -> dict[str, Any]:
    """The variables that readiness and the tests need to be set for this deployment; only what differs from their defaults."""
    rails = settings["rails"]
    networks = [
        (
            rail["network"]
            if rail["network_namespace"] == settings["namespace"]
            else f"{rail['network_namespace']}/{rail['network']}"
        )
        for rail in rails
        if rail["network"]
    ]
    resources = list(
        dict.fromkeys(f"{rail['resource_prefix']}/{rail['resource']}" for rail in rails)
    )
    out: dict[str, Any] = {}
    if networks != DEFAULT_NETWORKS:
        out["fabric_networks"] = networks
    if resources != DEFAULT_RESOURCES:
        out["fabric_rdma_resources"] = resources
    if settings["namespace"] != "default":
        out["fabric_namespace"] = settings["namespace"]
    if settings["operator_namespace"] != "nvidia-network-operator":
        out["fabric_operator_namespace"] = settings["operator_namespace"]
    return out
