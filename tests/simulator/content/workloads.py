"""Pods that run from the start, with the DaemonSets and Deployments they belong to."""

from __future__ import annotations

from .. import addressing
from ..clock import timestamp
from ..config import Config
from .common import Obj, Putter, namespace, uid


def pod(
    namespace: str,
    name: str,
    node_name: str,
    labels: dict[str, str],
    containers: list[tuple[str, str]],
    owner: Obj | None,
    host_ip: str,
    resources: Obj | None = None,
) -> Obj:
    """A pod that runs."""
    now = timestamp()
    meta: Obj = {"name": name, "namespace": namespace, "labels": labels}
    if owner:
        meta["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": owner["kind"],
                "name": owner["name"],
                "uid": owner["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    spec_containers = [
        {
            "name": c,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "resources": resources or {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
        for c, image in containers
    ]
    return {
        "metadata": meta,
        "spec": {
            "nodeName": node_name,
            "containers": spec_containers,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [{"operator": "Exists"}],
            "priority": 0,
            "enableServiceLinks": True,
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": t, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
                for t in (
                    "PodReadyToStartContainers",
                    "Initialized",
                    "Ready",
                    "ContainersReady",
                    "PodScheduled",
                )
            ],
            "hostIP": host_ip,
            "hostIPs": [{"ip": host_ip}],
            "podIP": host_ip,
            "podIPs": [{"ip": host_ip}],
            "startTime": now,
            "containerStatuses": [
                {
                    "name": c,
                    "image": image,
                    "imageID": "",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now}},
                    "lastState": {},
                }
                for c, image in containers
            ],
            "qosClass": "BestEffort" if not resources else "Burstable",
        },
    }


def daemonset(
    put: Putter,
    config: Config,
    namespace: str,
    name: str,
    labels: dict[str, str],
    containers: list[tuple[str, str]],
    selector: dict[str, str],
    extra_labels: dict[str, str] | None = None,
) -> None:
    """A DaemonSet and a Running pod of it on every node."""
    nodes = config.node_names()
    count = len(nodes)
    template_containers = [
        {
            "name": c,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
        for c, image in containers
    ]
    owner_object = put(
        "apps",
        "v1",
        "daemonsets",
        {
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": {**labels, **(extra_labels or {})}},
                    "spec": {
                        "nodeSelector": selector,
                        "containers": template_containers,
                        "restartPolicy": "Always",
                        "terminationGracePeriodSeconds": 30,
                        "dnsPolicy": "ClusterFirst",
                        "securityContext": {},
                        "schedulerName": "default-scheduler",
                        "tolerations": [{"operator": "Exists"}],
                    },
                },
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
                },
                "revisionHistoryLimit": 10,
            },
            "status": {
                "currentNumberScheduled": count,
                "desiredNumberScheduled": count,
                "numberAvailable": count,
                "numberMisscheduled": 0,
                "numberReady": count,
                "observedGeneration": 1,
                "updatedNumberScheduled": count,
            },
        },
    )
    owner = {"kind": "DaemonSet", "name": name, "uid": owner_object["metadata"]["uid"]}
    for index, node_name in enumerate(nodes, 1):
        item = pod(
            namespace,
            f"{name}-{uid(name + node_name)[:5]}",
            node_name,
            {
                **labels,
                **(extra_labels or {}),
                "controller-revision-hash": "5d5f7c8d9",
                "pod-template-generation": "1",
            },
            containers,
            owner,
            addressing.node_ip(index),
        )
        put("", "v1", "pods", item)


def deployment(
    put: Putter, config: Config, namespace: str, name: str, labels: dict[str, str], image: str
) -> None:
    """A Deployment, its ReplicaSet and its one Running pod, on the first node."""
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": name, "image": image}], "restartPolicy": "Always"},
    }
    base = {"selector": {"matchLabels": labels}, "replicas": 1, "template": template}
    put(
        "apps",
        "v1",
        "deployments",
        {
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": base,
            "status": {
                "observedGeneration": 1,
                "replicas": 1,
                "updatedReplicas": 1,
                "readyReplicas": 1,
                "availableReplicas": 1,
                "conditions": [
                    {
                        "type": "Available",
                        "status": "True",
                        "reason": "MinimumReplicasAvailable",
                        "message": "Deployment has minimum availability.",
                        "lastUpdateTime": timestamp(),
                        "lastTransitionTime": timestamp(),
                    }
                ],
            },
        },
    )
    digest = uid(name).replace("-", "")[:10]
    owner_object = put(
        "apps",
        "v1",
        "replicasets",
        {
            "metadata": {"name": f"{name}-{digest}", "namespace": namespace, "labels": labels},
            "spec": base,
            "status": {
                "replicas": 1,
                "readyReplicas": 1,
                "availableReplicas": 1,
                "observedGeneration": 1,
            },
        },
    )
    owner = {
        "kind": "ReplicaSet",
        "name": f"{name}-{digest}",
        "uid": owner_object["metadata"]["uid"],
    }
    item = pod(
        namespace,
        f"{name}-{digest}-{uid(name + 'pod')[:5]}",
        config.node_names()[0],
        {**labels, "pod-template-hash": digest},
        [(name, image)],
        owner,
        addressing.node_ip(1),
    )
    put("", "v1", "pods", item)


def busy(put: Putter, config: Config) -> None:
    """Pods of somebody else that use GPUs."""
    put("", "v1", "namespaces", namespace("training"))
    for index, name in enumerate(config.node_names(), 1):
        limits = {"nvidia.com/gpu": str(config.busy_gpus)}
        put(
            "",
            "v1",
            "pods",
            pod(
                "training",
                f"train-{index}",
                name,
                {"app": "train"},
                [("worker", "registry.example/train:1")],
                None,
                addressing.node_ip(index),
                {"limits": limits, "requests": limits},
            ),
        )
