# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changed since an earlier run: what got worse, better, appeared, vanished. Pure."""

from __future__ import annotations

import math

from ansible_collections.k8si.fabric.plugins.plugin_utils.evidence import lane_of
from ansible_collections.k8si.fabric.plugins.plugin_utils.report_text import count, natural
from ansible_collections.k8si.fabric.plugins.plugin_utils.words import gbps, place

# The order is that of urgency, and of the lists in reports.
CHANGES = ("worse", "vanished", "better", "appeared")
# A link that is skipped says less than one that failed, and neither is better than the other.
_RANK = {"passed": 0, "slow": 1, "failed": 2, "skipped": 2}
_CHECK_RANK = {"passed": 0, "advice": 1, "skipped": 1, "failed": 2}
_PARAMETERS = (
    *("tool", "sizes", "duration_s", "iterations", "qps", "bidirectional", "rdma_cm"),
    *("image", "threshold_percent", "threshold_gbps", "cuda_method", "extra_options"),
)


def compare(now: dict, before: dict, tolerance_percent: float) -> dict:
    """Compares two documents.

    A link is the same when test, rail, server node and client node are. It is worse or better when its verdict is, or,
    with the same verdict, when its bandwidth moved by more than `tolerance_percent` of the earlier figure.

    Returns:
        {run, started (of the earlier run), tolerance_percent, counts {worse, better, appeared, vanished, unchanged},
        sentence, parameters [{test, name, before, now}], changes [{change, kind (test, link, check or finding), id, test,
        before, now, difference_percent, words}]}, the most urgent first. A test that measured nothing in one of the runs is one
        change, not one for each link.
    """
    tests, told = _tests(now, before)
    links, same_links = _links(now, before, tolerance_percent, told)
    checks, same_checks = _checks(now, before)
    changes = tests + links + checks + _findings(now, before, told)
    changes.sort(key=_urgency)
    counts = {c: sum(x["change"] == c for x in changes) for c in CHANGES}
    counts["unchanged"] = same_links + same_checks
    run = (before.get("run") or {}).get("id") or "unknown"
    started = (before.get("run") or {}).get("started")
    total = ", ".join(f"{n} {c}" for c, n in counts.items() if n) or "nothing to compare"
    return {
        "run": str(run),
        "started": started,
        "tolerance_percent": tolerance_percent,
        "counts": counts,
        "sentence": f"Compared with run {run}{f' of {started}' if started else ''}: {total}",
        "parameters": _parameters(now, before),
        "changes": changes,
    }


def _urgency(change: dict) -> tuple:
    drop = change["difference_percent"]
    return (
        CHANGES.index(change["change"]),
        ("test", "finding", "check", "link").index(change["kind"]),
        0 if drop is None else drop if change["change"] == "worse" else -drop,
        natural(change["id"]),
    )


def _by_key(document: dict) -> dict[tuple, dict]:
    """Links by (test, lane, server node, client node); of several the worst."""
    found: dict[tuple, dict] = {}
    for test in document["tests"]:
        for link in test.get("links") or []:
            key = (test.get("test"), lane_of(link), link["server_node"], link["client_node"])
            other = found.get(key)
            if other is None or _badness(link) > _badness(other):
                found[key] = link
    return found


def _badness(link: dict) -> tuple:
    figure = link.get("bandwidth_average_gbps")
    return (_RANK.get(link["verdict"], 2), math.inf if figure is None else -figure)


def _tests(now: dict, before: dict) -> tuple[list[dict], set[str]]:
    """Tests that measured links in one of the runs only, and their names."""
    new, old = ({t.get("test"): t for t in d["tests"]} for d in (now, before))
    changes, told = [], set()
    for name in {**old, **new}:
        a, b = old.get(name), new.get(name)
        links = [len((t or {}).get("links") or []) for t in (a, b)]
        if bool(links[0]) == bool(links[1]):
            continue
        told.add(name)
        states = [_test_state(t) for t in (a, b)]
        change = "appeared" if links[1] else "vanished"
        words = f"test {name} {'was not measured before' if links[1] else 'was not measured'}: before {states[0]}, now {states[1]}"
        changes.append(_change(change, "test", name, name, *states, words))
    return changes, told


def _test_state(test: dict | None) -> str:
    if test is None:
        return "not run"
    links = len(test.get("links") or [])
    reason = test.get("reason")
    words = f"{test.get('verdict')}, {count(links, 'link')}"
    return f"{words} ({reason})" if reason else words


def _links(now: dict, before: dict, tolerance: float, told: set[str]) -> tuple[list[dict], int]:
    new, old = _by_key(now), _by_key(before)
    changes, same = [], 0
    for key in {**old, **new}:
        test, (client_rail, rail), server, client = key
        if test in told:
            continue
        rails = f"rail {rail}" if client_rail == rail else f"rail {client_rail} to rail {rail}"
        what = f"{test}, {rails}: {client} to {server}"
        a, b = old.get(key), new.get(key)
        difference = _difference(a, b)
        if a is None:
            change = "appeared"
        elif b is None:
            change = "vanished"
        else:
            change = _direction(a, b, difference, tolerance)
        if change is None:
            same += 1
            continue
        words = f"{what} {_words(change, _state(a), _state(b))}"
        if difference is not None:
            words += f" ({difference:+.1f} %)"
        changes.append(_change(change, "link", what, test, _state(a), _state(b), words, difference))
    return changes, same


def _difference(a: dict | None, b: dict | None) -> float | None:
    figures = [(k or {}).get("bandwidth_average_gbps") for k in (a, b)]
    if not figures[0] or figures[1] is None:
        return None
    return round((figures[1] - figures[0]) / figures[0] * 100, 2)


def _direction(a: dict, b: dict, difference: float | None, tolerance: float) -> str | None:
    ranks = _RANK.get(a["verdict"], 2), _RANK.get(b["verdict"], 2)
    if ranks[0] != ranks[1]:
        return "worse" if ranks[1] > ranks[0] else "better"
    if difference is None or abs(difference) <= tolerance:
        return None
    return "worse" if difference < 0 else "better"


def _state(link: dict | None) -> str | None:
    if link is None:
        return None
    figure = link.get("bandwidth_average_gbps")
    if figure is None:
        return f"{link['verdict']} ({link.get('code') or 'no reason'})"
    return f"{link['verdict']} {gbps(figure)} Gb/s"


def _words(change: str, before: str | None, now: str | None) -> str:
    if change == "appeared":
        return f"appeared: {now}"
    if change == "vanished":
        return f"vanished: was {before}"
    return f"got {change}: {before}, now {now}"


def _change(change, kind, name, test, before, now, words, difference=None) -> dict:
    return {
        "change": change,
        "kind": kind,
        "id": name,
        "test": test,
        "before": before,
        "now": now,
        "difference_percent": difference,
        "words": words,
    }


def _checks(now: dict, before: dict) -> tuple[list[dict], int]:
    """Checks by id; one that found several things counts as its worst. Only where both runs checked readiness."""
    if not now.get("readiness") or not before.get("readiness"):
        return [], 0
    new, old = _statuses(now), _statuses(before)
    changes, same = [], 0
    for key in {**old, **new}:
        a, b = old.get(key), new.get(key)
        change = None
        if a is None or b is None:
            change = "appeared" if a is None else "vanished"
        elif _CHECK_RANK.get(a, 1) != _CHECK_RANK.get(b, 1):
            change = "worse" if _CHECK_RANK.get(b, 1) > _CHECK_RANK.get(a, 1) else "better"
        if change is None:
            same += 1
            continue
        words = f"readiness check {key} {_words(change, a, b)}"
        changes.append(_change(change, "check", key, "readiness", a, b, words))
    return changes, same


def _statuses(document: dict) -> dict[str, str]:
    found: dict[str, str] = {}
    for check in document["readiness"].get("checks") or []:
        status = check["status"]
        other = found.get(check["id"])
        if other is None or _CHECK_RANK.get(status, 1) > _CHECK_RANK.get(other, 1):
            found[check["id"]] = status
    return found


def _findings(now: dict, before: dict, told: set[str]) -> list[dict]:
    """Findings of tests by test, code and place. One that vanished is an improvement, one that appeared is not."""
    new, old = (
        {
            _finding_id(f): f
            for f in d.get("findings") or []
            if f.get("source") != "readiness" and f.get("source") not in told
        }
        for d in (now, before)
    )
    changes = []
    for key, finding in new.items():
        if key not in old:
            words = f"new finding: {key}"
            changes.append(
                _change(
                    "worse", "finding", key, finding.get("source"), None, finding.get("seen"), words
                )
            )
    for key, finding in old.items():
        if key not in new:
            words = f"finding gone: {key}"
            changes.append(
                _change(
                    "better",
                    "finding",
                    key,
                    finding.get("source"),
                    finding.get("seen"),
                    None,
                    words,
                )
            )
    return changes


def _finding_id(finding: dict) -> str:
    code = finding.get("code")
    if finding.get("localisation"):
        code = f"{finding['localisation']}: {code}"
    where = {
        k: v for k, v in (finding.get("where") or {}).items() if k in ("node", "nodes", "rail")
    }
    return f"{finding.get('source')}, {code}" + (f" ({place(where)})" if where else "")


def _parameters(now: dict, before: dict) -> list[dict]:
    """Parameters that differ: figures of runs with different ones may not be comparable."""
    old = {t.get("test"): t.get("parameters") or {} for t in before["tests"]}
    return [
        {
            "test": test["test"],
            "name": name,
            "before": old[test["test"]][name],
            "now": test["parameters"][name],
        }
        for test in now["tests"]
        for name in _PARAMETERS
        if name in test["parameters"]
        and name in old.get(test["test"], {})
        and old[test["test"]][name] != test["parameters"][name]
    ]
