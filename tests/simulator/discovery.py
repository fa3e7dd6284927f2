"""The documents by which clients find out what is served."""

from __future__ import annotations

from typing import Any

from .content import VERSION
from .errors import no_such_path
from .resources import Registry

Obj = dict[str, Any]
_SUBRESOURCE_KINDS = {"exec": "PodExecOptions", "binding": "Binding"}
_SUBRESOURCE_VERBS = {"exec": ["create", "get"], "log": ["get"], "binding": ["create"]}


def version() -> Obj:
    """What /version answers."""
    major, minor = VERSION[1:].split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2025-11-11T19:10:37Z",
        "goVersion": "go1.24.9",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def versions(server: str) -> Obj:
    """What /api answers."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": server}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def group(registry: Registry, name: str) -> Obj:
    """One group with its versions; raises 404."""
    found = [
        {"groupVersion": f"{g}/{v}", "version": v}
        for g, v in registry.group_versions()
        if g == name
    ]
    if not found or not name:
        raise no_such_path()
    return {"name": name, "versions": found, "preferredVersion": found[0]}


def groups(registry: Registry) -> Obj:
    """What /apis answers."""
    names = list(dict.fromkeys(g for g, _unused in registry.group_versions() if g))
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [group(registry, n) for n in names],
    }


def resources(registry: Registry, group_name: str, version_name: str) -> Obj:
    """The types of one group and version, subresources among them."""
    rows = []
    for resource in registry.of_group_version(group_name, version_name):
        rows.append(
            {
                "name": resource.plural,
                "singularName": resource.kind.lower(),
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": list(resource.verbs),
                **({"shortNames": list(resource.short_names)} if resource.short_names else {}),
            }
        )
        for sub in resource.subresources:
            rows.append(
                {
                    "name": f"{resource.plural}/{sub}",
                    "singularName": "",
                    "namespaced": resource.namespaced,
                    "kind": _SUBRESOURCE_KINDS.get(sub, resource.kind),
                    "verbs": _SUBRESOURCE_VERBS.get(sub, ["get", "patch", "update"]),
                }
            )
    full = f"{group_name}/{version_name}" if group_name else version_name
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": full, "resources": rows}


def openapi_index(registry: Registry) -> Obj:
    """Where the OpenAPI v3 document of each group and version is."""
    paths = {}
    for name, version_name in registry.group_versions():
        key = f"apis/{name}/{version_name}" if name else f"api/{version_name}"
        paths[key] = {"serverRelativeURL": f"/openapi/v3/{key}?hash=1"}
    return {"paths": paths}


def openapi(registry: Registry, parts: list[str]) -> Obj:
    """An OpenAPI v3 document without schemas: enough for kubectl to see that the server validates fields itself."""
    group_name, version_name = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
    base = "/" + "/".join(parts)
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    parameters = [{"name": n, "in": "query", "schema": {"type": "string"}} for n in names]
    paths = {}
    for resource in registry.of_group_version(group_name, version_name):
        scope = "/namespaces/{namespace}" if resource.namespaced else ""
        kind = {"group": group_name, "version": version_name, "kind": resource.kind}
        operation = {
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-group-version-kind": kind,
        }
        paths[f"{base}{scope}/{resource.plural}/{{name}}"] = {"patch": operation}
        paths[f"{base}{scope}/{resource.plural}"] = {"post": operation}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "components": {"schemas": {}},
    }
