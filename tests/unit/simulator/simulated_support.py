"""Helpers of the tests: a running cluster, plain HTTP to it, pods, and execs."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from simulator import client
from simulator.config import Config

RDMA = "rdma/rdma_shared_device_a"
PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, node: str | None = None, **spec: Any) -> dict[str, Any]:
    """A test pod as the roles make them: one RDMA device, one secondary network."""
    gpus = spec.pop("gpus", 0)
    limits = {RDMA: 1} | ({"nvidia.com/gpu": gpus} if gpus else {})
    container = {
        "name": "rdma-test-ctr",
        "image": spec.pop("image", "mellanox/cuda-perftest" if gpus else "mellanox/rping-test"),
        "command": ["sleep", "infinity"],
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "resources": {"limits": limits, "requests": limits},
    }
    container |= spec.pop("container", {})
    meta: dict[str, Any] = {
        "name": name,
        "labels": {"app.kubernetes.io/managed-by": "k8si.fabric"},
        "annotations": {"k8s.v1.cni.cncf.io/networks": spec.pop("networks", "rdma-net-ipam")},
    }
    full: dict[str, Any] = {"containers": [container], "restartPolicy": "Never", **spec}
    if node:
        full["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": full}


class Answer:
    """A response."""

    def __init__(self, code: int, headers: Any, body: bytes) -> None:
        self.code = code
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return self.json.get("message", "")


class Cluster:
    """A simulated cluster in a folder of its own."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.folder = folder
        settings: dict[str, Any] = {
            "start_delay": 0.05,
            "stop_delay": 0.05,
            "time_scale": 0.02,
            **config,
        }
        began = time.monotonic()
        self.started = client.start(folder, Config(**settings))
        self.start_seconds = time.monotonic() - began
        self.kubeconfig = str(folder / "kubeconfig")
        loaded = yaml.safe_load((folder / "kubeconfig").read_text())
        self.url = loaded["clusters"][0]["cluster"]["server"]
        self.token = loaded["users"][0]["user"]["token"]
        fabric = yaml.safe_load((folder / "kubeconfig-fabric").read_text())
        self.fabric_token = fabric["users"][0]["user"]["token"]
        control = json.loads((folder / "control").read_text())
        self._tls = ssl.create_default_context(cadata=control["ca"])
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=self._tls))

    def stop(self) -> None:
        client.stop(self.folder)

    def clean(self) -> None:
        client.set_faults(self.folder, [])
        client.reset(self.folder)

    def faults(self, *names: str) -> None:
        client.set_faults(self.folder, list(names))

    def state(self) -> Any:
        return client.state(self.folder)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        kind: str = "application/json",
        token: str | None = None,
        accept: str = "application/json",
        **query: Any,
    ) -> Answer:
        """One HTTP request with the administrator's token."""
        url = self.url + path + ("?" + urllib.parse.urlencode(query, doseq=True) if query else "")
        data = json.dumps(body).encode() if body is not None else None
        headers = {
            "Authorization": f"Bearer {self.token if token is None else token}",
            "Content-Type": kind,
            "Accept": accept,
        }
        request = urllib.request.Request(url, data=data, method=method, headers=headers)
        try:
            with self._opener.open(request, timeout=10) as response:
                return Answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())

    def get(self, path: str, **query: Any) -> Answer:
        return self.request("GET", path, **query)

    def post(self, path: str, body: Any, **query: Any) -> Answer:
        return self.request("POST", path, body, **query)

    def patch(self, path: str, body: Any, kind: str = "merge-patch+json", **query: Any) -> Answer:
        return self.request("PATCH", path, body, kind=f"application/{kind}", **query)

    def delete(self, path: str, body: Any = None, **query: Any) -> Answer:
        return self.request("DELETE", path, body, **query)

    def wait(self, name: str, phase: str = "Running", seconds: float = 5.0) -> Any:
        """Waits for a pod's phase; returns the pod."""
        found = self.until(
            lambda: (p := self.get(f"{PODS}/{name}").json).get("status", {}).get("phase") == phase
            and p,
            seconds,
        )
        return found

    def until(self, what: Any, seconds: float = 5.0) -> Any:
        """Waits until a function says something true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := what():
                return value
            time.sleep(0.02)
        raise AssertionError("it did not come about")

    def run(self, *pods: Any) -> list[Any]:
        """Creates pods and waits until they run."""
        for item in pods:
            answer = self.post(PODS, item)
            assert answer.code == 201, answer.body
        return [self.wait(p["metadata"]["name"]) for p in pods]

    def events(self, name: str) -> list[tuple[str, str]]:
        items = self.get(
            "/api/v1/namespaces/default/events", fieldSelector=f"involvedObject.name={name}"
        ).json["items"]
        return [(e["reason"], e["message"]) for e in items]

    # ---- exec through the Python client
    def api(self, token: str | None = None) -> Any:
        from kubernetes import config

        name = "kubeconfig" if token is None else "kubeconfig-fabric"
        return config.new_client_from_config(str(self.folder / name))

    def exec(self, name: str, command: list[str], stdin: str | None = None, **options: Any) -> Any:
        """Starts an exec; returns the client's stream object."""
        from kubernetes.client import CoreV1Api
        from kubernetes.stream import stream

        options = {
            "namespace": "default",
            "stdout": True,
            "stderr": True,
            "stdin": stdin is not None,
            **options,
        }
        core = CoreV1Api(self.api())
        connection = stream(
            core.connect_get_namespaced_pod_exec,
            name,
            command=command,
            tty=False,
            _preload_content=False,
            **options,
        )
        if stdin is not None:
            connection.write_stdin(stdin)
        return connection

    def result(self, connection: Any, seconds: float = 10.0) -> tuple[str, str, int | None, str]:
        """stdout, stderr, exit code (None without a status) and the status' text."""
        connection.run_forever(timeout=seconds)
        out, err = connection.read_stdout(timeout=0) or "", connection.read_stderr(timeout=0) or ""
        text = connection.read_channel(3)
        if not text:
            return out, err, None, ""
        status = yaml.safe_load(text)
        if status["status"] == "Success":
            return out, err, 0, text
        causes = status.get("details", {}).get("causes", [])
        codes = [c["message"] for c in causes if c.get("reason") == "ExitCode"]
        return out, err, int(codes[0]) if codes else -1, text

    def output(
        self, name: str, command: list[str], **options: Any
    ) -> tuple[str, str, int | None, str]:
        return self.result(self.exec(name, command, **options))


def secondary(pod_object: Any, number: int = 1) -> str:
    """The address of a pod's secondary network."""
    text = pod_object["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"]
    return str(json.loads(text)[number]["ips"][0])
