from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.k8si.fabric.plugins.filter.readiness_checks import FilterModule
from ansible_collections.k8si.fabric.tests.unit.plugins.plugin_utils.readiness_helpers import (
    access,
    context,
    healthy,
)

FILTERS = FilterModule().filters()


def test_reviews_for_the_settings():
    reviews = FILTERS["readiness_access_reviews"]({"namespace": "lab"}, {"apis": {}})
    assert {review["kind"] for review in reviews} == {"SelfSubjectAccessReview"}
    attributes = [review["spec"]["resourceAttributes"] for review in reviews]
    assert {
        "verb": "create",
        "group": "",
        "resource": "pods",
        "subresource": "exec",
        "namespace": "lab",
    } in attributes


def test_from_reads_to_a_report():
    due = FILTERS["readiness_reads"]({}, {}, {})
    results = [{"item": read, "resources": healthy().get(read["id"], [])} for read in due]
    seen = FILTERS["readiness_outcomes"](results, {})
    due = FILTERS["readiness_reads"]({}, {}, seen)
    assert [read["id"] for read in due] == ["all_pods", "ip_pools"]
    brought = [healthy()["pods"], healthy()["ip_pools"]]
    results = [{"item": read, "resources": items} for read, items in zip(due, brought, strict=True)]
    seen = FILTERS["readiness_outcomes"](results, seen)
    report = FILTERS["readiness_judge"](seen, {}, context({}).cluster, access({}), {})
    assert report["result"]["passed"], report["message"]
    assert (report["missing"], report["advice"], report["pending"]) == ([], [], [])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("readiness_access_reviews", ([], {})),
        ("readiness_access_reviews", ({"colour": "red"}, {})),
        ("readiness_reads", ({}, None, {})),
        ("readiness_reads", ({}, {}, [])),
        ("readiness_outcomes", ({}, {})),
        ("readiness_outcomes", ("text", {})),
        ("readiness_judge", ({}, {"tests": ["x"]}, {}, {}, {})),
        ("readiness_judge", ([], {}, {}, {}, {})),
        ("readiness_judge", ({}, {"disabled_checks": ["x"]}, {"version": {}}, {}, {})),
    ],
)
def test_bad_input_names_the_filter(name, arguments):
    with pytest.raises(AnsibleFilterError, match=rf"k8si\.fabric\.{name}: "):
        FILTERS[name](*arguments)
