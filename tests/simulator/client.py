"""Talks to a running simulated cluster's control routes; starts and stops its process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from .config import Config

PACKAGE_PARENT = Path(__file__).parents[1]


class SimulatorError(Exception):
    """It could not be started, or is not running, or refused."""


def start(
    folder: str | os.PathLike[str], config: Config, port: int = 0, wait: float = 20.0
) -> dict[str, Any]:
    """Starts a cluster in the background and returns when it is ready: paths of both kubeconfigs, pid, and the server's URL."""
    where = Path(folder).resolve()
    where.mkdir(parents=True, exist_ok=True)
    if _alive(where):
        raise SimulatorError(f"a simulated cluster already runs in {where} (pid {_pid(where)})")
    for name in ("pid", "control", "kubeconfig", "kubeconfig-fabric"):
        (where / name).unlink(missing_ok=True)
    settings = json.dumps({"config": config.as_dict(), "folder": str(where), "port": port})
    paths = [str(PACKAGE_PARENT), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    with open(where / "log", "ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "simulator", "serve", settings],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=env,
            cwd="/",
            start_new_session=True,
        )
    end = time.monotonic() + wait
    while not (where / "pid").exists():
        if child.poll() is not None or time.monotonic() > end:
            text = (where / "log").read_text(errors="replace")[-2000:]
            if child.poll() is None:
                child.kill()
            raise SimulatorError(f"the simulated cluster did not start:\n{text}")
        time.sleep(0.02)
    return {
        "kubeconfig": str(where / "kubeconfig"),
        "kubeconfig_fabric": str(where / "kubeconfig-fabric"),
        "pid": _pid(where),
        "url": json.loads((where / "control").read_text())["url"].split("/simulator/")[0],
    }


def _pid(folder: Path) -> int:
    try:
        return int((folder / "pid").read_text())
    except (OSError, ValueError):
        return 0


def _alive(folder: Path) -> bool:
    pid = _pid(folder)
    if not pid:
        return False
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"simulator" in words


def stop(folder: str | os.PathLike[str], wait: float = 5.0) -> bool:
    """Stops the cluster of a folder; False when none ran."""
    where = Path(folder).resolve()
    running = _alive(where)
    if running:
        pid = _pid(where)
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + wait
        while _alive(where) and time.monotonic() < end:
            _reap(pid)
            time.sleep(0.02)
        if _alive(where):
            os.kill(pid, signal.SIGKILL)
    (where / "pid").unlink(missing_ok=True)
    return running


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def call(folder: str | os.PathLike[str], what: str, data: Any = None) -> Any:
    """Asks the control routes: state, reset, compact, or faults with {"faults": [...]}."""
    path = Path(folder).resolve() / "control"
    try:
        control = json.loads(path.read_text())
    except OSError as error:
        raise SimulatorError(f"no simulated cluster runs in {path.parent}") from error
    request = urllib.request.Request(
        control["url"] + what,
        data=json.dumps(data if data is not None else {}).encode(),
        headers={"Authorization": f"Bearer {control['token']}", "Content-Type": "application/json"},
    )
    context = ssl.create_default_context(cadata=control["ca"])
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise SimulatorError(json.load(error).get("error", str(error))) from error
    except OSError as error:
        raise SimulatorError(f"no simulated cluster answers in {path.parent}: {error}") from error


def set_faults(folder: str | os.PathLike[str], faults: list[str]) -> Any:
    """Switches these faults on and all others off."""
    return call(folder, "faults", {"faults": faults})


def state(folder: str | os.PathLike[str]) -> Any:
    """What a test may want to assert; see Cluster.state."""
    return call(folder, "state")


def reset(folder: str | os.PathLike[str]) -> None:
    """Removes what was not there at the start and puts back what was."""
    call(folder, "reset")
