from __future__ import annotations

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import selectors

LABELS = {"gpu": "H100", "zone": "a", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ("gpu=H100", True),
        ("gpu==A100", False),
        ("gpu = H100 , zone!=b", True),
        ("nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3", True),
        ("zone in (a, b)", True),
        ("zone notin (a, b),gpu", False),
        ("rack notin (7)", True),
        ("gpu,!rack", True),
        ("!gpu", False),
        ("rack=", False),
    ],
)
def test_selectors(selector, fits):
    assert selectors.matches(selectors.parse(selector), LABELS) is fits


@pytest.mark.parametrize("selector", ["", "a=b,", "a>b", "zone in a", "=x", "a==b==c"])
def test_what_is_no_selector(selector):
    with pytest.raises(ValueError, match="is no label selector"):
        selectors.parse(selector)
