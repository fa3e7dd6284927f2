# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document as Prometheus text, for the textfile collector of node_exporter. Pure.

Units are Prometheus' base units: bytes per second (1 Gb/s is 125,000,000 of them) and seconds. Labels are names of tests,
verdicts, rails and nodes. Series of links are bounded (`MOST_LINKS`); those of nodes are one for each node, test and rail.
"""

from __future__ import annotations

from ansible_collections.k8si.fabric.plugins.plugin_utils.report_text import moment, natural

BYTES_PER_SECOND = 125_000_000  # of 1 Gb/s
# Links of a test that get series of their own: first what did not pass, then the slowest.
MOST_LINKS = 500
VERDICTS = ("passed", "slow", "failed", "skipped")
STATUSES = ("passed", "failed", "advice", "skipped")


class _Text:
    """Collects metrics: each gets HELP and TYPE once, and every series once."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def gauge(self, name: str, words: str, samples: list[tuple[dict, float | None]]) -> None:
        known = {}
        for labels, value in samples:
            if value is not None:
                known.setdefault(tuple(labels.items()), value)
        if not known:
            return
        self.lines += [f"# HELP {name} {words}", f"# TYPE {name} gauge"]
        for labels, value in known.items():
            inside = ",".join(f'{k}="{_escaped(str(v))}"' for k, v in labels)
            self.lines.append(f"{name}{'{' + inside + '}' if inside else ''} {_number(value)}")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def to_prometheus(document: dict) -> str:
    """The metrics, all gauges: they say how the last run went."""
    text, run, answer = _Text(), document["run"], document["answer"]
    text.gauge(
        "fabric_validation_fit",
        "Whether the network is fit for training (1) or not (0); absent where no test was run.",
        [({}, float(answer["fit"]))] if answer["verdict"] != "not_measured" else [],
    )
    text.gauge(
        "fabric_validation_info",
        "Always 1; the labels say which run this is.",
        [({"run": run["id"], "version": document["generator"]["version"]}, 1)],
    )
    text.gauge(
        "fabric_validation_timestamp_seconds",
        "When the run ended, in seconds since the epoch.",
        [({}, moment(run["ended"]))],
    )
    text.gauge(
        "fabric_validation_duration_seconds", "How long the run took.", [({}, run["duration_s"])]
    )
    if document["readiness"]:
        _readiness(text, document)
    if document["tests"]:
        _tests(text, document["tests"])
    _nodes(text, document["nodes"])
    _links(text, document["tests"])
    return "\n".join([*text.lines, ""])


def _readiness(text: _Text, document: dict) -> None:
    text.gauge(
        "fabric_readiness_passed",
        "Whether the cluster is ready for the tests (1) or not (0).",
        [({}, float(document["readiness"]["passed"]))],
    )
    text.gauge(
        "fabric_readiness_checks",
        "Readiness checks by status.",
        [({"status": s}, document["counts"]["checks"][s]) for s in STATUSES],
    )


def _tests(text: _Text, tests: list[dict]) -> None:
    text.gauge(
        "fabric_test_verdict",
        "1 for the verdict of the test, 0 for the others.",
        [
            ({"test": t["test"], "verdict": v}, float(t["verdict"] == v))
            for t in tests
            for v in VERDICTS
        ],
    )
    durations = []
    for test in tests:
        started, ended = moment(test["started"]), moment(test["ended"])
        known = started is not None and ended is not None
        durations.append(({"test": test["test"]}, ended - started if known else None))
    text.gauge("fabric_test_duration_seconds", "How long the test took.", durations)
    text.gauge(
        "fabric_test_links",
        "Links of the test by verdict.",
        [
            ({"test": t["test"], "verdict": v}, sum(k["verdict"] == v for k in t["links"]))
            for t in tests
            for v in VERDICTS
        ],
    )
    text.gauge(
        "fabric_test_findings",
        "Findings of the test.",
        [({"test": t["test"]}, len(t["findings"])) for t in tests],
    )


def _nodes(text: _Text, nodes: list[dict]) -> None:
    rows = [
        ({"node": n["name"], "test": r["test"], "rail": r["rail"]}, r)
        for n in nodes
        for r in n["rails"]
    ]
    for which in ("best", "worst"):
        text.gauge(
            f"fabric_node_{which}_bandwidth_bytes_per_second",
            f"Average bandwidth of the node's {which} link on the rail.",
            [(labels, _bytes(r[f"{which}_gbps"])) for labels, r in rows],
        )
    text.gauge(
        "fabric_node_passed",
        "Whether the node passed on the rail (1) or not (0).",
        [(labels, float(r["verdict"] == "passed")) for labels, r in rows],
    )


def _links(text: _Text, tests: list[dict]) -> None:
    rows, left_out = [], []
    for test in tests:
        # a link that was measured more than once is one series, with what was worst
        worst = {k["id"]: k for k in sorted(test["links"], key=_first, reverse=True)}
        links = sorted(worst.values(), key=_first)
        left_out.append(({"test": test["test"]}, max(0, len(links) - MOST_LINKS)))
        for link in links[:MOST_LINKS]:
            labels = {
                "test": test["test"],
                "rail": link["rail"],
                "server": link["server_node"],
                "client": link["client_node"],
            }
            rows.append((labels, link))
    text.gauge(
        "fabric_link_bandwidth_bytes_per_second",
        "Average bandwidth of the link at its best message size.",
        [(labels, _bytes(k["bandwidth_average_gbps"])) for labels, k in rows],
    )
    text.gauge(
        "fabric_link_threshold_bytes_per_second",
        "Bandwidth that the link has to reach.",
        [(labels, _bytes(k["threshold_gbps"])) for labels, k in rows],
    )
    text.gauge(
        "fabric_link_passed",
        "Whether the link passed (1) or not (0).",
        [(labels, float(k["verdict"] == "passed")) for labels, k in rows],
    )
    text.gauge(
        "fabric_test_links_without_series",
        "Links of the test that have no series of their own here, because there are too many.",
        left_out,
    )


def _first(link: dict) -> tuple:
    figure = link["bandwidth_average_gbps"]
    return (link["verdict"] == "passed", 0.0 if figure is None else figure, natural(link["id"]))


def _bytes(gbps: float | None) -> float | None:
    return None if gbps is None else round(gbps * BYTES_PER_SECOND)
