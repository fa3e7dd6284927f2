"""A whole cluster in one object: store, API, controllers, kubelets, fabric and faults, wired together."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

from . import content
from .addressing import Addresses
from .api import Api
from .config import Config
from .controllers import Controllers
from .events import Recorder
from .fabric import Fabric
from .faults import Faults
from .kubelet import Kubelet
from .local_backend import LocalBackend
from .machine import Machine
from .operators import Operators
from .overlay import Overlay
from .perftest.options import TOOLS
from .perftest.tool import Quirks, World
from .podtree import PodTrees
from .processes import Backend
from .rbac import Authorizer, User, service_account_user
from .resources import Registry
from .sandbox import Sandboxes
from .scheduler import Scheduler
from .store import Entry, Key, Store, thaw
from .wire import Wire

_SHIPPED_RBAC = Path(__file__).parents[2] / "docs" / "rbac.yml"


class Cluster:
    """To be made inside a running event loop."""

    def __init__(self, config: Config, folder: str) -> None:
        """folder: where the trees of pods go."""
        self.config = config
        self.store = Store()
        self.registry = Registry()
        self.api = Api(self.store, self.registry)
        self.authorizer = Authorizer(self.store)
        self.recorder = Recorder(self.api)
        self.rng = random.Random(config.seed)
        self.fabric = Fabric(
            seed=config.seed,
            line_rate_gbps=config.line_rate,
            infiniband=config.link == "infiniband",
        )
        self.wire = Wire()
        self.overlay = Overlay(self.api)
        self.faults = Faults(self)
        self.controllers = Controllers(self.api, self.recorder)
        self.scheduler = Scheduler(self.api, self.recorder, self._held)
        world = World(
            self.fabric,
            self.wire,
            config.perftest,
            config.time_scale,
            random.Random(config.seed + 1),
            quirks=self.quirks,
        )
        trees = PodTrees(folder, config.perftest, self.has_cuda)
        self.backend = self.make_backend(world, trees)
        self.sandboxes = Sandboxes(
            config,
            self.api,
            self.wire,
            self.faults,
            trees,
            self.fabric.is_down,
            self.make_addresses(),
            self.rng,
        )
        self.kubelet = Kubelet(
            config, self.api, self.recorder, self.faults, self.sandboxes, self.backend
        )
        self.execs = 0
        self.requests: Counter[str] = Counter()
        content.populate(self.api, config)
        manifest = content.BUILTIN_RBAC
        path = Path(config.rbac) if config.rbac else _SHIPPED_RBAC
        if path.exists():
            manifest = path.read_text()
        content.permissions(self.api, content.EVERYBODY)
        self.service_account = content.permissions(self.api, manifest)
        self.controllers.watch_deletions()
        # after the content, which is as if they had been at work already
        self.operators = Operators(self.api, config, self.overlay.has, self.faults.hit)
        self.sandboxes.operators = self.operators
        self._at_start: dict[tuple[Key, str, str], Entry] = {}
        self.faults.set(config.faults)

    # ---- what a cluster of another make replaces
    def make_backend(self, world: World, trees: PodTrees) -> Backend:
        """What runs the commands of pods."""
        return LocalBackend(world, trees, self.lacks)

    def make_addresses(self) -> Addresses:
        """What hands out addresses and interfaces."""
        return Addresses(self.config)

    def settled(self) -> None:
        """Called once everything of the content is there: what is there now survives a reset."""
        self.heal()
        self._at_start = {_place(key, entry): entry for key, entry in self.store.everything()}
        self.faults.again()

    @property
    def restricted_user(self) -> User:
        """The service account of kubeconfig-fabric."""
        return service_account_user(*self.service_account)

    # ---- faults
    def heal(self) -> None:
        """Takes the effects of all faults away."""
        self.fabric.mend()
        self.overlay.restore()
        self.authorizer.denied.clear()

    def refresh(self) -> None:
        """Lets pods that run already see the faults that are on now."""
        self.sandboxes.refresh()
        self.scheduler.retry()

    def retry_scheduling(self) -> None:
        """Tries the pods again that wait for a node."""
        self.scheduler.retry()

    def _held(self, node: str) -> tuple[str, ...]:
        """Resource prefixes that others hold all of on a node."""
        return ("rdma/",) if self.faults.hit("pod_pending", node) else ()

    def quirks(self, machine: Machine) -> Quirks:
        """What the faults that are on mean to the tools of one pod."""

        def hit(name: str) -> bool:
            return self.faults.hit(name, machine.node) is not None

        dies = self.faults.hit("server_dies", machine.node)
        refused = self.faults.hit("no_dmabuf", machine.node)
        return Quirks(
            never_listens=hit("server_never_listens"),
            listen_race=self.faults.hit("listen_race", machine.node),
            dies_after_rows=dies["rows"] if dies else None,
            hangs=hit("hanging_client"),
            no_peer_memory=hit("no_peermem"),
            dmabuf_errno=refused["errno"] if refused else None,
            no_cuda_driver=hit("no_cuda_driver"),
            without_cuda=hit("perftest_without_cuda"),
            on_host_anyway=hit("gpu_on_host"),
            wrong_path=hit("wrong_path"),
        )

    def has_cuda(self, machine: Machine) -> bool:
        """Whether perftest in a pod's image was built with CUDA."""
        return (
            machine.perftest_has_cuda
            and self.faults.hit("perftest_without_cuda", machine.node) is None
        )

    def lacks(self, machine: Machine) -> set[str]:
        """Commands that a pod's image does not have."""
        out: set[str] = set()
        if self.faults.hit("no_stdbuf", machine.node):
            out.add("stdbuf")
        if self.faults.hit("no_perftest", machine.node):
            out |= set(TOOLS)
        return out

    # ---- for tests
    def state(self) -> dict[str, Any]:
        """What a test may want to assert: pods, live processes, counts of requests."""
        pods = []
        for pod in self.store.all(("", "pods")):
            meta = pod["metadata"]
            if (("", "pods"), meta["namespace"], meta["name"]) in self._at_start:
                continue
            machine = self.sandboxes.machines.get(meta["uid"])
            pods.append(
                {
                    "namespace": meta["namespace"],
                    "name": meta["name"],
                    "node": pod["spec"].get("nodeName"),
                    "phase": pod["status"].get("phase"),
                    "labels": meta.get("labels") or {},
                    "terminating": "deletionTimestamp" in meta,
                    "processes": [
                        {"pid": p.pid, "argv": p.argv}
                        for p in (machine.processes.alive() if machine else [])
                    ],
                    "processes_started": machine.processes.started if machine else 0,
                }
            )
        extra = [
            {
                "group": key[0],
                "resource": key[1],
                "namespace": e.obj["metadata"].get("namespace"),
                "name": e.obj["metadata"]["name"],
            }
            for key, e in self.store.everything()
            if key not in (("", "events"), ("", "pods"))
            and (key, e.obj["metadata"].get("namespace") or "", e.obj["metadata"]["name"])
            not in self._at_start
        ]
        return {
            "pods": pods,
            "objects": extra,
            "execs": self.execs,
            "requests": dict(sorted(self.requests.items())),
            "faults": self.faults.describe(),
            "config": self.config.as_dict(),
        }

    def reset(self) -> None:
        """Removes what was not there at the start, events too; puts back what was; forgets the counts."""
        self.heal()
        for key, entry in list(self.store.everything()):
            if _place(key, entry) not in self._at_start:
                meta = entry.obj["metadata"]
                self.api.remove(self.registry.of_key(key), meta.get("namespace"), meta["name"])
        for (key, namespace, name), entry in self._at_start.items():
            now = self.store.entry(key, namespace, name)
            if now is not entry and (now is None or _content(now) != _content(entry)):
                self.api.put(self.registry.of_key(key), thaw(entry.obj))
        self.faults.again()
        self.execs = 0
        self.requests.clear()


def _place(key: Key, entry: Entry) -> tuple[Key, str, str]:
    meta = entry.obj["metadata"]
    return (key, meta.get("namespace") or "", meta["name"])


def _content(entry: Entry) -> dict[str, Any]:
    """An object without its version."""
    meta = {k: v for k, v in entry.obj["metadata"].items() if k != "resourceVersion"}
    return {**entry.obj, "metadata": meta}
