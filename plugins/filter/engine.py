# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of the engine that rdma_test and gpudirect_test share.

Each calls one function of plugin_utils; their documentation lies beside this file, one <filter>.yml each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.k8si.fabric.plugins.plugin_utils import (
    commands,
    endpoints,
    filter_errors,
    fleet,
    nodes,
    probe,
    rounds,
    settings,
    verdicts,
    words,
)
from ansible_collections.k8si.fabric.plugins.plugin_utils.readiness_plain import plain


def _links(judged: list[str]) -> list[dict]:
    """All links of rounds that were kept as JSON texts, one a round.

    Ansible copies and checks a fact value by value each time that it is set: a list of texts costs it nothing, a growing list of
    links with all their rows costs seconds.
    """
    return [link for text in judged for link in json.loads(text)]


def _judge_round(links: list[dict], results: list[dict], ends: list[dict], test: dict) -> str:
    return json.dumps(plain(verdicts.judge_round(links, results, ends, test)))


def _round_repeats(judged: str) -> list[dict]:
    return rounds.repeats(json.loads(judged))


def _with_repeats(judged: str, again: str) -> str:
    return json.dumps(rounds.with_repeats(json.loads(judged), json.loads(again)))


def _round_summary(judged: str, last: int) -> str:
    links = json.loads(judged)
    return words.round_summary(links, len(links), words.round_numbers(links, last))


def _test_rounds(ends: list[dict], test: dict, judged: list[str] | None = None) -> list[list[dict]]:
    """The rounds of the plan; with the rounds judged so far, those of the next wave of retests."""
    if judged is None:
        return rounds.there_and_back(rounds.plan_rounds(ends, test))
    return rounds.there_and_back(rounds.plan_retests(_links(judged), ends, test))


def _test_result(state: dict, test: dict) -> dict:
    links = _links(state["links"])
    rounds_run = len({k["round"] for k in links})
    return verdicts.conclude({**state, "links": links, "rounds": rounds_run}, test)


def _skipped_result(test: str, host_result: dict) -> dict:
    return verdicts.skipped_result(
        test,
        "cuda",
        "host_test_not_passed",
        f"not tested: the test in host memory is {host_result['verdict']} ({host_result['reason']})",
    )


FILTERS: dict[str, Callable[..., Any]] = {
    "choose_test_nodes": nodes.choose_nodes,
    "explain_result": words.explain_result,
    "failed_task_finding": verdicts.failed_task_finding,
    "judge_round": _judge_round,
    "pods_not_running": lambda states, test: nodes.not_running(states, test["pod_timeout_s"]),
    "probe_items": commands.probe_items,
    "round_items": commands.round_items,
    "round_repeats": _round_repeats,
    "round_summary": _round_summary,
    "round_title": words.round_title,
    "shorten_script": probe.shorten,
    "skipped_result": _skipped_result,
    "test_endpoints": endpoints.build_endpoints,
    "test_pod_resources": nodes.needed_resources,
    "test_pod_states": nodes.pod_states,
    "test_remarks": fleet.remarks,
    "test_result": _test_result,
    "test_rounds": _test_rounds,
    "test_settings": settings.make_settings,
    "with_repeats": _with_repeats,
}


class FilterModule:
    """Entry point of Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return filter_errors.named(FILTERS, AnsibleFilterError)
