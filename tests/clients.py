"""Runs the tests of k8s_exec_batch with another version of the Python client of Kubernetes.

    python tests/clients.py VERSION DIR [what pytest is to get]

The client and what it needs are installed into DIR/VERSION, once, and put before everything else on the path: the environment
is left as it is. Exits with pytest's exit code.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SUITE = ["tests/unit/plugins/module_utils", "tests/unit/plugins/modules", "-k", "exec"]


def install(version: str, directory: Path) -> Path:
    """Make sure that the client `version` is under `directory`; returns the folder to put on the path."""
    target = directory.resolve() / version
    done = target / ".installed"
    if not done.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*pip, "--upgrade", "--target", str(target), f"kubernetes=={version}"], check=True
        )
        done.touch()
    return target


def main(version: str, directory: str, *arguments: str) -> int:
    """Install, then run the suite (or what `arguments` say) in a process of its own."""
    target = install(version, Path(directory))
    before = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(part for part in (str(target), before) if part)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *(arguments or SUITE)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": path, "FABRIC_CLIENT": version},
        check=False,
    ).returncode


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
