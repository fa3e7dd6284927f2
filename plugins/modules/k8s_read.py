#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: k8s_read
short_description: Read objects of many kinds in one task
version_added: 0.1.0
author:
  - k8si.fabric contributors (@k8si)
description:
  - Does in one task what a loop over M(kubernetes.core.k8s_info) does. A task of that module costs about a second, nearly all of it the
    start of Python and of the client; ten reads in one task cost hardly more than one.
  - Long lists are read in pages, and fields that nobody looks at are left out before anything is returned.
  - A read that is refused or fails does not fail the task; what became of it is in its result.
  - Asks in the same task what is allowed, with reviews that the API server answers and does not store.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
options:
  reads:
    description: What is to be read.
    type: list
    elements: dict
    default: []
    suboptions:
      api_version:
        description: API version of the kind.
        type: str
        required: true
      kind:
        description: The kind.
        type: str
        required: true
      namespace:
        description: Namespace; all namespaces where it is empty.
        type: str
      name:
        description: Name of one object; a list of all where it is empty.
        type: str
      label_selectors:
        description: Label selectors of a list; all must fit.
        type: list
        elements: str
        default: []
      field_selectors:
        description: Field selectors of a list; all must fit.
        type: list
        elements: str
        default: []
      hidden_fields:
        description: Fields to leave out, as in M(kubernetes.core.k8s_info).
        type: list
        elements: str
        default: []
      id:
        description: A name of the caller's own, which comes back with the result.
        type: str
  reviews:
    description:
      - Reviews such as C(SelfSubjectAccessReview), whole. They are posted as they are. An object whose C(kind) does not end in C(Review)
        is rejected before anything is sent, because it would be stored.
    type: list
    elements: dict
    default: []
  page_size:
    description: Objects of one list request.
    type: int
    default: 500
requirements:
  - python >= 3.9
  - kubernetes >= 28.1.0
  - PyYAML >= 3.11
attributes:
  check_mode:
    description: Reads in check mode too; nothing is ever changed.
    support: full
"""

EXAMPLES = r"""
- name: Read nodes and what pods hold
  k8si.fabric.k8s_read:
    reads:
      - {api_version: v1, kind: Node, hidden_fields: [metadata.managedFields, status.images]}
      - {api_version: v1, kind: Pod, field_selectors: ["status.phase=Running"]}
  register: seen

- name: Ask whether pods may be created
  k8si.fabric.k8s_read:
    reviews:
      - apiVersion: authorization.k8s.io/v1
        kind: SelfSubjectAccessReview
        spec: {resourceAttributes: {verb: create, resource: pods, namespace: default}}
  register: asked
"""

RETURN = r"""
results:
  description: What became of each read, in the order of O(reads).
  returned: success
  type: list
  elements: dict
  contains:
    item:
      description: The read itself.
      type: dict
    resources:
      description: The objects; absent where the read failed.
      type: list
      elements: dict
    api_found:
      description: Whether the API server knows the kind.
      type: bool
    failed:
      description: Whether the read was refused or failed; absent where it was not.
      type: bool
    msg:
      description: The server's words; absent where all went well.
      type: str
"""

import copy

from ansible_collections.k8si.fabric.plugins.module_utils import reads
from ansible_collections.kubernetes.core.plugins.module_utils.ansiblemodule import AnsibleModule
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.service import hide_fields


def argument_spec():
    spec = copy.deepcopy(AUTH_ARG_SPEC)
    strings = {"type": "list", "elements": "str", "default": []}
    spec["reads"] = {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "api_version": {"type": "str", "required": True},
            "kind": {"type": "str", "required": True},
            "namespace": {"type": "str"},
            "name": {"type": "str"},
            "label_selectors": strings,
            "field_selectors": strings,
            "hidden_fields": strings,
            "id": {"type": "str"},
        },
    }
    spec["reviews"] = {"type": "list", "elements": "dict", "default": []}
    spec["page_size"] = {"type": "int", "default": 500}
    return spec


def main():
    module = AnsibleK8SModule(
        module_class=AnsibleModule,
        check_pyyaml=False,
        argument_spec=argument_spec(),
        supports_check_mode=True,
    )
    if module.params["page_size"] < 1:
        module.fail_json(msg=f"page_size is {module.params['page_size']}; it must be positive")
    for review in module.params["reviews"]:
        if not str(review.get("kind", "")).endswith("Review") or not review.get("apiVersion"):
            module.fail_json(msg=f"reviews: {review.get('kind')!r} is no review with an apiVersion")
    try:
        client = get_api_client(module)
        version = client.client.version["kubernetes"]["gitVersion"]
    except CoreException as e:
        module.fail_from_exception(e)
    except Exception as e:
        module.fail_json(msg=f"the API server cannot be reached: {e}")
    results = [
        {"item": wanted, **reads.read(client, wanted, module.params["page_size"], hide_fields)}
        for wanted in module.params["reads"]
    ]
    answers = [{"item": review, **reads.ask(client, review)} for review in module.params["reviews"]]
    module.exit_json(changed=False, results=results, reviews=answers, server_version=version)


if __name__ == "__main__":
    main()
