# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process in the background that acts when another process has ended."""

from __future__ import annotations

import os
import time

MANAGED_BY = "app.kubernetes.io/managed-by=k8si.fabric"
RUN_LABEL = "fabric.k8si.io/run"
POLL_S = 0.5
RETRY_S = 2.0
TRIES = 60  # two minutes of a lost API; then the pods' own deadline ends them


class Watched:
    """A process, told from a later one with the same number by its start time where the system shows it (/proc)."""

    def __init__(self, pid):
        self.pid = pid
        self.started = self._start_time()

    def _start_time(self):
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8", errors="replace") as stat:
                # proc(5): field 22, counted after the command name in parentheses
                return stat.read().rpartition(")")[2].split()[19]
        except (OSError, IndexError):
            return None

    def alive(self):
        if self.pid <= 1:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return self._start_time() == self.started


def selector(run):
    """The label selector of one run's pods: this collection's label and the run's own, always both."""
    if not run:
        raise ValueError("a run id is needed: without it pods of other runs would be deleted")
    return f"{MANAGED_BY},{RUN_LABEL}={run}"


def pods_of_run(client, namespace, run):
    """The pods of a run, as the API lists them. `client` is kubernetes.core's K8SClient."""
    resource = client.resource("Pod", "v1")
    found = client.get(resource, namespace=namespace, label_selector=selector(run))
    return list(found.items or [])


def delete_pods(make_client, namespace, run):
    """Deletes the pods of a run until none is listed; gives up after TRIES. True when none is left."""
    _forget_temporary_files()
    for _try in range(TRIES):
        try:
            client = make_client()
            left = pods_of_run(client, namespace, run)
            if not left:
                return True
            resource = client.resource("Pod", "v1")
            for pod in left:
                if not pod.metadata.deletionTimestamp:
                    client.delete(resource, name=pod.metadata.name, namespace=namespace)
        except Exception:  # pylint: disable=broad-except
            pass  # whatever the API says now, it is asked again
        time.sleep(RETRY_S)
    return False


def start(watched, act, lifetime):
    """Forks a process that calls `act` once when `watched` has ended, at the latest after `lifetime` seconds.

    Returns its pid at once. The process is a session of its own, so that Ctrl-C in the terminal does not reach it.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        with os.fdopen(reader) as pipe:
            pid = int(pipe.read() or 0)
        os.waitpid(child, 0)
        return pid
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.write(writer, str(os.getpid()).encode())
        os.close(writer)
        os.close(reader)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        end = time.monotonic() + lifetime
        while watched.alive() and time.monotonic() < end:
            time.sleep(POLL_S)
        act()
    finally:
        os._exit(0)


def _forget_temporary_files():
    """The client library keeps certificates of a kubeconfig in files that its first process deletes when it ends."""
    try:
        from kubernetes.config import kube_config

        kube_config._temp_files.clear()
    except (ImportError, AttributeError):
        pass
