from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.k8si.fabric.plugins.filter.unknown_variables import FilterModule

unknown_variables = FilterModule().filters()["unknown_variables"]


def test_passes_on():
    assert unknown_variables(["a_x", "a_timeuot"], {"a_timeout": {}}, "a_") == [
        "a_timeuot (did you mean a_timeout?)",
        "a_x",
    ]


@pytest.mark.parametrize(
    ("names", "options", "prefix"),
    [
        ("a_x,a_y", [], "a_"),
        (None, [], "a_"),
        ({"a_x": 1}, [], "a_"),
        (["a_x"], "a_x", "a_"),
        (["a_x"], [], 3),
        (["a_x"], [], ""),
    ],
)
def test_bad_input_names_the_filter(names, options, prefix):
    with pytest.raises(AnsibleFilterError, match=r"k8si\.fabric\.unknown_variables: "):
        unknown_variables(names, options, prefix)
