# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the parser takes: a corpus of 1,000 outputs, and 1 MiB in one text.

    python tests/bench/parser.py    fails if the corpus takes 2 s or the MiB 1 s of one core

The corpus is made of the real runs among the unit tests' fixtures, over and over.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".build" / "collections"))
CAPTURES = ROOT / "tests" / "unit" / "plugins" / "plugin_utils" / "fixtures" / "captures"
FILES = 1000


def main() -> int:
    from ansible_collections.k8si.fabric.plugins.plugin_utils.diagnosis import judge_run
    from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest import parse_perftest

    runs = [json.loads(path.read_text("utf-8")) for path in sorted(CAPTURES.glob("*.json"))]
    ends = [run[side] for run in runs for side in ("server", "client") if run[side]]
    corpus = list(itertools.islice(itertools.cycle(ends), FILES))
    start = time.process_time()
    rows = sum(
        len(parse_perftest(end["stdout"], end["stderr"], end["rc"])["rows"]) for end in corpus
    )
    parsing = time.process_time() - start
    size = sum(len(end["stdout"]) + len(end["stderr"]) for end in corpus)

    start = time.process_time()
    for run in runs:
        judge_run(run["server"], run["client"])
    judging = time.process_time() - start

    largest = max((end["stdout"] for end in ends), key=lambda text: text.count("\t\t     "))
    text = largest * ((1 << 20) // len(largest) + 1)
    start = time.process_time()
    parse_perftest(text)
    mib = time.process_time() - start

    sys.stdout.write(
        f"{FILES} outputs ({size / 1024:.0f} KiB, {rows} rows): {parsing:.2f} s\n"
        f"{len(runs)} runs judged: {judging:.2f} s ({1000 * judging / len(runs):.1f} ms a run)\n"
        f"1 MiB of runs in one text: {mib:.2f} s\n"
    )
    return 0 if parsing < 2 and mib < 1 else 1


if __name__ == "__main__":
    sys.exit(main())
