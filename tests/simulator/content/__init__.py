"""What is in a healthy cluster before anybody does anything: nodes, operators, policies, networks, permissions."""

from __future__ import annotations

from ..api import Api, crd_status
from ..config import Config
from ..schema import custom_definitions
from .common import GPU_OPERATOR, OPERATOR, VERSION, Obj, Putter, namespace
from .networks import networks
from .nodes import node
from .operators import gpu_operator, network_operator
from .permissions import BUILTIN_RBAC, EVERYBODY, permissions
from .workloads import busy

__all__ = ["BUILTIN_RBAC", "EVERYBODY", "VERSION", "permissions", "populate"]


def populate(api: Api, config: Config) -> None:
    """Fills an empty store."""
    put = Putter(api)
    for name in (
        "default",
        "kube-system",
        "kube-node-lease",
        "kube-public",
        OPERATOR,
        GPU_OPERATOR,
    ):
        put("", "v1", "namespaces", namespace(name))
    for definition in custom_definitions():
        _define(api, definition)
    for index, name in enumerate(config.node_names(), 1):
        put("", "v1", "nodes", node(config, index, name))
    network_operator(put, config)
    gpu_operator(put, config)
    networks(put, config)
    if config.busy_gpus:
        busy(put, config)


def _define(api: Api, definition: Obj) -> None:
    """Registers a custom type, through its CustomResourceDefinition."""
    names, group = definition["names"], definition["group"]
    crd = {
        "metadata": {"name": f"{names['plural']}.{group}", "generation": 1},
        "spec": {
            "group": group,
            "scope": definition["scope"],
            "names": names,
            "conversion": {"strategy": "None"},
            "versions": [
                {
                    "name": v["name"],
                    "served": v["served"],
                    "storage": v["storage"],
                    "schema": {"openAPIV3Schema": v["schema"]},
                    **({"subresources": {"status": {}}} if v["status"] else {}),
                }
                for v in definition["versions"]
            ],
        },
    }
    crd["status"] = crd_status(crd)
    api.put(api.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions"), crd)
