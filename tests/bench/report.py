"""How long a report takes and how large its files are: 2 to 512 nodes.

    python tests/bench/report.py [--limit SECONDS]

Results are made by the real functions out of simulated outputs; only the report is timed. Ends with 1 when the report of 512 nodes
takes longer than the limit (10 s) or its page is larger than 5 MiB.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".build" / "collections"))

from ansible_collections.k8si.fabric.plugins.plugin_utils import (
    report,
    report_settings,
)
from ansible_collections.k8si.fabric.tests.unit.plugins.plugin_utils import (
    report_cases,
)

RUNS = (
    ("2 nodes", {"nodes": 2}),
    ("16 nodes, 4 rails", {"nodes": 16, "rails": 4, "passes": 3}),
    ("64 nodes, 8 rails", {"nodes": 64, "rails": 8}),
    ("512 nodes, adaptive", {"nodes": 512, "passes": 2, "slow_nodes": {"gpu-node-77": 0.5}}),
    ("512 nodes, both tests", {"nodes": 512, "passes": 2}),
    ("512 nodes, 4 rails", {"nodes": 512, "rails": 4}),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=10.0)
    limit = parser.parse_args().limit
    settings, _problems = report_settings.make_settings({})
    context = {"run": "bench", "now": "2026-03-02T10:00:00Z"}
    too_much = []
    report.make_report({"tests": []}, settings, context)  # templates are compiled once
    print(
        f"{'':<24}{'links':>7}{'seconds':>9}{'CPU s':>8}{'JSON kB':>9}{'HTML kB':>9}{'other kB':>9}"
    )
    for name, shape in RUNS:
        facts = report_cases.results(**shape)
        wall, cpu = time.perf_counter(), time.process_time()
        files = report.make_report(facts, settings, context)["files"]
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        sizes = {k: len(v.encode()) for k, v in files.items()}
        html = sizes.pop("report.html")
        links = sum(len(t["links"]) for t in facts["tests"])
        rest = sum(sizes.values()) - sizes["results.json"]
        print(
            f"{name:<24}{links:>7}{wall:>9.2f}{cpu:>8.2f}{sizes['results.json'] / 1e3:>9.0f}{html / 1e3:>9.0f}{rest / 1e3:>9.0f}"
        )
        if wall > limit or html > 5 * 2**20:
            too_much.append(name)
    for name in too_much:
        print(f"{name}: over the limit of {limit:g} s or 5 MiB", file=sys.stderr)
    return 1 if too_much else 0


if __name__ == "__main__":
    sys.exit(main())
