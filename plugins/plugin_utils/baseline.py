# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An earlier run as a threshold: a link must not be slower than it was. Pure.

The report compares two whole runs (`report_compare`); here each link is judged against its own figure while the test runs, so
that a link which got slower is measured again and localised like any other that is slow.
"""

from __future__ import annotations

from ansible_collections.k8si.fabric.plugins.plugin_utils.results_file import read_results

# With another value of one of these, the figures of two runs are not of the same thing.
SAME = ("tool", "sizes", "qps", "bidirectional", "rail_mode")
_NAMED = 5


def make_baseline(text: str, name: str, settings: dict, tolerance_percent: float) -> dict:
    """What an earlier run says of the links of this test.

    Args:
        text: its results.json. name: the file, for words. settings: of this test (`test`, `tool` and what else is in `SAME`).
        tolerance_percent: how much slower than then is not worth a word.

    Returns:
        {`run`, `started` (ISO 8601 or null), `tolerance_percent`, `figures`: {link id: Gb/s, or µs for latency tools}}; of a link
        that was measured several times the best. Empty figures: that run did not measure this test.

    Raises:
        ValueError: the text is no results.json, or that run measured with other parameters.
    """
    document = read_results(text, name)
    tests = [
        t for t in document["tests"] if isinstance(t, dict) and t.get("test") == settings["test"]
    ]
    links = [k for t in tests for k in t.get("links") or []]
    latency = settings["tool"].endswith("_lat")
    measure, better = ("latency_us", min) if latency else ("bandwidth_average_gbps", max)
    figures: dict[str, float] = {}
    for link in links:
        if link.get(measure) is not None:
            figure = float(link[measure])
            figures[link["id"]] = better(figure, figures.get(link["id"], figure))
    for test in tests if links else []:
        before = test.get("parameters") or {}
        differ = [n for n in SAME if n in before and before[n] != settings[n]]
        if differ:
            words = ", ".join(f"{n} {before[n]!r} then, {settings[n]!r} now" for n in differ)
            raise ValueError(f"{name} was measured with other parameters: {words}")
    run = document.get("run") or {}
    return {
        "run": str(run.get("id") or "unknown"),
        "started": run.get("started"),
        "tolerance_percent": tolerance_percent,
        "figures": figures,
    }


def limit(link_id: str, settings: dict) -> dict | None:
    """{`figure`, `words`} that a link must reach, or for latency tools stay below; null where there is nothing to compare with."""
    baseline = settings["baseline"]
    figure = baseline and baseline["figures"].get(link_id)
    if not figure:
        return None
    latency = settings["tool"].endswith("_lat")
    share = 100 + (baseline["tolerance_percent"] if latency else -baseline["tolerance_percent"])
    return {
        "figure": round(figure * share / 100, 2),
        "words": f"{share:g} % of {figure:g} {'µs' if latency else 'Gb/s'}, the same link in {_run(baseline)}",
    }


def notes(links: list[dict], settings: dict) -> list[str]:
    """Sentences about links that could not be compared; none without a baseline."""
    baseline = settings["baseline"]
    measured = list(dict.fromkeys(k["id"] for k in links if k["verdict"] != "failed"))
    if not baseline or not measured:
        return []
    new = [name for name in measured if not baseline["figures"].get(name)]
    if not new:
        return []
    known = f"{len(measured) - len(new)} of {len(measured)} links could be compared with {_run(baseline)}"
    more = f" and {len(new) - _NAMED} more" if len(new) > _NAMED else ""
    return [f"{known}; held against the threshold alone: {', '.join(new[:_NAMED])}{more}"]


def _run(baseline: dict) -> str:
    started = baseline["started"]
    return f"run {baseline['run']}{f' of {started}' if started else ''}"
