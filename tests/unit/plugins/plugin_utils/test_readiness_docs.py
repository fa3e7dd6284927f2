"""docs/readiness.md names every check and every code."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.k8si.fabric.plugins.plugin_utils import readiness
from ansible_collections.k8si.fabric.plugins.plugin_utils.catalogue import catalogue

TEXT = (Path(__file__).parents[4] / "docs" / "readiness.md").read_text(encoding="utf-8")
TABLE = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", TEXT.split("## The checks")[1], re.MULTILINE)


def test_every_check_in_its_order():
    assert [check for check, _codes in TABLE] == [row["id"] for row in readiness.builtin_rows()]


def test_every_code_and_no_other():
    named = {code for _check, codes in TABLE for code in re.findall(r"`(\w+)`", codes)}
    known = {row["id"] for row in readiness.builtin_rows()}
    assert named - known <= set(catalogue())
    path = Path(readiness.__file__).with_name("readiness_codes.yml")
    with path.open(encoding="utf-8") as stream:
        codes = {row["code"] for row in readiness.load_yaml(stream)}
    assert codes - named == {"not_read", "expression_failed"}
