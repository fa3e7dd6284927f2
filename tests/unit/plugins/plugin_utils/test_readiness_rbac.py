"""docs/rbac.yml grants what readiness asks for, and nothing that nobody asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_access import (
    READ_RIGHTS,
    needed_rights,
    read_right,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_reads import (
    NETWORK_KINDS,
    plan_reads,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_settings import make_settings

RBAC = Path(__file__).parents[4] / "docs" / "rbac.yml"


@pytest.fixture(scope="module")
def objects():
    return yaml.safe_load(RBAC.read_text(encoding="utf-8"))["items"]


def granted(objects, kind):
    return {
        (verb, group, resource)
        for item in objects
        if item["kind"] == kind
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def needed(cluster_wide):
    settings = make_settings({})
    rights = needed_rights(settings)
    rights += [read_right(read_id, settings) for read_id in READ_RIGHTS]
    return {
        (right.verb, right.group, right.resource)
        for right in rights
        if (right.namespace is None) is cluster_wide
    }


def test_all_that_readiness_asks_for_is_granted(objects):
    assert needed(True) <= granted(objects, "ClusterRole")
    assert needed(False) <= granted(objects, "Role")


def test_nothing_else_is_granted(objects):
    explaining = {
        ("list", api_version.partition("/")[0], kind.lower() + "s")
        for api_version, kind in NETWORK_KINDS.values()
    }
    assert granted(objects, "ClusterRole") == needed(True) | explaining
    openshift = {("create", "security.openshift.io", "podsecuritypolicyselfsubjectreviews")}
    assert granted(objects, "Role") == needed(False) | openshift


def test_no_wildcards_and_no_secrets(objects):
    everything = granted(objects, "ClusterRole") | granted(objects, "Role")
    assert not any("*" in right or right[2] == "secrets" for right in everything)


def test_everything_that_is_read_is_asked_for():
    asked = {(right.group, right.verb) for right in needed_rights(make_settings({}))}
    pools = (
        "ip_pools",
        "cidr_pools",
    )  # may be read in vain, and tell by themselves when they are needed
    for read in (r for r in plan_reads(make_settings({}), {}) if r["id"] not in pools):
        group = read["api_version"].rpartition("/")[0]
        assert (group, "get" if read["name"] else "list") in asked


def test_bindings_point_at_what_is_there(objects):
    names = {(item["kind"], item["metadata"]["name"]) for item in objects}
    for item in objects:
        if "roleRef" in item:
            assert (item["roleRef"]["kind"], item["roleRef"]["name"]) in names
            assert [(s["kind"], s["name"], s["namespace"]) for s in item["subjects"]] == [
                ("ServiceAccount", "fabric", "default")
            ]
