# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deletes the pods of a run: at once, or from a process in the background when another process has ended."""

from __future__ import annotations

import itertools
import os
import time

MANAGED_BY = "app.kubernetes.io/managed-by=k8si.fabric"
RUN_LABEL = "fabric.k8si.io/run"
TEST_LABEL = "fabric.k8si.io/test"
POLL_S = 0.5
RETRY_S = 2.0
PATIENCE_S = 120.0  # of a lost API; then the pods' own deadline ends them


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


def selector(run, test=None):
    """The label selector of one run's pods: this collection's label and the run's own, always both; those of one test."""
    if not run:
        raise ValueError("a run id is needed: without it pods of other runs would be deleted")
    return f"{MANAGED_BY},{RUN_LABEL}={run}" + (f",{TEST_LABEL}={test}" if test else "")


def pods_of_run(client, namespace, labels):
    """Names of the pods that are there, and of those whose deletion has not begun. `client` is kubernetes.core's K8SClient."""
    found = client.get(client.resource("Pod", "v1"), namespace=namespace, label_selector=labels)
    pods = [pod.metadata for pod in found.items or []]
    return (
        [pod.name for pod in pods],
        [pod.name for pod in pods if not pod.deletionTimestamp],
    )


def delete_once(client, namespace, labels, alive):
    """Asks for the deletion of the pods with these labels: in one request, or where that is not allowed, one by one."""
    resource = client.resource("Pod", "v1")
    try:
        client.delete(resource, namespace=namespace, label_selector=labels)
    except Exception as error:
        if getattr(error, "status", None) not in (403, 405):
            raise
        for name in alive:
            client.delete(resource, name=name, namespace=namespace)


def delete_pods(make_client, namespace, labels, timeout, pauses=(RETRY_S,)):
    """Deletes pods until none is listed, or the time is up. Whatever the API says meanwhile, it is asked again.

    Args:
        make_client: gives a K8SClient. labels: of the pods (see selector). timeout: seconds. pauses: seconds between one look
        and the next; the last is used from then on.

    Returns:
        {deleted: names of all pods that were seen, left: names of those still there; None where that is not known, error: the
        last words of the API where it failed, else None}
    """
    end = time.monotonic() + timeout
    client, seen, left, error = None, [], None, None
    for attempt in itertools.count():
        try:
            client = client or make_client()
            left, alive = pods_of_run(client, namespace, labels)
            seen += [name for name in left if name not in seen]
            error = None
            if alive:
                delete_once(client, namespace, labels, alive)
        except Exception as failure:  # pylint: disable=broad-except
            client, error = None, str(failure)
        pause = pauses[min(attempt, len(pauses) - 1)]
        if (left == [] and not error) or time.monotonic() + pause > end:
            return {"deleted": seen, "left": left, "error": error}
        time.sleep(pause)


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


def forget_temporary_files():
    """The client library keeps certificates of a kubeconfig in files that its first process deletes when it ends."""
    try:
        from kubernetes.config import kube_config

        kube_config._temp_files.clear()
    except (ImportError, AttributeError):
        pass
