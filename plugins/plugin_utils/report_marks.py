# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Marks in the cluster that a run leaves when it is asked to: annotations, labels, an Event. Pure: manifests out.

Nothing here ever cordons a node, taints it or changes what is scheduled on it.
"""

from __future__ import annotations

import re

from ansible_collections.k8si.fabric.plugins.plugin_utils.words import HEADINGS

PREFIX = "fabric.k8si.io/"
_NOT_A_NAME = re.compile(r"[^a-z0-9.-]+")
_NOT_A_LABEL = re.compile(r"[^A-Za-z0-9._-]+")
_REASONS = {
    "fit": "FabricFit",
    "not_fit": "FabricNotFit",
    "not_measured": "FabricNotMeasured",
}
LONGEST_MESSAGE = 1024  # events.k8s.io: a note of at most 1 kB


def node_patches(report: dict, settings: dict) -> list[dict]:
    """Node manifests with nothing but what is to be changed, for `kubernetes.core.k8s` with `state: patched`.

    Annotations: `fabric.k8si.io/<test>` (verdict), `fabric.k8si.io/<test>-gbps`, `fabric.k8si.io/run`,
    `fabric.k8si.io/tested-at`. Labels: `fabric.k8si.io/<test>` (verdict). Verdicts are `passed`, `slow`, `failed` and
    `suspect` (has no partner with which it passed, and it is not proven that it is to blame). A node or test that was not
    measured is left as it is.
    """
    if not settings["node_annotations"] and not settings["node_labels"]:
        return []
    patches = []
    for node in report["nodes"]:
        verdicts = {f"{PREFIX}{test}": verdict for test, verdict in node["verdicts"].items()}
        metadata: dict = {"name": node["name"]}
        if settings["node_labels"]:
            metadata["labels"] = verdicts
        if settings["node_annotations"]:
            metadata["annotations"] = {
                **verdicts,
                **{
                    f"{PREFIX}{test}-gbps": f"{figure:.1f}" for test, figure in node["gbps"].items()
                },
                f"{PREFIX}run": report["result"]["run"],
                f"{PREFIX}tested-at": report["ended"],
            }
        patches.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    return patches


def events(report: dict, settings: dict) -> list[dict]:
    """One Event about the namespace, of type Warning when the network is not fit, else Normal; none unless asked for."""
    if not settings["event"]:
        return []
    result = report["result"]
    namespace = settings["event_namespace"]
    run = _NOT_A_NAME.sub("-", result["run"].lower()).strip("-.")[:200]
    verdict = result["verdict"]
    message = (
        result["answer"] if verdict == "fit" else f"{HEADINGS[verdict].lower()}: {result['answer']}"
    )
    return [
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"fabric-validation-{run}",
                "namespace": namespace,
                "labels": {
                    "app.kubernetes.io/managed-by": "k8si.fabric",
                    f"{PREFIX}run": _NOT_A_LABEL.sub("-", result["run"]).strip("-._")[:63],
                },
            },
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Namespace",
                "name": namespace,
                "namespace": namespace,
            },
            "type": "Warning" if verdict == "not_fit" else "Normal",
            "reason": _REASONS[verdict],
            "message": message[:LONGEST_MESSAGE],
            "source": {"component": "k8si.fabric"},
            "firstTimestamp": report["ended"],
            "lastTimestamp": report["ended"],
            "count": 1,
        }
    ]


def manifests(report: dict, settings: dict) -> list[dict]:
    """All marks that are asked for."""
    return [*node_patches(report, settings), *events(report, settings)]
