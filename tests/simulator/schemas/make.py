"""Writes builtin.json and custom.json: the field names and types of Kubernetes objects, without any prose.

    python -m simulator.schemas.make [FOLDER_WITH_CRDS]

builtin.json comes from the models of the installed Python client `kubernetes`; custom.json from CustomResourceDefinition
manifests. Both are data of the interface, written anew only when a newer interface is wanted.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent

ROOTS = [
    "V1ClusterRole",
    "V1ClusterRoleBinding",
    "V1ConfigMap",
    "V1CronJob",
    "V1DaemonSet",
    "V1Deployment",
    "V1Endpoints",
    "V1Job",
    "V1Lease",
    "V1LimitRange",
    "V1Namespace",
    "V1Node",
    "V1PersistentVolumeClaim",
    "V1Pod",
    "V1ReplicaSet",
    "V1ResourceQuota",
    "V1Role",
    "V1RoleBinding",
    "V1Secret",
    "V1SelfSubjectAccessReview",
    "V1SelfSubjectReview",
    "V1SelfSubjectRulesReview",
    "V1Service",
    "V1ServiceAccount",
    "V1StatefulSet",
    "CoreV1Event",
]


def builtin() -> dict[str, dict[str, str]]:
    """Type name → field name as in JSON → type."""
    from kubernetes import client

    types: dict[str, dict[str, str]] = {}
    todo = list(ROOTS)
    while todo:
        name = todo.pop()
        if name in types or not hasattr(client, name):
            continue
        model = getattr(client, name)
        fields = {model.attribute_map[a]: t for a, t in model.openapi_types.items()}
        types[name] = dict(sorted(fields.items()))
        for text in fields.values():
            todo += re.findall(r"(?:[A-Z]\w+)", text)
    return dict(sorted(types.items()))


KEEP = (
    "type",
    "enum",
    "required",
    "minimum",
    "maximum",
    "pattern",
    "default",
    "minLength",
    "maxLength",
    "format",
)


def slim(schema: dict[str, Any]) -> dict[str, Any]:
    """A structural schema without descriptions."""
    out: dict[str, Any] = {k: schema[k] for k in KEEP if k in schema}
    if "properties" in schema:
        out["properties"] = {k: slim(v) for k, v in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        out["items"] = slim(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        out["additionalProperties"] = slim(schema["additionalProperties"])
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        out["preserve"] = True
    if schema.get("x-kubernetes-int-or-string"):
        out["intOrString"] = True
    return out


def custom(folder: Path) -> list[dict[str, Any]]:
    """The parts of CustomResourceDefinitions that the server acts on."""
    out = []
    for path in sorted(folder.glob("*.y*ml")):
        for doc in yaml.safe_load_all(path.read_text()):
            if not doc or doc.get("kind") != "CustomResourceDefinition":
                continue
            spec = doc["spec"]
            out.append(
                {
                    "group": spec["group"],
                    "scope": spec["scope"],
                    "names": spec["names"],
                    "versions": [
                        {
                            "name": v["name"],
                            "served": v["served"],
                            "storage": v["storage"],
                            "status": "status" in (v.get("subresources") or {}),
                            "schema": slim(v["schema"]["openAPIV3Schema"]),
                        }
                        for v in spec["versions"]
                    ],
                },
            )
    return out


if __name__ == "__main__":
    (HERE / "builtin.json").write_text(json.dumps(builtin(), separators=(",", ":")) + "\n")
    if len(sys.argv) > 1:
        text = json.dumps(custom(Path(sys.argv[1])), separators=(",", ":"))
        (HERE / "custom.json").write_text(text + "\n")
