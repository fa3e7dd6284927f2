# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ansible_collections.k8si.fabric.plugins.modules import write_files


def run(check_mode=False, **arguments):
    """The module in a process of its own, as Ansible runs it; its answer."""
    arguments = {**arguments, "_ansible_check_mode": check_mode}
    program = (
        "import json, sys\n"
        "from ansible.module_utils import basic\n"
        "basic._ANSIBLE_ARGS = sys.stdin.buffer.read()\n"
        "basic._ANSIBLE_PROFILE = 'legacy'\n"
        "from ansible_collections.k8si.fabric.plugins.modules import write_files\n"
        "write_files.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))},
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_folder_and_files_are_made_with_their_modes(tmp_path):
    folder = tmp_path / "a" / "b"
    done = run(path=str(folder), files={"x.txt": "äöü\n", "y.json": {"n": 1}})
    assert (done["changed"], done["path"]) == (True, str(folder))
    assert sorted(done["written"]) == ["x.txt", "y.json"]
    assert (folder / "x.txt").read_bytes() == "äöü\n".encode()
    assert json.loads((folder / "y.json").read_text()) == {"n": 1}
    assert (folder / "x.txt").stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in folder.iterdir()) == ["x.txt", "y.json"]


def test_the_texts_do_not_come_back(tmp_path):
    done = run(path=str(tmp_path), files={"x.txt": "a long text"})
    assert "a long text" not in json.dumps(done)


def test_the_second_time_nothing_changes(tmp_path):
    run(path=str(tmp_path), files={"x": "1", "y": "2"})
    done = run(path=str(tmp_path), files={"x": "1", "y": "3"})
    assert (done["changed"], done["written"]) == (True, ["y"])
    assert run(path=str(tmp_path), files={"x": "1", "y": "3"})["changed"] is False


def test_check_mode_writes_nothing(tmp_path):
    done = run(check_mode=True, path=str(tmp_path / "new"), files={"x": "1"})
    assert done["changed"] is True
    assert not (tmp_path / "new").exists()


def test_a_mode_that_is_there_stays(tmp_path):
    tmp_path.chmod(0o700)
    run(path=str(tmp_path), files={"x": "1"})
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_without_a_folder_a_temporary_one_is_made():
    done = run(files={"x": "1"})
    folder = Path(done["path"])
    try:
        assert folder.parent == Path(tempfile.gettempdir())
        assert (folder / "x").read_text() == "1"
    finally:
        (folder / "x").unlink()
        folder.rmdir()


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", "."])
def test_a_name_that_leads_elsewhere_is_rejected(tmp_path, name):
    done = run(path=str(tmp_path), files={name: "1"})
    assert done["failed"] and "is no name of a file" in done["msg"]
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_way_is_named(tmp_path):
    (tmp_path / "blocked").write_text("no folder")
    done = run(path=str(tmp_path / "blocked" / "inside"), files={"x": "1"})
    assert done["failed"]
    assert str(tmp_path / "blocked") in done["msg"] and "irectory" in done["msg"]
    (tmp_path / "x").mkdir()
    done = run(path=str(tmp_path), files={"x": "1"})
    assert done["failed"] and str(tmp_path / "x") in done["msg"]


def test_a_text_is_compared_by_bytes(tmp_path):
    (tmp_path / "x").write_bytes(b"1\r\n")
    assert not write_files.has_text(str(tmp_path / "x"), b"1\n")
    assert write_files.has_text(str(tmp_path / "x"), b"1\r\n")
    assert not write_files.has_text(str(tmp_path / "none"), b"")
