#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_guard
short_description: Deletes the pods of a run, now or when its ansible-playbook is gone
version_added: 0.1.0
author:
  - k8si.fabric contributors (@k8si)
description:
  - With O(state=absent) deletes the pods of a run, in one request, and returns when none is left.
  - With O(state=present) starts a process in the background that watches another process and returns at once.
  - When the watched process has ended, in whatever way (done, interrupted with Ctrl-C, killed), the background process
    deletes the pods of the run that are still there, and ends. Ansible itself runs no C(always) section after an interrupt.
  - Only pods that carry the label C(app.kubernetes.io/managed-by=k8si.fabric) and the run's own label are ever deleted.
  - It is the second of two nets. Where the controller's machine itself goes away, the pods expire by
    C(activeDeadlineSeconds).
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
options:
  state:
    description: V(present) for a guard over the pods; V(absent) for no pods.
    type: str
    choices: [present, absent]
    default: present
  namespace:
    description: Namespace of the pods.
    type: str
    required: true
  run:
    description: The run id, the value of the label C(fabric.k8si.io/run).
    type: str
    required: true
  test:
    description: With O(state=absent), only pods with this value of the label C(fabric.k8si.io/test).
    type: str
  timeout:
    description: With O(state=absent), how many seconds to wait until none is left.
    type: float
    default: 60
  watch_pid:
    description: Process id of the C(ansible-playbook) to watch, on the host where the module runs. Needed with O(state=present).
    type: int
  lifetime:
    description: The guard ends after this many seconds, whatever happens to the watched process.
    type: int
    default: 3600
requirements:
  - python >= 3.9
  - kubernetes >= 28.1.0
  - PyYAML >= 3.11
notes:
  - Needs a POSIX controller (it forks).
  - Where C(deletecollection) on pods is not allowed, they are deleted one by one.
attributes:
  check_mode:
    description: Starts and deletes nothing in check mode, and tells nothing about what is there.
    support: full
"""

EXAMPLES = r"""
- name: Delete the run's pods when this play is cut short
  k8si.fabric.k8s_guard:
    namespace: default
    run: 261201-101500-3fa8
    watch_pid: "{{ lookup('ansible.builtin.pipe', 'ps -o ppid= -p $PPID') | trim }}"

- name: Delete them now
  k8si.fabric.k8s_guard:
    state: absent
    namespace: default
    run: 261201-101500-3fa8
"""

RETURN = r"""
pid:
  description: Process id of the guard; V(0) where none was started (check mode).
  returned: with O(state=present)
  type: int
  sample: 4711
deleted:
  description: Names of the pods that were there.
  returned: with O(state=absent)
  type: list
  elements: str
left:
  description: Names of the pods that are still there. The task fails where there are any, or where that cannot be told.
  returned: with O(state=absent)
  type: list
  elements: str
"""

import copy

from ansible_collections.k8si.fabric.plugins.module_utils import guard
from ansible_collections.kubernetes.core.plugins.module_utils.ansiblemodule import AnsibleModule
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException

#: Seconds between looks for pods that are about to go: most go within a second or two.
PAUSES_S = (0.1, 0.2, 0.4, 0.8)


def argument_spec():
    spec = copy.deepcopy(AUTH_ARG_SPEC)
    spec["state"] = {"type": "str", "choices": ["present", "absent"], "default": "present"}
    spec["namespace"] = {"type": "str", "required": True}
    spec["run"] = {"type": "str", "required": True}
    spec["test"] = {"type": "str"}
    spec["timeout"] = {"type": "float", "default": 60}
    spec["watch_pid"] = {"type": "int"}
    spec["lifetime"] = {"type": "int", "default": 3600}
    return spec


def absent(module, labels):
    """No pods, from now on."""
    if module.check_mode:
        module.exit_json(changed=False, deleted=[], left=[])
    params = module.params
    done = guard.delete_pods(
        lambda: get_api_client(module), params["namespace"], labels, params["timeout"], PAUSES_S
    )
    state = {"changed": bool(done["deleted"]), "deleted": done["deleted"], "left": done["left"]}
    if done["error"]:
        module.fail_json(msg=f"pods with {labels} cannot be deleted: {done['error']}", **state)
    if done["left"]:
        module.fail_json(
            msg=f"still there after {params['timeout']:g} s: {', '.join(done['left'])}", **state
        )
    module.exit_json(**state)


def present(module, labels):
    """A guard in the background."""
    if module.check_mode:
        module.exit_json(changed=False, pid=0)
    watch = guard.Watched(module.params["watch_pid"])
    if not watch.alive():
        module.fail_json(msg=f"watch_pid={watch.pid}: there is no such process to watch")
    namespace = module.params["namespace"]
    try:
        # Once now: it proves the credentials, and loads all code while the module's files are still there.
        guard.pods_of_run(get_api_client(module), namespace, labels)
    except CoreException as e:
        module.fail_from_exception(e)
    except Exception as e:
        module.fail_json(msg=f"the pods in namespace {namespace} cannot be listed: {e}")

    def act():
        guard.forget_temporary_files()
        guard.delete_pods(lambda: get_api_client(module), namespace, labels, guard.PATIENCE_S)

    module.exit_json(changed=False, pid=guard.start(watch, act, module.params["lifetime"]))


def main():
    module = AnsibleK8SModule(
        module_class=AnsibleModule,
        check_pyyaml=False,
        argument_spec=argument_spec(),
        required_if=[("state", "present", ["watch_pid"])],
        supports_check_mode=True,
    )
    test = module.params["test"] if module.params["state"] == "absent" else None
    labels = guard.selector(module.params["run"], test)
    if module.params["state"] == "absent":
        absent(module, labels)
    present(module, labels)


if __name__ == "__main__":
    main()
