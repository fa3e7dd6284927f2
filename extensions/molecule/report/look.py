"""Reads the files of a report as their readers do: look.py FOLDER fit|not_fit."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

from results import read_results

folder, verdict = Path(sys.argv[1]), sys.argv[2]
results = read_results(folder / "results.json")
if results["answer"]["verdict"] != verdict:
    sys.exit(f"{results['answer']}, expected {verdict}")
failures = int(ElementTree.parse(folder / "junit.xml").getroot().attrib["failures"])
if bool(failures) != (verdict == "not_fit"):
    sys.exit(f"junit.xml: {failures} failures, {verdict}")
if f"fabric_validation_fit {int(verdict == 'fit')}\n" not in (folder / "fabric.prom").read_text(
    encoding="utf-8"
):
    sys.exit("fabric.prom disagrees")
if ("is fit" in (folder / "report.html").read_text(encoding="utf-8")) != (verdict == "fit"):
    sys.exit("report.html disagrees")
for path in folder.iterdir():
    if path.stat().st_mode & 0o777 != 0o644:
        sys.exit(f"{path} has mode {path.stat().st_mode:o}")
