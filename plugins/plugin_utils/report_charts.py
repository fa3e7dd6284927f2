# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Geometry of the charts in report.html: numbers in, coordinates of an SVG out. Pure; templates only draw them.

Every chart is {width, height, left, right, top, bottom (of the plot area), x_ticks, y_ticks ([{at, label}]), …}.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import quantiles

from ansible_collections.k8si.fabric.plugins.plugin_utils.report_rounds import span
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_text import count, moment
from ansible_collections.k8si.fabric.plugins.plugin_utils.words import gbps

WIDTH, HEIGHT = 760, 280
LEFT, RIGHT, TOP, BOTTOM = 56, 744, 24, 236
# So many curves can be told apart by eye; of more, a band is drawn, and those that did not pass.
MOST_CURVES = 12
MOST_PAIRS = 24
MOST_THRESHOLDS = 3


def nice_step(extent: float, about: int) -> float:
    """A step of 1, 2 or 5 times a power of ten that divides `extent` into about so many parts."""
    if extent <= 0:
        return 1.0
    raw = extent / about
    power = 10.0 ** math.floor(math.log10(raw))
    return next((m * power for m in (1, 2, 5) if m * power >= raw * 0.999), 10 * power)


class _Scale:
    """A linear scale from values to coordinates, with ticks."""

    def __init__(self, low: float, high: float, start: float, end: float, about: int = 6) -> None:
        self.step = nice_step(high - low, about)
        self.low, self.high = low, high if high > low else low + 1
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[dict]:
        first = math.ceil(self.low / self.step - 1e-9)
        last = math.floor(self.high / self.step + 1e-9)
        return [
            {"at": self(n * self.step), "label": f"{round(n * self.step, 6):g}"}
            for n in range(first, last + 1)
        ]


def _chart(**parts) -> dict:
    frame = {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": RIGHT,
        "top": TOP,
        "bottom": BOTTOM,
    }
    return {**frame, **parts}


def _thresholds(links: Iterable[dict], scale: _Scale) -> list[dict]:
    """The thresholds of some links, each once, the most common first."""
    known: dict[float, int] = {}
    for link in links:
        limit = link["threshold_gbps"]
        if limit is not None:
            known[limit] = known.get(limit, 0) + 1
    common = sorted(known, key=lambda k: (-known[k], k))[:MOST_THRESHOLDS]
    return [{"at": scale(v), "label": f"{v:g} required"} for v in sorted(common)]


def _measured(links: list[dict]) -> list[dict]:
    return [k for k in links if k["bandwidth_average_gbps"] is not None]


def size_label(number: int) -> str:
    """`2`, `4 Ki`, `8 Mi`: a message size in bytes."""
    for factor, unit in ((1 << 30, " Gi"), (1 << 20, " Mi"), (1 << 10, " Ki")):
        if number >= factor and number % factor == 0:
            return f"{number // factor}{unit}"
    return str(number)


def distribution(links: list[dict]) -> dict | None:
    """A histogram of the links' bandwidth, what passed and what is slow stacked, with the threshold."""
    measured = _measured(links)
    if not measured:
        return None
    values = [k["bandwidth_average_gbps"] for k in measured]
    marks = [k["threshold_gbps"] for k in measured if k["threshold_gbps"] is not None]
    low, high = min(values + marks), max(values + marks)
    pad = max((high - low) * 0.05, high * 0.005, 0.001)
    step = nice_step(high - low + 2 * pad, 36)
    low = math.floor(max(0.0, low - pad) / step) * step
    bins = max(1, math.ceil((high + pad - low) / step))
    x = _Scale(low, low + bins * step, LEFT, RIGHT, 8)
    counts = [{"passed": 0, "slow": 0} for _unused in range(bins)]
    for link in measured:
        index = min(bins - 1, int((link["bandwidth_average_gbps"] - low) / step))
        counts[index]["passed" if link["verdict"] == "passed" else "slow"] += 1
    most = max(c["passed"] + c["slow"] for c in counts)
    y = _Scale(0, most, BOTTOM, TOP, 5)
    y.step = max(1.0, y.step)
    bars = []
    for index, both in enumerate(counts):
        if not any(both.values()):
            continue
        first = low + index * step
        words = f"{first:g} to {first + step:g} Gb/s: {count(sum(both.values()), 'link')}"
        base = 0
        for verdict, number in both.items():
            if number:
                # a single link among thousands must still be seen
                bottom = y(base)
                top = min(y(base + number), bottom - 4)
                bars.append(
                    {
                        "x": x(first) + 0.5,
                        "width": round(x(first + step) - x(first) - 1, 1),
                        "y": top,
                        "height": round(bottom - top, 1),
                        "verdict": verdict,
                        "words": f"{words}, {number} {verdict}",
                    }
                )
                base += number
    unmeasured = len(links) - len(measured)
    return _chart(
        x_ticks=x.ticks(),
        y_ticks=y.ticks(),
        bars=bars,
        thresholds=_thresholds(measured, x),
        note=f"{count(unmeasured, 'link')} without a figure" if unmeasured else "",
    )


def curves(links: list[dict]) -> dict | None:
    """Bandwidth against message size: each link, or of many the middle, a band, and the worst.

    `select` holds what a page needs to draw any of the links: coordinates of the sizes, and of each link {label, verdict,
    ys}; a size that was not measured is None.
    """
    sizes = sorted({r["bytes"] for k in links for r in k["rows"] if r.get("bytes")})
    tables = []
    for link in links:
        table = {
            r["bytes"]: r["bandwidth_average_gbps"]
            for r in link["rows"]
            if r.get("bytes") and r.get("bandwidth_average_gbps") is not None
        }
        if table:
            tables.append((link, table))
    if len(sizes) < 2 or not tables:
        return None
    highest = max(
        [v for _k, t in tables for v in t.values()] + [k["threshold_gbps"] or 0 for k, _t in tables]
    )
    logs = [math.log2(s) for s in sizes]
    x = _Scale(logs[0], logs[-1], LEFT, RIGHT)
    y = _Scale(0, highest * 1.05, BOTTOM, TOP)
    at = {s: x(math.log2(s)) for s in sizes}

    def path(points: list[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{a:g},{b:g}" for a, b in points)

    def line(link: dict, table: dict) -> dict:
        return {
            "path": path([(at[s], y(table[s])) for s in sizes if s in table]),
            "verdict": link["verdict"],
            "words": f"{link['id']}: {link['verdict']}, {gbps(link['bandwidth_average_gbps'])} Gb/s",
        }

    few = len(tables) <= MOST_CURVES
    bad = [(k, t) for k, t in tables if k["verdict"] != "passed"]
    bad.sort(key=lambda kt: (kt[0]["bandwidth_average_gbps"] or 0.0, kt[0]["id"]))
    chart = _chart(
        x_ticks=[{"at": at[s], "label": size_label(s)} for s in sizes[:: -(-len(sizes) // 12)]],
        y_ticks=y.ticks(),
        lines=[line(k, t) for k, t in (tables if few else bad[:MOST_CURVES])],
        band="",
        middle="",
        thresholds=[{"at": v["at"], "label": v["label"]} for v in _thresholds(links, y)],
        select={
            "xs": [at[s] for s in sizes],
            "links": [
                {
                    "label": k["id"],
                    "verdict": k["verdict"],
                    "ys": [y(t[s]) if s in t else None for s in sizes],
                }
                for k, t in tables
            ],
        },
    )
    if not few:
        spread = []
        for size in sizes:
            values = [t[size] for _k, t in tables if size in t]
            tenths = quantiles(values, n=10, method="inclusive") if len(values) > 1 else values * 9
            spread.append((at[size], y(tenths[0]), y(tenths[4]), y(tenths[8])))
        chart["middle"] = path([(a, m) for a, _l, m, _h in spread])
        upper = [(a, h) for a, _l, _m, h in spread]
        lower = [(a, lo) for a, lo, _m, _h in reversed(spread)]
        chart["band"] = path(upper + lower) + "Z"
    return chart


def host_and_gpu(host: list[dict], gpu: list[dict]) -> dict | None:
    """GPU memory against host memory, of the links that were measured in both.

    With few links {kind: bars, rows: [{label, host, gpu (of {width, words})}]}; with many {kind: points}.
    """
    known = {(k["rail"], k["server_node"], k["client_node"]): k for k in _measured(host)}
    pairs = []
    for link in _measured(gpu):
        other = known.get((link["rail"], link["server_node"], link["client_node"]))
        if other:
            pairs.append((other, link))
    if not pairs:
        return None
    both = [(h["bandwidth_average_gbps"], g["bandwidth_average_gbps"]) for h, g in pairs]
    high = max(v for pair in both for v in pair)
    shares = sorted(g / h * 100 for h, g in both if h)
    note = (
        f"{count(len(pairs), 'link')} measured in both; GPU memory reaches {shares[0]:.1f} % (lowest) to"
        f" {shares[-1]:.1f} % (highest) of host memory"
        if shares
        else ""
    )

    def words(pair: tuple[dict, dict]) -> str:
        h, g = pair
        return f"{g['id']}: host {gbps(h['bandwidth_average_gbps'])}, GPU {gbps(g['bandwidth_average_gbps'])} Gb/s"

    if len(pairs) <= MOST_PAIRS:
        x = _Scale(0, high * 1.02, 250, RIGHT)
        rows = []
        for number, pair in enumerate(pairs):
            rows.append(
                {
                    "label": pair[1]["id"],
                    "y": TOP + number * 30,
                    "host": x(pair[0]["bandwidth_average_gbps"]),
                    "gpu": x(pair[1]["bandwidth_average_gbps"]),
                    "gpu_verdict": pair[1]["verdict"],
                    "words": words(pair),
                }
            )
        bottom = TOP + len(pairs) * 30
        return _chart(
            kind="bars",
            rows=rows,
            x_ticks=x.ticks(),
            left=250,
            bottom=bottom,
            height=bottom + 44,
            note=note,
        )
    low = min(v for pair in both for v in pair)
    pad = max((high - low) * 0.06, high * 0.005)
    x = _Scale(max(0.0, low - pad), high + pad, LEFT, RIGHT, 8)
    y = _Scale(max(0.0, low - pad), high + pad, BOTTOM + 80, TOP)
    return _chart(
        kind="points",
        points=[
            {
                "x": x(h["bandwidth_average_gbps"]),
                "y": y(g["bandwidth_average_gbps"]),
                "verdict": g["verdict"],
                "words": words((h, g)),
            }
            for h, g in pairs[:2000]
        ],
        x_ticks=x.ticks(),
        y_ticks=y.ticks(),
        diagonal=(x(x.low), y(x.low), x(x.high), y(x.high)),
        bottom=BOTTOM + 80,
        height=HEIGHT + 80,
        note=note,
    )


def over_time(test: dict) -> dict | None:
    """Every link at the moment of its measurement, the rounds as bands."""
    spans = [(k, *span(k)) for k in test["links"]]
    starts = [s for _k, s, _e in spans if s is not None]
    if not starts:
        return None
    origin = min(starts)
    last = max(e for _k, _s, e in spans if e is not None)
    values = [k["bandwidth_average_gbps"] for k in _measured(test["links"])]
    limits = [k["threshold_gbps"] for k in test["links"] if k["threshold_gbps"] is not None]
    high = max(values + limits, default=1.0)
    low = min(values + limits, default=0.0)
    pad = max((high - low) * 0.08, high * 0.005)
    x = _Scale(0, max(last - origin, 1.0), LEFT, RIGHT, 10)
    y = _Scale(max(0.0, low - pad), high + pad, BOTTOM, TOP)
    points = []
    for link, start, end in spans:
        if start is None:
            continue
        figure = link["bandwidth_average_gbps"]
        points.append(
            {
                "x": x((start + end) / 2 - origin),
                "y": BOTTOM - 4 if figure is None else y(figure),
                "verdict": link["verdict"],
                "words": f"{link['id']}: {link['verdict']}, {gbps(figure)} Gb/s, after {start - origin:.0f} s",
            }
        )
    bands = []
    for number, entry in enumerate(test["rounds"]):
        start, end = moment(entry["started"]), moment(entry["ended"])
        if start is not None and end is not None:
            a = x(max(0.0, start - origin))
            b = x(min(last - origin, end + 1 - origin))
            bands.append(
                {
                    "x": a,
                    "width": round(max(b - a, 1), 1),
                    "label": entry["number"],
                    "even": number % 2 == 0,
                }
            )
    wide = all(b["width"] > 16 for b in bands)
    return _chart(
        x_ticks=x.ticks(),
        y_ticks=y.ticks(),
        points=points,
        bands=bands,
        number_bands=wide,
        thresholds=_thresholds(test["links"], y),
    )
