"""However a user of the guests ends, no qemu is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rdma_vm import GuestGroup
from rdma_vm.__main__ import main

OWNER = """
import os, sys, time
from rdma_vm import GuestGroup
group = GuestGroup(nodes=2)
print(*group.keeper.qemu_pids, group.keeper.directory, flush=True)
if sys.argv[1] != "0":
    os.kill(os.getpid(), int(sys.argv[1]))
    time.sleep(60)
"""


def gone(pids: list[int], seconds: float = 5, directory: str = "/nowhere") -> bool:
    """Whether the processes end, and the folder goes, in that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(Path(path).exists() for path in (directory, *(f"/proc/{p}" for p in pids))):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [0, signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_with_the_python_process(number: int) -> None:
    """Number 0: it ends by itself, without closing the group."""
    done = subprocess.run(
        [sys.executable, "-c", OWNER, str(int(number))],
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    *pids, directory = done.stdout.decode().split()
    assert len(pids) == 2
    assert gone([int(pid) for pid in pids], directory=directory)


def test_with_close() -> None:
    with GuestGroup(nodes=2) as group:
        pids = [*group.keeper.qemu_pids, group.keeper.process.pid]
        assert not gone(pids, 0.1)
    assert gone(pids, 0.1)
    assert not group.keeper.directory.exists()


def test_up_exec_down(capfd: pytest.CaptureFixture) -> None:
    assert main(["up", "--nodes", "2", "--group", "--lifetime", "60"]) == 0
    try:
        assert "node2 mlx5_0 net1 10.9.0.2" in capfd.readouterr().out
        assert main(["up"]) == 1
        assert "are up" in capfd.readouterr().err
        assert main(["exec", "2", "sh", "-c", "cat /sys/class/net/net1/address; exit 3"]) == 3
        assert capfd.readouterr().out == "02:00:00:09:00:02\n"
        assert main(["exec", "1", "no-such-program"]) == 127
    finally:
        assert main(["down"]) == 0
    assert main(["exec", "1", "true"]) == 1
