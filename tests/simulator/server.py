"""The server process: TLS, tokens, kubeconfigs, and a second set of routes by which the command line controls it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import json
import os
import secrets
import signal
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trustme
import yaml
from aiohttp import web

from .cluster import Cluster
from .config import Config
from .faults import UnknownFault
from .http import ApiServer
from .rbac import User

ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
CONTROL = "/simulator/"


def kubeconfig(
    url: str, authority: bytes, user: str, token: str, namespace: str = "default"
) -> str:
    """A kubeconfig with one context."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "simulated",
                    "cluster": {
                        "server": url,
                        "certificate-authority-data": base64.b64encode(authority).decode(),
                    },
                }
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [
                {
                    "name": "simulated",
                    "context": {"cluster": "simulated", "user": user, "namespace": namespace},
                }
            ],
            "current-context": "simulated",
        },
        sort_keys=False,
    )


class Control:
    """The routes of the command line: faults, state, reset."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        self._cluster = cluster
        self._token = token

    async def handle(self, request: web.Request) -> web.Response:
        """Answers one request of the command line."""
        if request.headers.get("Authorization") != f"Bearer {self._token}":
            return web.json_response({"error": "not allowed"}, status=401)
        what = request.path.removeprefix(CONTROL)
        if what == "state":
            return web.json_response(self._cluster.state())
        if what == "reset":
            self._cluster.reset()
            return web.json_response({})
        if what == "compact":
            self._cluster.store.compact()
            return web.json_response({})
        if what == "faults":
            try:
                self._cluster.faults.set((await request.json())["faults"])
            except UnknownFault as error:
                return web.json_response({"error": str(error)}, status=400)
            return web.json_response({"faults": self._cluster.faults.describe()})
        return web.json_response({"error": "no such thing"}, status=404)


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


MakeCluster = Callable[[Config, str], Cluster]


async def serve(config: Config, folder: Path, port: int, make: MakeCluster | None = None) -> None:
    """Runs until SIGTERM. `make` makes the cluster when it is not the usual one.

    Writes kubeconfig, kubeconfig-fabric, control and pid; the last one when it is ready.
    """
    cluster = (make or Cluster)(config, str(folder / "pods"))
    tokens = {name: secrets.token_urlsafe(24) for name in ("admin", "fabric", "control")}
    server = ApiServer(cluster, {tokens["admin"]: ADMIN, tokens["fabric"]: cluster.restricted_user})
    control = Control(cluster, tokens["control"])
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", CONTROL + "{what}", control.handle)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=context, backlog=1024)
    await site.start()
    await asyncio.sleep(0.05)  # the namespaces' service accounts and the like
    cluster.settled()
    bound = runner.addresses[0][1]
    url = f"https://127.0.0.1:{bound}"
    pem = authority.cert_pem.bytes()
    _write(folder / "kubeconfig", kubeconfig(url, pem, "admin", tokens["admin"]))
    _write(folder / "kubeconfig-fabric", kubeconfig(url, pem, "fabric", tokens["fabric"]))
    _write(
        folder / "control",
        json.dumps({"url": url + CONTROL, "token": tokens["control"], "ca": pem.decode()}),
    )
    _write(folder / "pid.new", f"{os.getpid()}\n")
    os.replace(folder / "pid.new", folder / "pid")
    gc.freeze()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
    for machine in list(cluster.sandboxes.machines.values()):
        machine.processes.kill_all()
    await asyncio.sleep(0)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(runner.cleanup(), 2)


def run(config: dict[str, Any], folder: str, port: int, make: MakeCluster | None = None) -> None:
    """The body of the background process."""
    asyncio.run(serve(Config(**config), Path(folder), port, make))
