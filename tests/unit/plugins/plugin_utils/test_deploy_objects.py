"""What deployments become: golden files, the operators' definitions, idempotence of the rendering."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.k8si.fabric.plugins.plugin_utils.deploy_objects import (
    LABELS,
    is_ours,
    key_of,
    render,
    told,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.deploy_policy import components
from ansible_collections.k8si.fabric.plugins.plugin_utils.deploy_settings import make_settings
from ansible_collections.k8si.fabric.plugins.plugin_utils.deploy_versions import COMPONENTS

from . import deploy_data as data

GOLDEN = Path(__file__).parent / "deploy_golden"
SHARED = Path(
    os.environ.get("FABRIC_SHARED", Path(__file__).resolve().parents[4] / ".." / "shared")
)


class _Dumper(yaml.SafeDumper):
    """Lists indented, texts of several lines as they are: what yamllint and readers like."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def rendered(name: str) -> list[dict[str, Any]]:
    return render(make_settings(data.variables(**data.DEPLOYMENTS[name])))


@pytest.mark.parametrize("name", data.DEPLOYMENTS)
def test_golden(name: str) -> None:
    """FABRIC_WRITE_GOLDEN=1 writes the files anew; look at the difference before it is committed."""
    path = GOLDEN / f"{name}.golden"
    dump = yaml.dump_all(rendered(name), Dumper=_Dumper, sort_keys=False, width=140)
    start = "" if dump.startswith("---") else "---\n"
    text = f"# yamllint disable rule:line-length\n{start}{dump}"
    if os.environ.get("FABRIC_WRITE_GOLDEN"):
        path.write_text(text)
    assert list(yaml.safe_load_all(path.read_text())) == rendered(name)


def test_no_golden_file_is_left_over() -> None:
    assert {p.stem for p in GOLDEN.glob("*.golden")} == set(data.DEPLOYMENTS)


@pytest.mark.parametrize("name", data.DEPLOYMENTS)
def test_every_object_is_labelled_and_named_once(name: str) -> None:
    objects = rendered(name)
    assert all(is_ours(item) and item["metadata"]["labels"] == LABELS for item in objects)
    assert len({key_of(item) for item in objects}) == len(objects)
    assert all(told(item) for item in objects)


@pytest.mark.parametrize("name", data.DEPLOYMENTS)
def test_texts_inside_are_json(name: str) -> None:
    for item in rendered(name):
        spec = item["spec"]
        if "ipam" in spec:
            assert json.loads(spec["ipam"])["type"]
            assert " " not in spec["ipam"]  # the operator takes white space out, in values too
        if "metaPlugins" in spec:
            assert all(p["type"] for p in json.loads(f"[{spec['metaPlugins']}]"))
        for section in ("rdmaSharedDevicePlugin", "sriovDevicePlugin"):
            if section in spec:
                json.loads(spec[section]["config"])


@pytest.mark.parametrize("name", data.DEPLOYMENTS)
def test_every_component_asked_for_is_in_the_policy(name: str) -> None:
    settings = make_settings(data.variables(**data.DEPLOYMENTS[name]))
    policy = next((o for o in render(settings) if o["kind"] == "NicClusterPolicy"), None)
    for component in components(settings):
        found: Any = policy["spec"] if policy else {}
        for key in COMPONENTS[component].path:
            found = found[key]
        assert found["image"] and found["version"] and found["repository"]


def test_nothing_asked_for_makes_no_policy() -> None:
    changes = {
        **data.DEPLOYMENTS["sriov"],
        "ipam": "whereabouts",
        "multus": False,
        "cni_plugins": False,
    }
    assert "NicClusterPolicy" not in {
        o["kind"] for o in render(make_settings(data.variables(**changes)))
    }


# ---- the operators' own definitions


def definitions() -> dict[tuple[str, str], dict[str, Any]]:
    """{(apiVersion, kind): {schema, scope}} of the definitions beside the project."""
    out = {}
    for path in sorted((SHARED / "crds").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if not document:
                continue
            spec = document["spec"]
            for version in spec["versions"]:
                key = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
                out[key] = {
                    "schema": version["schema"]["openAPIV3Schema"],
                    "scope": spec["scope"],
                }
    return out


def closed(schema: Any) -> Any:
    """The schema with unknown fields refused where the API server would drop them without a word."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: closed(value) for key, value in schema.items()}
    if isinstance(out.get("properties"), dict) and "type" in out:
        out.setdefault(
            "additionalProperties", bool(out.get("x-kubernetes-preserve-unknown-fields"))
        )
    return out


@pytest.mark.skipif(
    not (SHARED / "crds").is_dir(), reason="the operators' definitions are not here"
)
@pytest.mark.parametrize("name", data.DEPLOYMENTS)
def test_objects_obey_the_operators_definitions(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    known = definitions()
    for item in rendered(name):
        definition = known[item["apiVersion"], item["kind"]]
        schema = definition["schema"]
        spec = closed(schema["properties"]["spec"])
        jsonschema.Draft7Validator(spec).validate(item["spec"])
        assert (definition["scope"] == "Namespaced") == ("namespace" in item["metadata"]), item[
            "kind"
        ]
