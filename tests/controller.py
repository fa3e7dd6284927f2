"""ansible-playbook against a cluster that a test has started, as a user would run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


class Controller:
    """Runs playbooks and roles with a kubeconfig; what they write goes to a folder."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "tests"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build" / "collections"),
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "KUBECONFIG": str(kubeconfig),
        }

    def playbook(self, name: str, *words: str) -> subprocess.Popen:
        """Starts one of the collection's playbooks, or another by its absolute path, in a session of its own."""
        return subprocess.Popen(
            ["ansible-playbook", str(ROOT / "playbooks" / name), *words],
            env=self.env,
            cwd=self.folder,  # the report goes there
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def start_role(self, role: str, variables: dict, report: bool = False) -> RoleRun:
        """Starts a test role; with `report` it also leaves results.json in the folder."""
        return RoleRun(self, role, variables, report)

    def role(self, role: str, variables: dict, report: bool = False) -> dict:
        """The result that a test role leaves, whether it passed or not."""
        return self.start_role(role, variables, report).result()


class RoleRun:
    """A test role under way."""

    def __init__(self, controller: Controller, role: str, variables: dict, report: bool) -> None:
        self._target = controller.folder / f"{role}.json"
        self._target.unlink(missing_ok=True)
        keep = {
            "ansible.builtin.copy": {
                "content": f"{{{{ {role}_result | to_json }}}}",
                "dest": str(self._target),
                "mode": "0600",
            }
        }
        write = {
            "ansible.builtin.include_role": {"name": "k8si.fabric.report"},
            "vars": {"report_dir": str(controller.folder), "report_formats": ["json"]},
        }
        # the role ends with an assertion; what it left is what counts here
        test = {"ansible.builtin.include_role": {"name": f"k8si.fabric.{role}"}}
        play = {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": variables,
            "tasks": [{"block": [test], "always": [keep, *([write] if report else [])]}],
        }
        path = controller.folder / f"{role}.yml"
        path.write_text(yaml.safe_dump([play]), encoding="utf-8")
        self.process = controller.playbook(str(path))
        self.output = ""

    def result(self, timeout: float = 600) -> dict:
        """What it left; AssertionError with its output when it left nothing."""
        self.output, _none = self.process.communicate(timeout=timeout)
        assert self._target.exists(), self.output[-4000:]
        return json.loads(self._target.read_text(encoding="utf-8"))
