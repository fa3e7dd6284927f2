# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter k8si.fabric.unknown_variables."""

from __future__ import annotations

DOCUMENTATION = r"""
name: unknown_variables
short_description: Finds variables that carry a role's prefix and are no option of the role
version_added: 0.1.0
author:
  - k8si.fabric contributors (@k8si)
description:
  - Ansible ignores a misspelt role variable and uses the default instead. This filter finds such variables.
  - The fact that a role leaves behind, C(<prefix>result), is not reported.
positional: options, prefix
options:
  _input:
    description: Names of variables, as the lookup P(ansible.builtin.varnames#lookup) finds them.
    type: list
    elements: string
    required: true
  options:
    description:
      - The content of the role's C(meta/argument_specs.yml), or the C(options) of one of its entry points, or a list of names.
      - With the whole content, the options of all entry points are known.
    type: raw
    required: true
  prefix:
    description: The role's prefix with the underscore, for example V(readiness_).
    type: string
    required: true
"""

EXAMPLES = r"""
- name: Reject unknown variables
  vars:
    specs: "{{ lookup('ansible.builtin.file', role_path ~ '/meta/argument_specs.yml') | from_yaml }}"
    names: "{{ query('ansible.builtin.varnames', '^readiness_') }}"
    unknown: "{{ names | k8si.fabric.unknown_variables(specs, 'readiness_') }}"
  ansible.builtin.assert:
    that: unknown | length == 0
    fail_msg: "Unknown variables: {{ unknown | join(', ') }}"
    quiet: true
"""

RETURN = r"""
_value:
  description:
    - The unknown names, sorted, each with the nearest option in parentheses where there is one.
  type: list
  elements: string
  sample:
    - readiness_namespce (did you mean readiness_namespace?)
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.k8si.fabric.plugins.plugin_utils.variables import unknown_variables


def _unknown_variables(names: Any, options: Any, prefix: Any) -> list[str]:
    if isinstance(names, (str, bytes, Mapping)) or not isinstance(names, Iterable):
        raise AnsibleFilterError(
            f"k8si.fabric.unknown_variables: the input must be a list of names, not {names!r}"
        )
    if not isinstance(prefix, str):
        raise AnsibleFilterError(
            f"k8si.fabric.unknown_variables: the prefix must be a string, not {prefix!r}"
        )
    try:
        return unknown_variables([str(name) for name in names], options, prefix)
    except ValueError as error:
        raise AnsibleFilterError(f"k8si.fabric.unknown_variables: {error}") from error


class FilterModule:
    """Entry point of Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"unknown_variables": _unknown_variables}
