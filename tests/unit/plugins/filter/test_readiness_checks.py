from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.k8si.fabric.plugins.filter.readiness_checks import FilterModule
from ansible_collections.k8si.fabric.tests.unit.plugins.plugin_utils.readiness_helpers import (
    answers,
    healthy,
)

FILTERS = FilterModule().filters()


def test_reviews_for_the_settings():
    *access, scc = FILTERS["readiness_reviews"]({"namespace": "lab"})
    assert {review["kind"] for review in access} == {"SelfSubjectAccessReview"}
    assert (scc["kind"], scc["metadata"]) == (
        "PodSecurityPolicySelfSubjectReview",
        {"namespace": "lab"},
    )
    attributes = [review["spec"]["resourceAttributes"] for review in access]
    assert {
        "verb": "create",
        "group": "",
        "resource": "pods",
        "subresource": "exec",
        "namespace": "lab",
    } in attributes


def test_from_reads_to_a_report():
    due = FILTERS["readiness_reads"]({}, {})
    results = [{"item": read, "resources": healthy().get(read["id"], [])} for read in due]
    seen = FILTERS["readiness_outcomes"](results, {})
    assert FILTERS["readiness_reads"]({}, seen) == []
    cluster = {"server_version": "v1.34.1", "reviews": answers({})}
    report = FILTERS["readiness_judge"](seen, {}, cluster)
    assert report["result"]["passed"], report["message"]
    assert (report["missing"], report["advice"], report["pending"]) == ([], [], [])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("readiness_reviews", ([],)),
        ("readiness_reviews", ({"colour": "red"},)),
        ("readiness_reads", (None, {})),
        ("readiness_reads", ({}, [])),
        ("readiness_outcomes", ({}, {})),
        ("readiness_outcomes", ("text", {})),
        ("readiness_judge", ({}, {"tests": ["x"]}, {})),
        ("readiness_judge", ([], {}, {})),
        ("readiness_judge", ({}, {}, None)),
        ("readiness_judge", ({}, {"disabled_checks": ["x"]}, {"server_version": "v1"})),
    ],
)
def test_bad_input_names_the_filter(name, arguments):
    with pytest.raises(AnsibleFilterError, match=rf"k8si\.fabric\.{name}: "):
        FILTERS[name](*arguments)
