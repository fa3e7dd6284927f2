from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from ansible_collections.k8si.fabric.plugins.module_utils import guard


class ApiError(Exception):
    def __init__(self, status):
        super().__init__(f"status {status}")
        self.status = status


class Cluster:
    """Pods that are listed a few times more after their deletion; answers that fail as often as it is told."""

    def __init__(self, *names, looks=1, collection=None, failing=0):
        self.pods = dict.fromkeys(names)  # name: looks that are left, None while it is not deleted
        self.looks, self.collection, self.failing = looks, collection, failing
        self.asked = []

    def __call__(self):
        return self

    def resource(self, kind, api_version):
        return f"{api_version}/{kind}"

    def get(self, resource, namespace, label_selector):
        self.asked.append(("get", namespace, label_selector))
        if self.failing:
            self.failing -= 1
            raise ApiError(503)
        items = [
            SimpleNamespace(metadata=SimpleNamespace(name=name, deletionTimestamp=left is not None))
            for name, left in self.pods.items()
        ]
        self.pods = {
            name: left if left is None else left - 1
            for name, left in self.pods.items()
            if left is None or left > 1
        }
        return SimpleNamespace(items=items)

    def delete(self, resource, namespace, name=None, label_selector=None):
        self.asked.append(("delete", namespace, name or label_selector))
        if label_selector and self.collection:
            raise ApiError(self.collection)
        for pod in [name] if name else list(self.pods):
            if self.looks is not None:
                self.pods[pod] = self.looks


def delete(cluster, timeout=5.0):
    return guard.delete_pods(cluster, "n", "a=b", timeout, pauses=(0.01,))


def test_all_pods_go_with_one_request():
    cluster = Cluster("a", "b", "c")
    assert delete(cluster) == {"deleted": ["a", "b", "c"], "left": [], "error": None}
    assert [ask for ask in cluster.asked if ask[0] == "delete"] == [("delete", "n", "a=b")]


@pytest.mark.parametrize("status", [403, 405])
def test_one_by_one_where_a_collection_may_not_be_deleted(status):
    cluster = Cluster("a", "b", collection=status)
    assert delete(cluster)["left"] == []
    names = [ask[2] for ask in cluster.asked if ask[0] == "delete"]
    assert names == ["a=b", "a", "b"]


def test_a_lost_api_is_asked_again():
    cluster = Cluster("a", failing=3)
    assert delete(cluster) == {"deleted": ["a"], "left": [], "error": None}


def test_what_does_not_go_is_told():
    cluster = Cluster("a", looks=10**6)
    assert delete(cluster, timeout=0.05) == {"deleted": ["a"], "left": ["a"], "error": None}


def test_an_api_that_never_answers_is_not_taken_for_an_empty_list():
    done = delete(Cluster("a", failing=10**6), timeout=0.05)
    assert done["left"] is None and "503" in done["error"]


def test_an_error_of_the_deletion_is_not_hidden():
    done = delete(Cluster("a", collection=500), timeout=0.05)
    assert done["left"] == ["a"] and "500" in done["error"]


def test_nothing_there_is_one_look():
    cluster = Cluster()
    assert delete(cluster) == {"deleted": [], "left": [], "error": None}
    assert len(cluster.asked) == 1


def test_the_selector_always_has_both_labels():
    assert guard.selector("r1") == "app.kubernetes.io/managed-by=k8si.fabric,fabric.k8si.io/run=r1"
    assert guard.selector("r1", "rdma").endswith(",fabric.k8si.io/test=rdma")
    with pytest.raises(ValueError, match="run id"):
        guard.selector("")


def test_the_guard_acts_when_the_process_has_ended(tmp_path):
    done = tmp_path / "done"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        pid = guard.start(guard.Watched(process.pid), lambda: done.write_text("x"), lifetime=60)
        assert os.getpgid(pid) != os.getpgid(0)
        time.sleep(0.2)
        assert not done.exists()
        process.kill()
    end = time.monotonic() + 10
    while not done.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert done.exists()


def test_a_number_used_again_is_another_process():
    watched = guard.Watched(os.getpid())
    assert watched.alive()
    watched.started = "0"
    assert not watched.alive()
