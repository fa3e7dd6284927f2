#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_exec_batch
short_description: Run many commands in many pods at once
version_added: 0.1.0
author:
  - k8si.fabric contributors (@k8si)
description:
  - Runs commands in containers of pods, all at the same time, over the API server's C(pods/exec).
  - Commands can wait for each other (a client for the server that it connects to) and end each other.
  - Every command has a time limit. When it is reached, the process in the pod is ended, not only the connection to it.
  - Standard output and standard error are kept apart and are what the command wrote, byte for byte.
  - How each command ended is data (RV(results[].outcome)), also if it could not be started. The module fails only if its arguments
    are wrong, a library is missing, or the API server cannot be reached at all.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
requirements:
  - python >= 3.9
  - kubernetes >= 28.1
  - PyYAML >= 3.11
options:
  namespace:
    description:
      - The namespace of the pods of items that name none.
    type: str
    default: default
  timeout:
    description:
      - Time limit, in seconds, of items that name none.
    type: float
    default: 60
  connections:
    description:
      - How many connections may be in the course of being opened at a time. Once they are open they no longer count.
    type: int
    default: 64
  kill_after:
    description:
      - A command that is to be ended is sent C(TERM), and C(KILL) when it still runs this many seconds later.
    type: float
    default: 2
  end_grace:
    description:
      - A command with C(end_with) may end by itself for this many seconds after that item's end, before it is ended. The two ends of
        one exchange seldom end in the same moment, and what a command says of its own accord is worth more than that it was ended.
    type: float
    default: 3
  end_grace_success:
    description:
      - The same, where that item ended with exit code 0. One end of an exchange may have all that it needs while the other still waits for
        an acknowledgement that was lost and is sent again.
    type: float
    default: 30
  items:
    description:
      - The commands.
    type: list
    elements: dict
    required: true
    suboptions:
      id:
        description:
          - The item's name, by which other items refer to it. Each is used once.
        type: str
        required: true
      pod:
        description:
          - The pod.
        type: str
        required: true
      namespace:
        description:
          - The pod's namespace.
          - The default is O(namespace).
        type: str
      container:
        description:
          - The container.
          - The default is the pod's only container. In a pod with several it is the one that C(kubectl exec) would choose (the
            annotation C(kubectl.kubernetes.io/default-container), else the first).
        type: str
      command:
        description:
          - The program, found by C(PATH) in the container, and its arguments. No shell interprets them.
          - The container needs a C(sh), which starts the program and reports its process ID.
        type: list
        elements: str
        required: true
      timeout:
        description:
          - Time limit in seconds, from the item's own start (when it no longer waits for another), attempts and pauses included.
          - The default is O(timeout).
        type: float
      start_after:
        description:
          - What the item waits for before it starts. If that can no longer happen the item is not started.
          - Items must not wait for each other in a circle.
        type: dict
        suboptions:
          item:
            description:
              - The RV(results[].id) of the other item.
            type: str
            required: true
          event:
            description:
              - V(started), when the other command runs.
              - V(text), when the other command has written O(items[].start_after.text) to standard output or standard error.
              - V(ended), when the other item is over, in whatever way, even if it was not started.
            type: str
            choices:
              - started
              - text
              - ended
            default: ended
          text:
            description:
              - A plain text, not a pattern. Required with O(items[].start_after.event=text).
            type: str
          timeout:
            description:
              - How many seconds to wait at most.
              - The default is to wait as long as the other item is not over.
            type: float
      end_with:
        description:
          - The RV(results[].id) of another item. When it is over, in whatever way, this one is ended too. Two items may name each other.
        type: str
      retry:
        description:
          - Start the command again when it fails because what it needs is not there yet, for instance a client whose server does not listen.
        type: dict
        suboptions:
          texts:
            description:
              - The command is started again when its exit code is not 0 and its output holds one of these plain texts.
            type: list
            elements: str
            required: true
          times:
            description:
              - How often to start it again, at most.
            type: int
            default: 20
          delay:
            description:
              - Seconds to wait before that.
            type: float
            default: 0.25
attributes:
  check_mode:
    support: full
    description: Runs nothing. Each result says what would run, with RV(results[].reason) V(check_mode).
  diff_mode:
    support: none
    description: A command has no before and after.
notes:
  - The user needs the verbs V(get) and V(create) on C(pods/exec), and V(get) on C(pods) where the container of a pod with several is not named.
  - The C(kubernetes) client's C(stream) is not used. Versions 28 to 37 of the client are tested.
  - If the module is interrupted (SIGINT, SIGTERM), it ends the processes that it started before it exits.
seealso:
  - module: kubernetes.core.k8s_exec
"""

EXAMPLES = r"""
- name: Ask all pods for their kernel, at once
  k8si.fabric.k8s_exec_batch:
    namespace: default
    items:
      - {id: first, pod: rdma-test-1, command: [uname, -r]}
      - {id: second, pod: rdma-test-2, command: [uname, -r]}
  register: kernels

- name: Run a client once its server listens, and end the server with it
  k8si.fabric.k8s_exec_batch:
    items:
      - id: server
        pod: rdma-test-1
        command: [stdbuf, -oL, ib_write_bw, -d, mlx5_0]
        timeout: 120
        end_with: client
      - id: client
        pod: rdma-test-2
        command: [ib_write_bw, -d, mlx5_0, 192.168.2.10]
        start_after: {item: server, event: text, text: Waiting for client to connect}
        end_with: server
        retry: {texts: ["Couldn't connect to"], times: 10}
  register: measured

- name: Say which commands did not end with exit code 0
  ansible.builtin.debug:
    msg: "{{ item.id }}: {{ item.message }}"
  loop: "{{ measured.results | rejectattr('rc', 'equalto', 0) }}"
"""

RETURN = r"""
results:
  description:
    - One result for each item, in the order of O(items).
  returned: always, unless the arguments are wrong
  type: list
  elements: dict
  contains:
    id:
      description: The item's name.
      returned: always
      type: str
    namespace:
      description: The pod's namespace.
      returned: always
      type: str
    pod:
      description: The pod.
      returned: always
      type: str
    container:
      description: The container, null if none was named and the pod has only one.
      returned: always
      type: str
    command:
      description: The command, as given.
      returned: always
      type: list
      elements: str
    stdout:
      description:
        - What the command wrote to standard output (at its last attempt). Bytes that are not UTF-8 are replaced by U+FFFD.
      returned: always
      type: str
    stderr:
      description:
        - The same of standard error.
      returned: always
      type: str
    stdout_base64:
      description: Standard output, byte for byte, in Base64.
      returned: if standard output is not valid UTF-8
      type: str
    stderr_base64:
      description: Standard error, byte for byte, in Base64.
      returned: if standard error is not valid UTF-8
      type: str
    rc:
      description:
        - The exit code, null if it is not known.
        - A command that was ended by this module (V(timeout), V(ended)) also has one if the pod reported it, usually 143 or 137.
      returned: always
      type: int
    outcome:
      description:
        - V(completed), the command ran and its exit code is known.
        - V(timeout), it did not end in time; RV(results[].reason) says whether the process in the pod could be ended.
        - V(not_started), it never ran.
        - V(lost), the connection was lost while it ran; its exit code is not known.
        - V(refused), the API server does not allow it.
        - V(ended), it was ended because another item (O(items[].end_with)) was over.
      returned: always
      type: str
    reason:
      description:
        - With V(completed), always V(exit_code).
        - With V(timeout), V(deadline) if the process was ended, V(deadline_not_ended) if it may still run in the pod.
        - With V(not_started), one of V(command_not_found), V(shell_not_found), V(pod_not_found), V(pod_not_running), V(container_not_found),
          V(dependency), V(ended_with), V(api_unavailable), V(kubelet_unavailable), V(api_error), V(exec_failed), V(check_mode), V(interrupted),
          V(no_thread), V(internal_error).
        - With V(lost), one of V(connection_dropped), V(connection_silent), V(pod_gone), V(exec_failed), V(interrupted), V(internal_error).
        - With V(refused), V(forbidden) or V(unauthorized).
        - With V(ended), V(ended_with) or V(interrupted).
      returned: always
      type: str
    message:
      description: The same as a sentence, with what to do about it.
      returned: always
      type: str
    start:
      description: When the item's turn came (ISO 8601, UTC), null if it never did.
      returned: always
      type: str
      sample: "2026-01-31T12:00:00.123Z"
    duration_s:
      description: Seconds from then to its end.
      returned: always
      type: float
    attempts:
      description: How often the command was started.
      returned: always
      type: int
outcomes:
  description: How many results there are of each RV(results[].outcome).
  returned: always, unless the arguments are wrong
  type: dict
  sample: {completed: 2, ended: 0, lost: 0, not_started: 0, refused: 0, timeout: 0}
failed_count:
  description: How many results are not V(completed) with exit code 0.
  returned: always, unless the arguments are wrong
  type: int
  sample: 0
"""

import copy
import signal
import time

from ansible.module_utils.common.text.converters import to_native
from ansible_collections.k8si.fabric.plugins.module_utils import exec_batch
from ansible_collections.k8si.fabric.plugins.module_utils.exec_connect import (
    ConnectError,
    Connector,
)
from ansible_collections.k8si.fabric.plugins.module_utils.exec_plan import PlanError, read_items
from ansible_collections.k8si.fabric.plugins.module_utils.exec_status import from_http
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException

REACH_TRIES = 4
REACH_PAUSE_S = 2.0


class Interrupted(Exception):
    """SIGINT or SIGTERM came."""


def argument_spec() -> dict:
    """The module's options: kubernetes.core's own for the connection, and those of the batch."""
    spec = copy.deepcopy(AUTH_ARG_SPEC)
    start_after = {
        "item": {"type": "str", "required": True},
        "event": {"type": "str", "choices": ["started", "text", "ended"], "default": "ended"},
        "text": {"type": "str"},
        "timeout": {"type": "float"},
    }
    retry = {
        "texts": {"type": "list", "elements": "str", "required": True},
        "times": {"type": "int", "default": 20},
        "delay": {"type": "float", "default": 0.25},
    }
    item = {
        "id": {"type": "str", "required": True},
        "pod": {"type": "str", "required": True},
        "namespace": {"type": "str"},
        "container": {"type": "str"},
        "command": {"type": "list", "elements": "str", "required": True},
        "timeout": {"type": "float"},
        "start_after": {"type": "dict", "options": start_after},
        "end_with": {"type": "str"},
        "retry": {"type": "dict", "options": retry},
    }
    spec.update(
        namespace={"type": "str", "default": "default"},
        timeout={"type": "float", "default": 60},
        connections={"type": "int", "default": 64},
        kill_after={"type": "float", "default": 2},
        end_grace={"type": "float", "default": 3},
        end_grace_success={"type": "float", "default": 30},
        items={"type": "list", "elements": "dict", "required": True, "options": item},
    )
    return spec


def summary(results: list) -> dict:
    """What the module returns beside `changed`."""
    return {
        "results": results,
        "outcomes": exec_batch.count_outcomes(results),
        "failed_count": sum(
            not (result["outcome"] == "completed" and result["rc"] == 0) for result in results
        ),
    }


def refused_results(items: list, error) -> list:
    """The results of all items if the API server accepts the credentials not even for discovery."""
    results = exec_batch.check_mode_results(items)
    for result in results:
        body = getattr(error, "body", None) or str(getattr(error, "reason", "") or error)
        body = body if isinstance(body, bytes) else str(body).encode("utf-8")
        where = f"pod {result['namespace']}/{result['pod']}"
        trouble = from_http(error.status, {}, body, where)
        result.update(
            outcome=trouble.outcome, reason=trouble.reason, message=trouble.message, rc=None
        )
    return results


def connect(module, items: list) -> Connector:
    """The connection that the module's options describe. Exits if there is none to be had."""
    for attempt in range(1, REACH_TRIES + 1):
        try:
            client = get_api_client(module)  # asks the API server what it serves
            api_client = client.client.client
            return Connector(api_client.configuration, api_client.default_headers)
        except CoreException as error:
            module.fail_from_exception(error)
        except ConnectError as error:
            module.fail_json(msg=f"The Kubernetes API cannot be reached: {error}")
        except Exception as error:  # urllib3's, the client's and those of credentials' plugins
            status = getattr(error, "status", None)
            if status in (401, 403):
                module.exit_json(changed=False, **summary(refused_results(items, error)))
            passing = status == 429 or (status or 0) >= 500 or _is_connection(error)
            if not passing or attempt == REACH_TRIES:
                module.fail_json(
                    msg=f"The Kubernetes API cannot be reached with these connection options: {to_native(error)}"
                )
        time.sleep(REACH_PAUSE_S)
    raise AssertionError("the loop ends by itself")


def _is_connection(error) -> bool:
    """Whether `error` says that nothing answers, and not that certificates or options are wrong."""
    try:
        from urllib3.exceptions import MaxRetryError, SSLError
    except ImportError:
        return False
    if isinstance(error, MaxRetryError):
        return not isinstance(error.reason, SSLError)
    return isinstance(error, ConnectionError)


def allow_open_files(wanted: int) -> None:
    """Every command that runs needs an open file, and one more while it is ended; systems often start with 1024."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    except (ImportError, OSError, ValueError):
        pass


def run(module, batch: exec_batch.Batch) -> list:
    """Run the batch; if a signal comes, end what it started, and exit."""

    def on_signal(number, _frame):
        raise Interrupted(signal.Signals(number).name)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        return batch.run()
    except Interrupted as interruption:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        under_way = batch.interrupt()
        module.fail_json(
            msg=f"Interrupted by {interruption}; {under_way} commands were under way and were ended, as far as that was possible",
            **summary(batch.results()),
        )
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    """Entry point."""
    module = AnsibleK8SModule(argument_spec=argument_spec(), supports_check_mode=True)
    params = module.params
    for name in ("timeout", "kill_after", "connections"):
        if params[name] <= 0:
            module.fail_json(msg=f"{name} is {params[name]}; it must be positive")
    for name in ("end_grace", "end_grace_success"):
        if params[name] < 0:
            module.fail_json(msg=f"{name} is {params[name]}; it must not be negative")
    try:
        items = read_items(params["items"], params["namespace"], params["timeout"])
    except PlanError as error:
        module.fail_json(msg=to_native(error))
    if module.check_mode or not items:
        module.exit_json(changed=False, **summary(exec_batch.check_mode_results(items)))
    connector = connect(module, items)
    allow_open_files(2 * len(items) + 256)
    settings = exec_batch.Settings(
        kill_after=params["kill_after"],
        end_grace=params["end_grace"],
        end_grace_success=params["end_grace_success"],
    )
    batch = exec_batch.Batch(items, connector, params["connections"], settings)
    results = run(module, batch)
    returned = summary(results)
    if not batch.answered:
        first = next(result for result in results if result["reason"] != "dependency")
        module.fail_json(
            msg=f"The Kubernetes API at {connector.address} cannot be reached: {first['message']}",
            **returned,
        )
    module.exit_json(changed=any(result["attempts"] for result in results), **returned)


if __name__ == "__main__":
    main()
