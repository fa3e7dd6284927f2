"""Validates results.json files against the schema that the collection ships: `python -m results FOLDER COUNT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = Path(__file__).parents[1] / "roles/report/files/results.schema.json"


def read_results(path: Path) -> dict[str, Any]:
    """The document in a file; raises jsonschema.ValidationError where the schema does not allow it."""
    results = json.loads(path.read_text(encoding="utf-8"))
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(results)
    return results


def main(folder: str, count: str) -> str | None:
    """What is wrong with the results below a folder, None when all the expected ones are there and valid."""
    wrong = []
    paths = sorted(Path(folder).rglob("results.json"))
    for path in paths:
        try:
            read_results(path)
        except (ValueError, jsonschema.ValidationError) as error:
            wrong.append(f"{path}: {str(error).splitlines()[0]}")
    if len(paths) != int(count):
        wrong.append(f"{folder} holds {len(paths)} results.json, expected {count}")
    return "\n".join(wrong) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
