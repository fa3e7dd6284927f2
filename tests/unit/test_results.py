"""The check that the scenarios end with: it must be able to fail."""

from __future__ import annotations

import results


def test_a_folder_with_fewer_files_than_cases_is_told(tmp_path):
    assert results.main(str(tmp_path), "1") == f"{tmp_path} holds 0 results.json, expected 1"


def test_a_document_that_the_schema_does_not_allow_is_told(tmp_path):
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "results.json").write_text('{"schema_version": "1.0"}')
    assert "is a required property" in results.main(str(tmp_path), "1")


def test_a_file_that_is_not_json_is_told(tmp_path):
    (tmp_path / "results.json").write_text("no results")
    assert "Expecting value" in results.main(str(tmp_path), "1")
