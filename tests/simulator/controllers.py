"""The few controllers that a test of a collection meets: Job, DaemonSet, Namespace, and the garbage collector."""

from __future__ import annotations

import asyncio
from typing import Any

from .api import Api
from .clock import timestamp
from .errors import ApiError
from .events import Recorder
from .scheduler import _node_matches, _untolerated
from .store import Event, thaw

PODS = ("", "pods")
Obj = dict[str, Any]


class Controllers:
    """Reacts to changes of the store."""

    def __init__(self, api: Api, recorder: Recorder) -> None:
        self._api = api
        self._recorder = recorder
        self._find = api.registry.find
        store = api.store
        store.listen(("batch", "jobs"), self._on_job)
        store.listen(PODS, self._on_pod)
        store.listen(("apps", "daemonsets"), self._on_daemonset)
        store.listen(("", "nodes"), self._on_node)
        store.listen(("", "namespaces"), self._on_namespace)
        self._owners: dict[str, tuple[str, str, str]] = {}
        self._pending: set[tuple[str, str, str]] = set()

    def watch_deletions(self) -> None:
        """Starts the garbage collector for every type there is now; called once the content is there."""
        for key in self._api.registry.all_keys():
            self._api.store.listen(key, self._collect)

    def _later(self, what: str, namespace: str, name: str, delay: float = 0.0) -> None:
        key = (what, namespace, name)
        if key in self._pending:
            return
        self._pending.add(key)

        def run() -> None:
            self._pending.discard(key)
            try:
                {
                    "job": self._sync_job,
                    "daemonset": self._sync_daemonset,
                    "namespace": self._sync_namespace,
                }[what](namespace, name)
            except ApiError as error:
                print(f"controller {what} {namespace}/{name}: {error}", flush=True)

        asyncio.get_running_loop().call_later(delay, run)

    # ---- jobs
    def _on_job(self, event: Event) -> None:
        meta = event.entry.obj["metadata"]
        if event.kind != "DELETED":
            self._later("job", meta["namespace"], meta["name"])

    def _on_pod(self, event: Event) -> None:
        meta = event.entry.obj["metadata"]
        for owner in meta.get("ownerReferences") or ():
            if owner.get("controller") and owner["kind"] == "Job":
                self._later("job", meta["namespace"], owner["name"])
            elif owner.get("controller") and owner["kind"] == "DaemonSet":
                self._later("daemonset", meta["namespace"], owner["name"], 0.02)
        if event.kind == "DELETED":
            namespace = self._api.store.find(("", "namespaces"), None, meta["namespace"])
            if namespace and namespace["metadata"].get("deletionTimestamp"):
                self._later("namespace", "", meta["namespace"])

    def _pods_of(self, owner: Obj) -> list[Obj]:
        uid = owner["metadata"]["uid"]
        return [
            p
            for p in self._api.store.all(PODS, owner["metadata"]["namespace"])
            if any(o.get("uid") == uid for o in p["metadata"].get("ownerReferences") or ())
        ]

    def _sync_job(self, namespace: str, name: str) -> None:
        job = self._api.store.find(("batch", "jobs"), namespace, name)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return
        resource = self._find("batch", "v1", "jobs")
        spec, status = job["spec"], dict(job.get("status") or {})
        if any(c["type"] in ("Complete", "Failed") for c in status.get("conditions") or []):
            self._expire_job(job)
            return
        pods = self._pods_of(job)
        indexed = spec.get("completionMode") == "Indexed"
        wanted = spec.get("completions") or 1
        succeeded = [p for p in pods if p["status"].get("phase") == "Succeeded"]
        failed = [p for p in pods if p["status"].get("phase") == "Failed"]
        active = [p for p in pods if p["status"].get("phase") not in ("Succeeded", "Failed")]
        done = {_index(p) for p in succeeded} if indexed else set()
        finished = len(done) if indexed else len(succeeded)
        status.setdefault("startTime", timestamp())
        status |= {"active": len(active), "succeeded": len(succeeded), "failed": len(failed)}
        status["ready"] = sum(p["status"].get("phase") == "Running" for p in active)
        if indexed:
            status["completedIndexes"] = _ranges(sorted(int(i) for i in done))
        deadline = spec.get("activeDeadlineSeconds")
        condition: tuple[str, str, str] | None = None
        if finished >= wanted:
            condition = (
                "Complete",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            )
        elif len(failed) > spec.get("backoffLimit", 6):
            condition = (
                "Failed",
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            )
        elif deadline is not None and _age(status["startTime"]) >= deadline:
            condition = (
                "Failed",
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            )
        if condition:
            kind, reason, message = condition
            status["conditions"] = [
                {
                    "type": kind,
                    "status": "True",
                    "reason": reason,
                    "message": message,
                    "lastProbeTime": timestamp(),
                    "lastTransitionTime": timestamp(),
                }
            ]
            if kind == "Complete":
                status["completionTime"] = timestamp()
            status["active"] = 0
            for pod in active:
                self._delete_pod(pod)
        elif not spec.get("suspend"):
            self._start_job_pods(job, active, done, finished, wanted, indexed)
            if deadline is not None:
                self._later("job", namespace, name, deadline + 0.1)
        status = {k: v for k, v in status.items() if v not in (0, None) or k in ("ready",)}
        if status != job.get("status"):
            current = self._api.store.find(("batch", "jobs"), namespace, name)
            if current is not None:
                self._api.put(
                    resource, {**current, "metadata": dict(current["metadata"]), "status": status}
                )
        if condition:
            self._expire_job(self._api.store.find(("batch", "jobs"), namespace, name) or job)

    def _start_job_pods(
        self, job: Obj, active: list[Obj], done: set[str], finished: int, wanted: int, indexed: bool
    ) -> None:
        spec = job["spec"]
        room = min(spec.get("parallelism", 1), wanted - finished) - len(active)
        running = {_index(p) for p in active}
        free = (
            [str(i) for i in range(wanted) if str(i) not in done | running]
            if indexed
            else [""] * max(room, 0)
        )
        for index in free[: max(room, 0)]:
            pod = thaw(spec["template"])
            meta = pod.setdefault("metadata", {})
            meta["ownerReferences"] = [_owner(job, "batch/v1", "Job")]
            meta["generateName"] = f"{job['metadata']['name']}-{index + '-' if indexed else ''}"
            if indexed:
                meta.setdefault("annotations", {})[
                    "batch.kubernetes.io/job-completion-index"
                ] = index
                meta["labels"]["batch.kubernetes.io/job-completion-index"] = index
                for container in pod["spec"]["containers"]:
                    container.setdefault("env", []).append(
                        {"name": "JOB_COMPLETION_INDEX", "value": index}
                    )
                pod["spec"]["hostname"] = f"{job['metadata']['name']}-{index}"
            created = self._create_pod(job, pod)
            if created is not None:
                self._recorder.record(
                    {**job, "apiVersion": "batch/v1", "kind": "Job"},
                    "SuccessfulCreate",
                    f"Created pod: {created['metadata']['name']}",
                    "job-controller",
                )

    def _create_pod(self, owner: Obj, pod: Obj) -> Obj | None:
        try:
            return self._api.create(
                self._find("", "v1", "pods"), owner["metadata"]["namespace"], pod
            )
        except ApiError as error:
            component = f"{owner['kind'].lower()}-controller"
            self._recorder.record(
                owner, "FailedCreate", f"Error creating: {error.message}", component, "Warning"
            )
            return None

    def _expire_job(self, job: Obj) -> None:
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return
        meta = job["metadata"]

        def remove() -> None:
            current = self._api.store.find(("batch", "jobs"), meta["namespace"], meta["name"])
            if current is not None and current["metadata"]["uid"] == meta["uid"]:
                self._api.delete(
                    self._find("batch", "v1", "jobs"),
                    meta["namespace"],
                    meta["name"],
                    {"propagationPolicy": "Background"},
                )

        asyncio.get_running_loop().call_later(ttl, remove)

    def _delete_pod(self, pod: Obj) -> None:
        meta = pod["metadata"]
        self._api.delete(self._find("", "v1", "pods"), meta["namespace"], meta["name"])

    # ---- daemon sets
    def _on_daemonset(self, event: Event) -> None:
        meta = event.entry.obj["metadata"]
        if event.kind != "DELETED":
            self._later("daemonset", meta["namespace"], meta["name"])

    def _on_node(self, _event: Event) -> None:
        for daemonset in self._api.store.all(("apps", "daemonsets")):
            meta = daemonset["metadata"]
            self._later("daemonset", meta["namespace"], meta["name"], 0.05)

    def _sync_daemonset(self, namespace: str, name: str) -> None:
        daemonset = self._api.store.find(("apps", "daemonsets"), namespace, name)
        if daemonset is None or daemonset["metadata"].get("deletionTimestamp"):
            return
        template = daemonset["spec"]["template"]
        tolerations = [
            *(template["spec"].get("tolerations") or []),
            {
                "key": "node.kubernetes.io/unschedulable",
                "operator": "Exists",
                "effect": "NoSchedule",
            },
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        ]
        have: dict[str, Obj] = {}
        for pod in self._pods_of(daemonset):
            if not pod["metadata"].get("deletionTimestamp"):
                have[_daemon_node(pod)] = pod
        wanted = {
            n["metadata"]["name"]
            for n in self._api.store.all(("", "nodes"))
            if _node_matches(template["spec"], n) and not _untolerated(n, tolerations)
        }
        for node in sorted(wanted - set(have)):
            self._start_daemon_pod(daemonset, node, tolerations)
        for node, pod in have.items():
            if node not in wanted:
                self._delete_pod(pod)
        ready = sum(_ready(p) for n, p in have.items() if n in wanted)
        status = {
            "currentNumberScheduled": len(wanted & set(have)),
            "desiredNumberScheduled": len(wanted),
            "numberAvailable": ready,
            "numberMisscheduled": 0,
            "numberReady": ready,
            "numberUnavailable": len(wanted) - ready,
            "observedGeneration": daemonset["metadata"].get("generation", 1),
            "updatedNumberScheduled": len(wanted & set(have)),
        }
        if not status["numberUnavailable"]:
            del status["numberUnavailable"]
        if not ready:
            del status["numberAvailable"]
        if status != daemonset.get("status"):
            current = self._api.store.find(("apps", "daemonsets"), namespace, name)
            if current is not None:
                self._api.put(
                    self._find("apps", "v1", "daemonsets"),
                    {**current, "metadata": dict(current["metadata"]), "status": status},
                )

    def _start_daemon_pod(self, daemonset: Obj, node: str, tolerations: list[Obj]) -> None:
        pod = thaw(daemonset["spec"]["template"])
        meta = pod.setdefault("metadata", {})
        meta["generateName"] = daemonset["metadata"]["name"] + "-"
        meta["ownerReferences"] = [_owner(daemonset, "apps/v1", "DaemonSet")]
        meta.setdefault("labels", {})["controller-revision-hash"] = "5d5f7c8d9"
        pod["spec"]["tolerations"] = tolerations
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        pod["spec"].setdefault("affinity", {})["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
        self._create_pod(daemonset, pod)

    # ---- namespaces
    def _on_namespace(self, event: Event) -> None:
        obj = event.entry.obj
        meta = obj["metadata"]
        if event.kind == "ADDED":
            self._api.create(
                self._find("", "v1", "serviceaccounts"),
                meta["name"],
                {"metadata": {"name": "default"}},
            )
            self._api.create(
                self._find("", "v1", "configmaps"),
                meta["name"],
                {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": ""}},
            )
        elif event.kind == "MODIFIED" and meta.get("deletionTimestamp"):
            self._later("namespace", "", meta["name"])

    def _sync_namespace(self, _namespace: str, name: str) -> None:
        obj = self._api.store.find(("", "namespaces"), None, name)
        if obj is None or not obj["metadata"].get("deletionTimestamp"):
            return
        left = False
        for key in self._api.registry.all_keys():
            resource = self._api.registry.of_key(key)
            for item in list(self._api.store.all(key, name) if resource.namespaced else ()):
                meta = item["metadata"]
                if not meta.get("deletionTimestamp"):
                    self._api.delete(
                        resource, name, meta["name"], {"propagationPolicy": "Background"}
                    )
                left |= self._api.store.find(key, name, meta["name"]) is not None
        if not left:
            self._api.remove(self._find("", "v1", "namespaces"), None, name)

    # ---- garbage
    def _collect(self, event: Event) -> None:
        """Objects go when their last owner is gone; an owner that waits for them goes after them."""
        meta = event.entry.obj["metadata"]
        if event.kind == "DELETED":
            for resource, obj in self._api.dependents(meta["uid"]) if _may_own(event) else ():
                refs = obj["metadata"]["ownerReferences"]
                if all(self._owner_gone(r, obj["metadata"].get("namespace")) for r in refs):
                    self._drop(resource, obj)
            for ref in meta.get("ownerReferences") or ():
                self._finish_foreground(ref, meta.get("namespace"))
        elif event.kind == "MODIFIED" and "foregroundDeletion" in (meta.get("finalizers") or ()):
            dependents = self._api.dependents(meta["uid"])
            for resource, obj in dependents:
                if not obj["metadata"].get("deletionTimestamp"):
                    self._drop(resource, obj)

    def _drop(self, resource: Any, obj: Obj) -> None:
        meta = obj["metadata"]

        def run() -> None:
            if self._api.store.find(resource.key, meta.get("namespace"), meta["name"]) is not None:
                self._api.delete(
                    resource,
                    meta.get("namespace"),
                    meta["name"],
                    {"propagationPolicy": "Background"},
                )

        asyncio.get_running_loop().call_soon(run)

    def _owner(self, ref: Obj, namespace: str | None) -> tuple[Any, Obj] | None:
        resource = self._api.registry.of_kind(ref["apiVersion"], ref["kind"])
        if resource is None:
            return None
        obj = self._api.store.find(
            resource.key, namespace if resource.namespaced else None, ref["name"]
        )
        return (resource, obj) if obj is not None and obj["metadata"]["uid"] == ref["uid"] else None

    def _owner_gone(self, ref: Obj, namespace: str | None) -> bool:
        return self._owner(ref, namespace) is None

    def _finish_foreground(self, ref: Obj, namespace: str | None) -> None:
        found = self._owner(ref, namespace)
        if found is None:
            return
        resource, obj = found
        finalizers = obj["metadata"].get("finalizers") or []
        if "foregroundDeletion" in finalizers and not self._api.dependents(obj["metadata"]["uid"]):
            left = [f for f in finalizers if f != "foregroundDeletion"]
            meta = {**obj["metadata"], "finalizers": left}
            if left:
                self._api.put(resource, {**obj, "metadata": meta})
            else:
                self._api.remove(
                    resource, obj["metadata"].get("namespace"), obj["metadata"]["name"]
                )


# Types that own others here; deletions of the rest need no search for dependents.
_OWNERS = {
    "jobs",
    "cronjobs",
    "daemonsets",
    "deployments",
    "replicasets",
    "statefulsets",
    "nicclusterpolicies",
    "macvlannetworks",
    "hostdevicenetworks",
    "ipoibnetworks",
    "clusterpolicies",
    "configmaps",
    "nodes",
}


def _may_own(event: Event) -> bool:
    return event.key[1] in _OWNERS


def _owner(obj: Obj, version: str, kind: str) -> Obj:
    return {
        "apiVersion": version,
        "kind": kind,
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _index(pod: Obj) -> str:
    return (pod["metadata"].get("annotations") or {}).get(
        "batch.kubernetes.io/job-completion-index", ""
    )


def _ranges(numbers: list[int]) -> str:
    """0,1,2,5 as "0-2,5"."""
    out: list[list[int]] = []
    for n in numbers:
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def _age(start: str) -> float:
    import datetime

    begun = datetime.datetime.strptime(start, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.UTC)
    return (datetime.datetime.now(datetime.UTC) - begun).total_seconds()


def _daemon_node(pod: Obj) -> str:
    if pod["spec"].get("nodeName"):
        return pod["spec"]["nodeName"]
    terms = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    return terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]


def _ready(pod: Obj) -> bool:
    return any(
        c["type"] == "Ready" and c["status"] == "True"
        for c in pod["status"].get("conditions") or ()
    )
