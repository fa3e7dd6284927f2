#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: write_files
short_description: Write several text files into one folder in one task
version_added: 0.1.0
author:
  - k8si.fabric contributors (@k8si)
description:
  - Does in one task what M(ansible.builtin.file) for the folder and a loop over M(ansible.builtin.copy) do for its files. Each of
    those costs most of a second, whatever the size of the file; a report has five.
  - A file is replaced as a whole or not at all, so that a reader never sees half of it.
options:
  path:
    description:
      - The folder. It is made, with those above it, where it is missing; the mode of one that is there is not changed.
      - A new temporary folder where it is empty.
    type: path
  files:
    description: File name to text; what is no text is written as JSON. A name has no slash. The files get mode 0644.
    type: dict
    required: true
attributes:
  check_mode:
    description: Tells what would change, and writes nothing.
    support: full
"""

EXAMPLES = r"""
- name: Write a report
  k8si.fabric.write_files:
    path: ./report
    files:
      summary.md: "{{ summary }}"
      results.json: "{{ results | to_json }}"
"""

RETURN = r"""
path:
  description: The folder; empty in check mode where it would be a temporary one.
  returned: success
  type: str
written:
  description: Names of the files that were written; those whose text was already there are not among them.
  returned: success
  type: list
  elements: str
"""

import json
import os
import tempfile

from ansible.module_utils.basic import AnsibleModule


def as_bytes(text):
    """What is written for a value. Up to ansible-core 2.18 a template whose text is JSON comes as what it stands for."""
    return (text if isinstance(text, str) else json.dumps(text)).encode("utf-8")


def has_text(path, content):
    """Whether the file is there with these bytes."""
    try:
        with open(path, "rb") as file:
            return file.read() == content
    except FileNotFoundError:
        return False


def write(module, path, content):
    """Writes the bytes beside the file, then puts them in its place at once."""
    handle, beside = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(beside, 0o644)
        module.atomic_move(beside, path)
    finally:
        if os.path.exists(beside):
            os.unlink(beside)


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "files": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    folder, files = module.params["path"] or "", module.params["files"]
    for name in files:
        if not name or name in (".", "..") or "/" in name:
            module.fail_json(msg=f"{name!r} is no name of a file")
    # The texts are megabytes: they are not to come back as the module's arguments.
    told = {"module_args": {"path": folder, "files": sorted(files)}}
    contents = {name: as_bytes(text) for name, text in files.items()}
    try:
        wanted = [
            name
            for name, content in contents.items()
            if not folder or not has_text(os.path.join(folder, name), content)
        ]
        if not module.check_mode:
            if not folder:
                folder = tempfile.mkdtemp(prefix="fabric-report-")
            # the mode of a folder that is there is its owner's business
            os.makedirs(folder, mode=0o755, exist_ok=True)
            for name in wanted:
                write(module, os.path.join(folder, name), contents[name])
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or folder}: {error.strerror or error}", invocation=told
        )
    module.exit_json(changed=bool(wanted), path=folder, written=wanted, invocation=told)


if __name__ == "__main__":
    main()
