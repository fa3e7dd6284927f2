# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue is complete, its samples get their codes, and the page made from it is up to date."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from ansible_collections.k8si.fabric.plugins.plugin_utils import catalogue as module
from ansible_collections.k8si.fabric.plugins.plugin_utils.diagnosis import (
    CatalogueError,
    catalogue,
    diagnose_text,
    finding,
)

from .captures import CODES, shared

ROOT = Path(__file__).resolve().parents[4]
ROWS = catalogue()


@pytest.mark.parametrize("code", ROWS)
def test_fields_of_a_row(code: str) -> None:
    row = ROWS[code]
    assert row["code"] == code == row["anchor"]
    assert code.isidentifier()
    assert code == code.lower()
    assert row["layer"] in module.LAYERS
    assert isinstance(row["retry"], bool)
    for key in ("title", "cause", "remedy"):
        assert len(row[key]) > 3, key
        assert row[key] == row[key].strip(), key
        assert not row[key].endswith("."), key
    assert row["source"]
    assert all(isinstance(source, str) and source for source in row["source"])


@pytest.mark.parametrize(("code", "layer", "text"), module.samples())
def test_samples(code: str, layer: str, text: str) -> None:
    found = diagnose_text(text, layer)
    assert found is not None
    assert found["code"] == code
    assert found["line"] == text.strip()


def test_signatures_are_usable() -> None:
    signatures = module.signatures()
    assert len(signatures) > 60
    for signature in signatures:
        assert signature.code in ROWS
        assert not signature.text.search(""), f"{signature.code} fits an empty line"


def test_codes_that_the_captures_need() -> None:
    assert {code for code, _side in CODES.values()} <= set(ROWS)


def test_codes_of_the_collected_failures() -> None:
    path = shared() / "facts" / "failures.json"
    samples = 0
    for entry in json.loads(path.read_text("utf-8")):
        assert entry["code"] in ROWS
        assert ROWS[entry["code"]]["retry"] == entry["retry"], entry["code"]
        for text in entry["samples"]:
            found = diagnose_text(text, entry["stage"])
            assert found is not None, text
            assert found["code"] == entry["code"], text
            samples += 1
    assert samples >= 49


def test_a_finding() -> None:
    found = finding("memlock", where={"node": "n1"}, seen="seen", line="line", figure=3)
    assert list(found) == [
        "code",
        "title",
        "where",
        "seen",
        "line",
        "cause",
        "remedy",
        "retry",
        "reference",
        "figure",
    ]
    assert found["reference"] == "docs/troubleshooting.md#memlock"
    with pytest.raises(CatalogueError, match="no_such_code"):
        finding("no_such_code")


def test_text_without_a_code() -> None:
    assert diagnose_text("all is well", "rdma") is None
    assert diagnose_text("", "pod") is None
    with pytest.raises(CatalogueError, match="layer"):
        diagnose_text("x", "nowhere")


def test_a_row_must_be_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failures.yml").write_text("---\n- code: half\n  title: t\n", encoding="utf-8")
    monkeypatch.setattr(module, "_HERE", tmp_path)
    with pytest.raises(CatalogueError, match=r"half: without layer, cause, remedy, retry, source"):
        module._rows.__wrapped__()


def test_the_page_is_up_to_date() -> None:
    script = ROOT / "tests" / "make_troubleshooting.py"
    spec = importlib.util.spec_from_file_location("make_troubleshooting", script)
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    assert page == maker.render(), "run: python tests/make_troubleshooting.py"
    for code in ROWS:
        assert f'<a id="{code}"></a>' in page
    print("\n" + maker.table())
