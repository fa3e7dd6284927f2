"""The API is as strict as a real server where a collection could be wrong."""

from __future__ import annotations

import json
import socket
import ssl
import time

import pytest
from simulated_support import PODS, RDMA, pod


def test_only_tls_and_a_token_open_the_door(cluster):
    answer = cluster.request("GET", "/api/v1/nodes", token="wrong")
    assert (answer.code, answer.json["reason"]) == (401, "Unauthorized")
    host, port = cluster.url.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port))) as plain, pytest.raises(ssl.SSLError):
        ssl.create_default_context().wrap_socket(plain, server_hostname=host)


def test_healthy_content(cluster):
    nodes = cluster.get("/api/v1/nodes").json["items"]
    assert [n["metadata"]["name"] for n in nodes] == [f"gpu-node-{i}" for i in range(1, 5)]
    assert nodes[0]["status"]["allocatable"][RDMA] == "63"
    policy = cluster.get("/apis/mellanox.com/v1alpha1/nicclusterpolicies/nic-cluster-policy").json
    assert policy["status"]["state"] == "ready"
    assert {"ready", "ignore"} == {s["state"] for s in policy["status"]["appliedStates"]}
    pods = cluster.get("/api/v1/namespaces/nvidia-network-operator/pods").json["items"]
    assert all(p["status"]["phase"] == "Running" for p in pods)
    assert any(p["metadata"]["labels"].get("control-plane") for p in pods)
    for path in (
        "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions/rdma-net-ipam",
        "/apis/mellanox.com/v1alpha1/macvlannetworks/rdma-net-ipam",
        "/apis/nvidia.com/v1/clusterpolicies/cluster-policy",
        "/apis/nv-ipam.nvidia.com/v1alpha1/namespaces/nvidia-network-operator/ippools/rdma-pool",
    ):
        assert cluster.get(path).code == 200, path


class TestFields:
    def test_unknown_field_is_dropped_with_a_warning(self, cluster):
        body = pod("a") | {"spec": {**pod("a")["spec"], "activeDeadlineSecond": 5}}
        answer = cluster.post(PODS, body)
        assert answer.code == 201
        assert answer.headers.get_all("Warning") == [
            '299 - "unknown field \\"spec.activeDeadlineSecond\\""'
        ]
        assert "activeDeadlineSecond" not in answer.json["spec"]

    def test_unknown_field_is_refused_when_strict(self, cluster):
        body = pod("a", container={"resource": {}})
        answer = cluster.post(PODS, body, fieldValidation="Strict")
        assert answer.code == 400
        assert (
            'strict decoding error: unknown field "spec.containers[0].resource"' in answer.message
        )

    @pytest.mark.parametrize(
        ("spec", "text"),
        [
            ({"activeDeadlineSeconds": "600"}, "cannot unmarshal string into Go struct field"),
            ({"nodeSelector": {"a": True}}, "cannot unmarshal bool into Go struct field"),
            ({"hostNetwork": "yes"}, "of type bool"),
            ({"tolerations": {}}, "cannot unmarshal object"),
        ],
    )
    def test_wrong_type(self, cluster, spec, text):
        answer = cluster.post(PODS, pod("a", **spec))
        assert answer.code == 400
        assert text in answer.message

    def test_annotation_must_be_a_string(self, cluster):
        body = pod("a")
        body["metadata"]["annotations"]["x"] = 1
        assert cluster.post(PODS, body).code == 400

    def test_quantities_come_back_as_strings(self, cluster):
        answer = cluster.post(PODS, pod("a"))
        assert answer.json["spec"]["containers"][0]["resources"]["limits"] == {RDMA: "1"}

    def test_kind_and_version_must_fit_the_path(self, cluster):
        assert cluster.post(PODS, {**pod("a"), "kind": "Job"}).code == 400

    def test_custom_resources_are_pruned_validated_and_defaulted(self, cluster):
        path = "/apis/mellanox.com/v1alpha1/macvlannetworks"
        body = {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": "MacvlanNetwork",
            "metadata": {"name": "x"},
            "spec": {"mode": "bridge", "masterr": "ens1"},
        }
        answer = cluster.post(path, body)
        assert answer.code == 201
        assert "masterr" not in answer.json["spec"]
        assert 'unknown field \\"spec.masterr\\"' in answer.headers["Warning"]
        answer = cluster.post(path, {**body, "metadata": {"name": "y"}, "spec": {"mode": "tunnel"}})
        assert answer.code == 422
        assert "Unsupported value" in answer.message


class TestPods:
    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"containers": []}, "spec.containers: Required value"),
            ({"restartPolicy": "Sometimes"}, 'spec.restartPolicy: Unsupported value: "Sometimes"'),
            ({"activeDeadlineSeconds": 0}, "must be between 1 and 2147483647"),
            ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector: Invalid value"),
        ],
    )
    def test_spec(self, cluster, change, text):
        body = pod("a")
        body["spec"] |= change
        answer = cluster.post(PODS, body)
        assert (answer.code, answer.json["reason"]) == (422, "Invalid")
        assert text in answer.message

    @pytest.mark.parametrize(
        ("container", "text"),
        [
            ({"name": "Bad_Name"}, "a lowercase RFC 1123 label must consist of"),
            ({"image": ""}, "spec.containers[0].image: Required value"),
            ({"env": [{"name": "a=b"}]}, "environment variable name"),
            ({"env": [{"value": "x"}]}, "spec.containers[0].env[0].name: Required value"),
            ({"volumeMounts": [{"name": "no", "mountPath": "/x"}]}, 'Not found: "no"'),
            ({"resources": {"limits": {RDMA: "0.5"}}}, "must be an integer"),
            (
                {"resources": {"requests": {RDMA: 1}}},
                "Limit must be set for non overcommitable resources",
            ),
            (
                {"resources": {"limits": {RDMA: 2}, "requests": {RDMA: 1}}},
                f"must be equal to {RDMA} limit of 2",
            ),
            ({"resources": {"limits": {"rdma_shared": 1}}}, "must be a standard resource"),
        ],
    )
    def test_container(self, cluster, container, text):
        answer = cluster.post(PODS, pod("a", container=container))
        assert answer.code == 422
        assert text in answer.message

    @pytest.mark.parametrize("name", ["Upper", "under_score", "-x", "x" * 254])
    def test_names(self, cluster, name):
        answer = cluster.post(PODS, pod(name))
        assert answer.code == 422
        assert f'Pod "{name}" is invalid: metadata.name' in answer.message

    @pytest.mark.parametrize(
        "labels", [{"a/b/c": "x"}, {"x": "with space"}, {"x": "y" * 64}, {"-x": "1"}, {"": "1"}]
    )
    def test_labels(self, cluster, labels):
        body = pod("a")
        body["metadata"]["labels"] = labels
        assert cluster.post(PODS, body).code == 422

    def test_defaults(self, cluster):
        spec = cluster.post(PODS, pod("a")).json["spec"]
        assert spec["serviceAccountName"] == "default"
        assert spec["terminationGracePeriodSeconds"] == 30
        assert spec["containers"][0]["imagePullPolicy"] == "Always"
        assert any(v["name"].startswith("kube-api-access-") for v in spec["volumes"])
        spec = cluster.post(PODS, pod("b", automountServiceAccountToken=False)).json["spec"]
        assert "volumes" not in spec

    def test_spec_cannot_be_changed(self, cluster):
        cluster.post(PODS, pod("a"))
        answer = cluster.patch(f"{PODS}/a", {"spec": {"hostname": "other"}})
        assert answer.code == 422
        assert (
            "spec: Forbidden: pod updates may not change fields other than "
            "`spec.containers[*].image`" in answer.message
        )
        assert cluster.patch(f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 50}}).code == 200
        assert cluster.patch(f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 60}}).code == 422

    def test_generate_name_and_conflict(self, cluster):
        body = pod("a")
        assert cluster.post(PODS, body).code == 201
        answer = cluster.post(PODS, body)
        assert (answer.code, answer.message) == (409, 'pods "a" already exists')
        del body["metadata"]["name"]
        assert cluster.post(PODS, body).code == 422
        body["metadata"]["generateName"] = "rdma-"
        assert cluster.post(PODS, body).json["metadata"]["name"].startswith("rdma-")

    def test_namespace_must_exist(self, cluster):
        answer = cluster.post("/api/v1/namespaces/nowhere/pods", pod("a"))
        assert (answer.code, answer.message) == (404, 'namespaces "nowhere" not found')

    def test_pod_security(self, cluster):
        labels = {"pod-security.kubernetes.io/enforce": "baseline"}
        cluster.post("/api/v1/namespaces", {"metadata": {"name": "safe", "labels": labels}})
        cluster.until(
            lambda: cluster.get("/api/v1/namespaces/safe/serviceaccounts/default").code == 200
        )
        answer = cluster.post("/api/v1/namespaces/safe/pods", pod("a"))
        assert answer.code == 403
        assert answer.message == (
            'pods "a" is forbidden: violates PodSecurity "baseline:latest": non-default capabilities (container '
            '"rdma-test-ctr" must not include "IPC_LOCK" in securityContext.capabilities.add)'
        )
        cluster.patch(
            "/api/v1/namespaces/safe", {"metadata": {"labels": dict.fromkeys(labels, "restricted")}}
        )
        answer = cluster.post("/api/v1/namespaces/safe/pods", pod("a"))
        assert 'must set securityContext.capabilities.drop=["ALL"]' in answer.message


class TestLists:
    def _three(self, cluster):
        for name, value in (("a", "1"), ("b", "2"), ("c", "2")):
            body = pod(name)
            body["metadata"]["labels"] = {"run": value, "app": "t"}
            cluster.post(PODS, body)

    @pytest.mark.parametrize(
        ("selector", "names"),
        [
            ("run=1", "a"),
            ("run==2,app=t", "bc"),
            ("run!=1", "bc"),
            ("run in (1,3)", "a"),
            ("run notin (1)", "bc"),
            ("!run", ""),
            ("app", "abc"),
            ("run>1", "bc"),
        ],
    )
    def test_label_selectors(self, cluster, selector, names):
        self._three(cluster)
        items = cluster.get(PODS, labelSelector=selector).json["items"]
        assert "".join(i["metadata"]["name"] for i in items) == names

    @pytest.mark.parametrize("selector", ["a in b", "a=b c", "a b", "a in (", "=x", "a=b,"])
    def test_bad_label_selectors(self, cluster, selector):
        answer = cluster.get(PODS, labelSelector=selector)
        assert (answer.code, answer.json["reason"]) == (400, "BadRequest")

    def test_field_selectors(self, cluster):
        self._three(cluster)
        items = cluster.get(PODS, fieldSelector="metadata.name=b").json["items"]
        assert [i["metadata"]["name"] for i in items] == ["b"]
        answer = cluster.get(PODS, fieldSelector="spec.containers=x")
        assert (answer.code, answer.message) == (400, "field label not supported: spec.containers")

    def test_paging(self, cluster):
        self._three(cluster)
        first = cluster.get(PODS, limit=2).json
        assert (len(first["items"]), first["metadata"]["remainingItemCount"]) == (2, 1)
        second = cluster.get(PODS, limit=2, **{"continue": first["metadata"]["continue"]}).json
        assert [i["metadata"]["name"] for i in second["items"]] == ["c"]
        assert "continue" not in second["metadata"]

    def test_expired_continue(self, cluster):
        from simulator import client

        self._three(cluster)
        token = cluster.get(PODS, limit=1).json["metadata"]["continue"]
        cluster.post(PODS, pod("d"))
        client.call(cluster.folder, "compact")
        answer = cluster.get(PODS, limit=1, **{"continue": token})
        assert (answer.code, answer.json["reason"]) == (410, "Expired")
        assert cluster.get(PODS, limit=1, **{"continue": "nonsense"}).code == 400


class TestWrites:
    path = "/api/v1/namespaces/default/configmaps"

    def _make(self, cluster, **data):
        return cluster.post(self.path, {"metadata": {"name": "m"}, "data": data}).json

    def test_stale_version_conflicts(self, cluster):
        old = self._make(cluster, a="1")
        cluster.patch(f"{self.path}/m", {"data": {"a": "2"}})
        answer = cluster.request("PUT", f"{self.path}/m", old)
        assert (answer.code, answer.json["reason"]) == (409, "Conflict")
        assert "the object has been modified" in answer.message

    def test_nothing_changed_nothing_counted(self, cluster):
        old = self._make(cluster, a="1")
        new = cluster.patch(f"{self.path}/m", {"data": {"a": "1"}}).json
        assert new["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]

    def test_patches(self, cluster):
        self._make(cluster, a="1", b="2")
        assert cluster.patch(f"{self.path}/m", {"data": {"a": None}}).json["data"] == {"b": "2"}
        add = [{"op": "add", "path": "/data/c", "value": "3"}]
        assert cluster.patch(f"{self.path}/m", add, "json-patch+json").json["data"] == {
            "b": "2",
            "c": "3",
        }
        test = [{"op": "test", "path": "/data/c", "value": "4"}]
        assert cluster.patch(f"{self.path}/m", test, "json-patch+json").code == 422
        assert cluster.patch(f"{self.path}/m", {}, "bogus").code == 415

    def test_strategic_merge(self, cluster):
        cluster.post(PODS, pod("a"))
        change = {"spec": {"containers": [{"name": "rdma-test-ctr", "image": "other:1"}]}}
        spec = cluster.patch(f"{PODS}/a", change, "strategic-merge-patch+json").json["spec"]
        assert spec["containers"][0]["image"] == "other:1"
        assert spec["containers"][0]["command"] == ["sleep", "infinity"]
        policy = "/apis/mellanox.com/v1alpha1/nicclusterpolicies/nic-cluster-policy"
        assert cluster.patch(policy, {}, "strategic-merge-patch+json").code == 415

    def test_apply(self, cluster):
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "m"},
            "data": {"a": "1", "b": "2"},
        }
        assert cluster.patch(f"{self.path}/m", body, "apply-patch+yaml").code == 422
        assert (
            cluster.patch(f"{self.path}/m", body, "apply-patch+yaml", fieldManager="x").code == 201
        )
        body["data"] = {"a": "3"}
        answer = cluster.patch(f"{self.path}/m", body, "apply-patch+yaml", fieldManager="x")
        assert (answer.code, answer.json["data"]) == (200, {"a": "3"})

    def test_dry_run_leaves_nothing(self, cluster):
        assert cluster.post(PODS, pod("a"), dryRun="All").code == 201
        assert cluster.get(f"{PODS}/a").code == 404

    def test_status_is_apart(self, cluster):
        path = "/apis/mellanox.com/v1alpha1/nicclusterpolicies/nic-cluster-policy"
        before = cluster.get(path).json
        after = cluster.patch(path, {"status": {"state": "notReady"}}).json
        assert after["status"]["state"] == "ready"
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        assert (
            cluster.patch(f"{path}/status", {"status": {"state": "notReady"}}).json["status"][
                "state"
            ]
            == "notReady"
        )
        assert cluster.patch(f"{path}/status", {"status": {"state": "ready"}}).code == 200

    def test_unknown_paths(self, cluster):
        for path in (
            "/apis/none.example/v1/things",
            "/api/v1/frobs",
            "/api/v1/namespaces/default/pods/x/frob",
        ):
            answer = cluster.get(path)
            assert (answer.code, answer.message) == (
                404,
                "the server could not find the requested resource",
            )


class TestDeletion:
    def test_graceful(self, cluster):
        cluster.run(pod("a"))
        answer = cluster.delete(f"{PODS}/a")
        assert answer.code == 200
        assert answer.json["metadata"]["deletionGracePeriodSeconds"] == 30
        assert "deletionTimestamp" in cluster.get(f"{PODS}/a").json["metadata"]
        cluster.until(lambda: cluster.get(f"{PODS}/a").code == 404)

    def test_at_once(self, cluster):
        cluster.run(pod("a"))
        cluster.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
        assert cluster.get(f"{PODS}/a").code == 404

    def test_preconditions(self, cluster):
        cluster.run(pod("a"))
        answer = cluster.delete(f"{PODS}/a", {"preconditions": {"uid": "no"}})
        assert answer.code == 409
        assert "Precondition failed: UID in precondition: no" in answer.message

    def test_collection_by_label(self, cluster):
        cluster.run(pod("a"), pod("b"))
        other = pod("other")
        other["metadata"]["labels"] = {"x": "y"}
        cluster.run(other)
        cluster.delete(PODS, labelSelector="app.kubernetes.io/managed-by=k8si.fabric")
        cluster.until(
            lambda: [i["metadata"]["name"] for i in cluster.get(PODS).json["items"]] == ["other"]
        )

    def test_namespace_takes_its_content_along(self, cluster):
        cluster.post("/api/v1/namespaces", {"metadata": {"name": "gone"}})
        cluster.until(
            lambda: cluster.get("/api/v1/namespaces/gone/serviceaccounts/default").code == 200
        )
        path = "/api/v1/namespaces/gone/pods"
        assert cluster.post(path, pod("a", networks="default/rdma-net-ipam")).code == 201

        def running():
            return cluster.get(f"{path}/a").json["status"]["phase"] == "Running"

        cluster.until(running)
        assert cluster.delete("/api/v1/namespaces/gone").json["status"]["phase"] == "Terminating"
        assert cluster.post(path, pod("b")).code == 403
        cluster.until(lambda: cluster.get("/api/v1/namespaces/gone").code == 404)
        assert cluster.get(f"{path}/a").code == 404


def _events(cluster, seconds=0.3, **query):
    """The events of a watch that lasts so long."""
    answer = cluster.get(PODS, watch="1", timeoutSeconds=seconds, **query)
    return [json.loads(line) for line in answer.body.splitlines()]


class TestWatch:
    def test_from_the_past(self, cluster):
        version = cluster.get(PODS).json["metadata"]["resourceVersion"]
        cluster.run(pod("a"))
        seen = _events(cluster, resourceVersion=version)
        assert [e["type"] for e in seen][:2] == ["ADDED", "MODIFIED"]
        assert seen[-1]["object"]["status"]["phase"] == "Running"

    def test_with_a_selector_an_object_comes_and_goes(self, cluster):
        version = cluster.get(PODS).json["metadata"]["resourceVersion"]
        cluster.run(pod("a"))
        cluster.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
        cluster.patch(f"{PODS}/a", {"metadata": {"labels": {"x": None}}})
        seen = _events(cluster, resourceVersion=version, labelSelector="x=y")
        assert [e["type"] for e in seen] == ["ADDED", "DELETED"]

    def test_bookmarks(self, cluster):
        seen = _events(cluster, seconds=0.1, allowWatchBookmarks="true")
        assert seen[-1]["type"] == "BOOKMARK"
        assert seen[-1]["object"]["metadata"]["resourceVersion"]

    def test_too_old(self, cluster):
        from simulator import client

        version = cluster.get(PODS).json["metadata"]["resourceVersion"]
        cluster.run(pod("a"))
        client.call(cluster.folder, "compact")
        seen = _events(cluster, resourceVersion=version)
        assert (seen[0]["type"], seen[0]["object"]["code"]) == ("ERROR", 410)


def test_kubectl_gets_tables(cluster):
    cluster.run(pod("a", "gpu-node-3"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    for path in (PODS, f"{PODS}/a"):
        table = cluster.request("GET", path, accept=accept).json
        assert [c["name"] for c in table["columnDefinitions"]][:4] == [
            "Name",
            "Ready",
            "Status",
            "Restarts",
        ]
        cells = table["rows"][0]["cells"]
        assert cells[:4] == ["a", "1/1", "Running", 0]
        assert cells[-1] == "gpu-node-3"


class TestPermissions:
    def test_refusal_in_the_servers_words(self, cluster):
        answer = cluster.request("GET", "/api/v1/secrets", token=cluster.fabric_token)
        user = answer.message.split('"')[1]
        assert user.startswith("system:serviceaccount:")
        assert answer.code == 403
        assert answer.message == (
            f'secrets is forbidden: User "{user}" cannot list resource "secrets" in API group "" at the cluster scope'
        )
        answer = cluster.request(
            "DELETE", "/apis/mellanox.com/v1alpha1/nicclusterpolicies/x", token=cluster.fabric_token
        )
        assert answer.message == (
            f'nicclusterpolicies.mellanox.com "x" is forbidden: User "{user}" cannot delete resource '
            '"nicclusterpolicies" in API group "mellanox.com" at the cluster scope'
        )

    def test_what_is_allowed(self, cluster):
        token = cluster.fabric_token
        assert cluster.request("GET", "/api/v1/nodes", token=token).code == 200
        assert cluster.request("POST", PODS, pod("a"), token=token).code == 201
        path = "/api/v1/namespaces/kube-system/pods"
        assert cluster.request("POST", path, pod("a"), token=token).code == 403

    def test_access_review(self, cluster):
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        for verb, allowed in (("create", True), ("update", False)):
            wanted = {"verb": verb, "resource": "pods", "namespace": "default"}
            answer = cluster.request(
                "POST", path, {"spec": {"resourceAttributes": wanted}}, token=cluster.fabric_token
            )
            assert answer.json["status"]["allowed"] is allowed


class TestControllers:
    def _job(self, **spec):
        template = {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {"name": "c", "image": "i:1", "command": spec.pop("command", ["true"])}
                ],
            }
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {"template": template, **spec},
        }

    jobs = "/apis/batch/v1/namespaces/default/jobs"

    def _condition(self, cluster):
        conditions = cluster.get(f"{self.jobs}/j").json.get("status", {}).get("conditions") or [{}]
        return conditions[0].get("type"), conditions[0].get("reason")

    def test_indexed_job(self, cluster):
        body = self._job(
            completions=3,
            parallelism=2,
            completionMode="Indexed",
            command=["sh", "-c", "echo $JOB_COMPLETION_INDEX"],
        )
        assert cluster.post(self.jobs, body).code == 201
        cluster.until(lambda: self._condition(cluster)[0] == "Complete", 8)
        job = cluster.get(f"{self.jobs}/j").json
        assert (job["status"]["succeeded"], job["status"]["completedIndexes"]) == (3, "0-2")
        pods = cluster.get(PODS, labelSelector="batch.kubernetes.io/job-name=j").json["items"]
        logs = {cluster.get(f"{PODS}/{p['metadata']['name']}/log").body for p in pods}
        assert logs == {b"0\n", b"1\n", b"2\n"}

    def test_failing_and_late_jobs(self, cluster):
        cluster.post(self.jobs, self._job(command=["false"], backoffLimit=0))
        cluster.until(lambda: self._condition(cluster) == ("Failed", "BackoffLimitExceeded"))
        cluster.delete(f"{self.jobs}/j", {"propagationPolicy": "Background"})
        cluster.post(self.jobs, self._job(command=["sleep", "600"], activeDeadlineSeconds=1))
        cluster.until(lambda: self._condition(cluster) == ("Failed", "DeadlineExceeded"))

    def test_job_goes_away_by_itself_with_its_pods(self, cluster):
        cluster.post(self.jobs, self._job(ttlSecondsAfterFinished=0))
        cluster.until(lambda: cluster.get(f"{self.jobs}/j").code == 404)
        cluster.until(lambda: not cluster.get(PODS).json["items"])

    def test_job_needs_a_restart_policy_and_stays_as_it_is(self, cluster):
        body = self._job()
        del body["spec"]["template"]["spec"]["restartPolicy"]
        assert cluster.post(self.jobs, body).code == 422
        cluster.post(self.jobs, self._job(command=["sleep", "600"]))
        answer = cluster.patch(f"{self.jobs}/j", {"spec": {"completions": 5}})
        assert "spec.completions: Invalid value: 5: field is immutable" in answer.message

    def test_daemonset(self, cluster):
        path = "/apis/apps/v1/namespaces/default/daemonsets"
        labels = {"app": "d"}
        container = {"name": "c", "image": "i:1", "command": ["sleep", "infinity"]}
        body = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "d"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }
        assert cluster.post(path, body).code == 201
        cluster.until(
            lambda: cluster.get(f"{path}/d").json.get("status", {}).get("numberReady") == 4
        )
        nodes = {
            p["spec"]["nodeName"] for p in cluster.get(PODS, labelSelector="app=d").json["items"]
        }
        assert len(nodes) == 4
        cluster.delete(f"{path}/d", {"propagationPolicy": "Foreground"})
        cluster.until(lambda: cluster.get(f"{path}/d").code == 404)
        assert not cluster.get(PODS).json["items"]

    def test_deadline_ends_a_pod(self, cluster):
        cluster.run(pod("a", activeDeadlineSeconds=1))
        began = time.monotonic()
        ended = cluster.wait("a", "Failed")
        assert ended["status"]["reason"] == "DeadlineExceeded"
        assert time.monotonic() - began < 3


class TestNetworkOperator:
    group = "/apis/mellanox.com/v1alpha1"

    def _status(self, cluster, path):
        return cluster.get(f"{self.group}/{path}").json.get("status") or {}

    def test_network_gets_its_attachment_and_takes_it_along(self, cluster):
        ipam = json.dumps({"type": "nv-ipam", "poolName": "rdma-pool"})
        body = {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": "MacvlanNetwork",
            "metadata": {"name": "mine"},
            "spec": {
                "networkNamespace": "default",
                "master": "ens2f0np0",
                "mode": "bridge",
                "ipam": ipam,
            },
        }
        assert cluster.post(f"{self.group}/macvlannetworks", body).code == 201
        cluster.until(lambda: self._status(cluster, "macvlannetworks/mine").get("state") == "ready")
        nad = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions/mine"
        assert json.loads(cluster.get(nad).json["spec"]["config"])["master"] == "ens2f0np0"
        body = pod("a", networks="mine")
        body["spec"]["containers"][0]["resources"] = {"limits": {"rdma/rdma_shared_device_b": 1}}
        cluster.run(body)
        script = "cat $FABRIC_PROBE_ROOT/sys/class/infiniband/mlx5_2/ports/1/gid_attrs/ndevs/*"
        assert set(cluster.output("a", ["sh", "-c", script])[0].split()) == {"net1"}
        cluster.delete(f"{self.group}/macvlannetworks/mine")
        cluster.until(lambda: cluster.get(nad).code == 404)

    def test_policy_is_not_ready_at_first(self, cluster):
        path = "nicclusterpolicies/nic-cluster-policy"
        old = cluster.get(f"{self.group}/{path}").json
        change = {
            "spec": {"nicFeatureDiscovery": {"image": "i", "repository": "r", "version": "1"}}
        }
        assert cluster.patch(f"{self.group}/{path}", change).code == 200
        cluster.until(lambda: self._status(cluster, path)["state"] == "notReady")
        cluster.until(lambda: self._status(cluster, path)["state"] == "ready")
        states = {s["name"]: s["state"] for s in self._status(cluster, path)["appliedStates"]}
        assert states["state-nic-feature-discovery"] == "ready"
        assert states["state-ib-kubernetes"] == "ignore"
        assert (
            cluster.patch(f"{self.group}/{path}", {"spec": {"nicFeatureDiscovery": None}}).code
            == 200
        )
        cluster.until(lambda: self._status(cluster, path) == old["status"])

    def test_policy_with_another_name_is_ignored(self, cluster):
        body = {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": "NicClusterPolicy",
            "metadata": {"name": "other"},
            "spec": {},
        }
        assert cluster.post(f"{self.group}/nicclusterpolicies", body).code == 201
        cluster.until(
            lambda: self._status(cluster, "nicclusterpolicies/other").get("state") == "ignore"
        )
