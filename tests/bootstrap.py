"""Lays the collections that a clone needs under .build/collections, without Galaxy.

kubernetes.core comes, pinned, out of the PyPI package `ansible`: only its folder is unpacked (1.6 MB of 54 MB).
The clone itself is linked in as k8si.fabric. Users of the collection install from Galaxy instead (requirements.yml).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Python -> the package `ansible` whose ansible-core and kubernetes.core were seen to work together.
ANSIBLE_PACKAGE = "12.3.0" if sys.version_info < (3, 12) else "14.5.0"
INSIDE = "ansible_collections/kubernetes/core/"


def main(target: Path, clone: Path) -> None:
    """Fills `target` (a collections path) with kubernetes.core and a link to `clone`."""
    link = target / "ansible_collections" / "k8si" / "fabric"
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() and link.resolve() != clone.resolve():
        link.unlink()
    if not link.is_symlink():
        link.symlink_to(clone.resolve(), target_is_directory=True)
    done = target / f".kubernetes.core-from-ansible-{ANSIBLE_PACKAGE}"
    if done.exists():
        return
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                "--dest",
                tmp,
                f"ansible=={ANSIBLE_PACKAGE}",
            ],
            check=True,
        )
        with zipfile.ZipFile(next(Path(tmp).glob("ansible-*.whl"))) as wheel:
            wheel.extractall(target, [n for n in wheel.namelist() if n.startswith(INSIDE)])
    done.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
