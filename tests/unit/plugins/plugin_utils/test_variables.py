from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils.variables import (
    option_names,
    unknown_variables,
)

SPECS = {
    "argument_specs": {
        "main": {"options": {"readiness_namespace": {}, "readiness_timeout": {}}},
        "other": {"options": {"readiness_nodes": {}}},
        "bare": None,
    }
}


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        (SPECS, {"readiness_namespace", "readiness_timeout", "readiness_nodes"}),
        ({"a_b": {"type": "str"}}, {"a_b"}),
        (["a_b", "a_c"], {"a_b", "a_c"}),
        ({}, set()),
    ],
)
def test_option_names(specs, expected):
    assert option_names(specs) == expected


@pytest.mark.parametrize("specs", ["readiness_namespace", 3, None, {"argument_specs": ["main"]}])
def test_option_names_refuses(specs):
    with pytest.raises(ValueError):
        option_names(specs)


def test_known_and_foreign_names_are_silent():
    names = ["readiness_namespace", "readiness_nodes", "__readiness_seen", "fabric_nodes", "ready"]
    assert unknown_variables(names, SPECS, "readiness_") == []


def test_the_fact_of_the_role_is_no_input():
    assert unknown_variables(["readiness_result"], SPECS, "readiness_") == []


def test_misspelt_name_gets_the_nearest_option():
    assert unknown_variables(["readiness_namespce"], SPECS, "readiness_") == [
        "readiness_namespce (did you mean readiness_namespace?)"
    ]


def test_name_like_nothing_gets_no_suggestion_and_all_are_sorted_once():
    names = ["readiness_zzzz", "readiness_colour", "readiness_zzzz"]
    assert unknown_variables(names, SPECS, "readiness_") == ["readiness_colour", "readiness_zzzz"]


def test_empty_prefix_is_refused():
    with pytest.raises(ValueError, match="prefix"):
        unknown_variables(["a"], SPECS, "")
