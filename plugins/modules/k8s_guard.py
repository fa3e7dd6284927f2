#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_guard
short_description: Deletes the pods of a run when its ansible-playbook is gone
version_added: 0.1.0
author:
  - k8si.fabric contributors (@k8si)
description:
  - Starts a process in the background that watches another process and returns at once.
  - When the watched process has ended, in whatever way (done, interrupted with Ctrl-C, killed), the background process
    deletes the pods of the run that are still there, and ends. Ansible itself runs no C(always) section after an interrupt.
  - Only pods that carry the label C(app.kubernetes.io/managed-by=k8si.fabric) and the run's own label are ever deleted.
  - It is the second of two nets. Where the controller's machine itself goes away, the pods expire by
    C(activeDeadlineSeconds).
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
options:
  namespace:
    description: Namespace of the pods.
    type: str
    required: true
  run:
    description: The run id, the value of the label C(fabric.k8si.io/run).
    type: str
    required: true
  watch_pid:
    description: Process id of the C(ansible-playbook) to watch, on the host where the module runs.
    type: int
    required: true
  lifetime:
    description: The guard ends after this many seconds, whatever happens to the watched process.
    type: int
    default: 3600
requirements:
  - python >= 3.9
  - kubernetes >= 28.1.0
  - PyYAML >= 3.11
notes:
  - Needs a POSIX controller (it forks). Nothing is started in check mode.
attributes:
  check_mode:
    description: Starts nothing in check mode.
    support: full
"""

EXAMPLES = r"""
- name: Delete the run's pods when this play is cut short
  k8si.fabric.k8s_guard:
    namespace: default
    run: 261201-101500-3fa8
    watch_pid: "{{ lookup('ansible.builtin.pipe', 'ps -o ppid= -p $PPID') | trim }}"
"""

RETURN = r"""
pid:
  description: Process id of the guard; V(0) where none was started (check mode).
  returned: success
  type: int
  sample: 4711
"""

import copy

from ansible_collections.k8si.fabric.plugins.module_utils import guard
from ansible_collections.kubernetes.core.plugins.module_utils.ansiblemodule import AnsibleModule
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException


def argument_spec():
    spec = copy.deepcopy(AUTH_ARG_SPEC)
    spec["namespace"] = {"type": "str", "required": True}
    spec["run"] = {"type": "str", "required": True}
    spec["watch_pid"] = {"type": "int", "required": True}
    spec["lifetime"] = {"type": "int", "default": 3600}
    return spec


def main():
    module = AnsibleK8SModule(
        module_class=AnsibleModule,
        check_pyyaml=False,
        argument_spec=argument_spec(),
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, pid=0)
    watch = guard.Watched(module.params["watch_pid"])
    if not watch.alive():
        module.fail_json(msg=f"watch_pid={watch.pid}: there is no such process to watch")
    namespace, run = module.params["namespace"], module.params["run"]
    try:
        # Once now: it proves the credentials, and loads all code while the module's files are still there.
        guard.pods_of_run(get_api_client(module), namespace, run)
    except CoreException as e:
        module.fail_from_exception(e)
    except Exception as e:
        module.fail_json(msg=f"the pods in namespace {namespace} cannot be listed: {e}")
    pid = guard.start(
        watch,
        lambda: guard.delete_pods(lambda: get_api_client(module), namespace, run),
        module.params["lifetime"],
    )
    module.exit_json(changed=False, pid=pid)


if __name__ == "__main__":
    main()
