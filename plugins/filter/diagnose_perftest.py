# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter k8si.fabric.diagnose_perftest; the work is done in plugin_utils/diagnosis.py."""

from __future__ import annotations

DOCUMENTATION = r"""
name: diagnose_perftest
short_description: Tell whether a perftest run measured its link, and if not, why
version_added: 0.1.0
author:
  - k8si.fabric contributors (@k8si)
description:
  - Takes the results of both ends of a run and judges them together. A run has measured its link only if the client's table is
    complete, in the right unit and with the sizes asked for, and the exit status says so too; on GPU memory, the output of both ends
    must prove that the buffer was there.
  - If it has not, the catalogue of failures names the cause. The first cause wins over its consequences, whichever end shows it.
    A text that the catalogue does not know gives the code V(unknown) with the first error lines of both ends.
positional: _input, client
options:
  _input:
    description:
      - Result of the server. A dictionary with C(stdout), and where known C(stderr), C(rc), C(command) (list), C(outcome), C(reason) and C(message),
        as M(k8si.fabric.k8s_exec_batch) returns it. A text counts as C(stdout).
      - An empty dictionary stands for an end that was never run.
    type: raw
    required: true
  client:
    description: Result of the client, likewise.
    type: raw
    required: true
  memory:
    description: Memory under test.
    type: str
    choices: [host, cuda]
    default: host
  host_passed:
    description: For V(cuda), whether the same link passed with host memory. Without it, nothing is concluded from it.
    type: bool
  expected_sizes:
    description: Message sizes in bytes that the table must hold. By default those that the command asks for.
    type: list
    elements: int
seealso:
  - plugin: k8si.fabric.parse_perftest
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Judge a run whose logs were saved
  ansible.builtin.set_fact:
    verdict: >-
      {{ {'stdout': lookup('ansible.builtin.file', 'server.log'), 'rc': 0}
         | k8si.fabric.diagnose_perftest({'stdout': lookup('ansible.builtin.file', 'client.log'), 'rc': 0}) }}

- name: Say why it failed and what to do
  ansible.builtin.debug:
    msg: "{{ verdict.finding.title }}. Cause: {{ verdict.finding.cause }}. Remedy: {{ verdict.finding.remedy }}"
  when: not verdict.measured
"""

RETURN = r"""
_value:
  description: The judgement.
  type: dict
  contains:
    measured:
      description: Whether the link was measured.
      type: bool
    rows:
      description: The client's own rows, as RV(k8si.fabric.parse_perftest#filter:_value.rows).
      type: list
      elements: dict
    best:
      description: The row with the fastest average, null if there is none.
      type: dict
      contains:
        bytes:
          description: Its message size in bytes.
          type: int
        bandwidth_average_gbps:
          description: Its average in Gb/s.
          type: float
    parsed:
      description: What both ends printed, as C(server) and C(client), each as k8si.fabric.parse_perftest returns it.
      type: dict
    finding:
      description: Why the link was not measured; null exactly if it was.
      type: dict
      contains:
        code:
          description: Reason code, the name of its place in C(docs/troubleshooting.md).
          type: str
        title:
          description: What it is, in a sentence.
          type: str
        side:
          description: V(server), V(client) or V(both).
          type: str
        where:
          description: What it is about.
          type: dict
        seen:
          description: What was seen.
          type: str
        line:
          description: The line that tells it.
          type: str
        lines:
          description: The first error lines of each end, as C(server) and C(client).
          type: dict
        cause:
          description: Likely cause.
          type: str
        remedy:
          description: What to do.
          type: str
        retry:
          description: Whether a wait or a second run may clear it.
          type: bool
        reference:
          description: Where the documentation tells more.
          type: str
        status:
          description: Completion status, where one was printed.
          type: int
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.k8si.fabric.plugins.plugin_utils.diagnosis import judge_run


def _result(value: object, side: str) -> dict:
    if isinstance(value, str):
        return {"stdout": value}
    if value is None:
        return {}
    if isinstance(value, dict):
        rc = value.get("rc")
        if rc is not None and (isinstance(rc, bool) or not isinstance(rc, int)):
            raise AnsibleFilterError(
                f"k8si.fabric.diagnose_perftest: rc of the {side} must be a whole number, not {rc!r}"
            )
        return value
    raise AnsibleFilterError(
        f"k8si.fabric.diagnose_perftest: the result of the {side} must be a dictionary with stdout, stderr and rc,"
        f" or a text, not {'a list' if isinstance(value, (list, tuple)) else type(value).__name__}"
    )


def _diagnose_perftest(
    server: object,
    client: object,
    memory: str = "host",
    host_passed: bool | None = None,
    expected_sizes: list[int] | None = None,
) -> dict:
    if memory not in ("host", "cuda"):
        raise AnsibleFilterError(
            f"k8si.fabric.diagnose_perftest: memory must be host or cuda, not {memory!r}"
        )
    if expected_sizes is not None and not (
        isinstance(expected_sizes, (list, tuple))
        and all(isinstance(size, int) and size > 0 for size in expected_sizes)
    ):
        raise AnsibleFilterError(
            f"k8si.fabric.diagnose_perftest: expected_sizes must be a list of sizes in bytes, not {expected_sizes!r}"
        )
    return judge_run(
        _result(server, "server"),
        _result(client, "client"),
        memory=memory,
        expected_sizes=None if expected_sizes is None else list(expected_sizes),
        host_passed=host_passed,
    )


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict:
        return {"diagnose_perftest": _diagnose_perftest}
