"""`pods/exec` over WebSocket, channel protocols v4 and v5, as an API server with a containerd behind it answers."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

from .errors import ApiError, bad_request
from .machine import Machine
from .perftest.options import TOOLS
from .processes import Pipe, Process

if TYPE_CHECKING:
    from .cluster import Cluster

STDIN, STDOUT, STDERR, ERROR = 0, 1, 2, 3
CLOSE = 255  # v5: the client closes a channel
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
FRAME = 32 * 1024
Obj = dict[str, Any]


def _flag(query: Any, name: str) -> bool:
    return query.get(name, "").lower() in ("1", "true")


def reach_kubelet(cluster: Cluster, pod: Obj) -> None:
    """Raises 500 when the kubelet of a pod's node does not answer."""
    node = pod["spec"].get("nodeName", "")
    if cluster.faults.hit("kubelet_down", node):
        host = cluster.sandboxes.host_ip(node)
        raise ApiError(
            500,
            "InternalError",
            f"error dialing backend: dial tcp {host}:10250: connect: no route to host",
        )


def container_of(pod: Obj, query: Any) -> str:
    """The container meant; raises 400 as the server does."""
    names = [c["name"] for c in pod["spec"]["containers"]]
    wanted = query.get("container")
    name = pod["metadata"]["name"]
    if not wanted:
        if len(names) > 1:
            raise bad_request(
                f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
            )
        return names[0]
    if wanted not in names:
        raise bad_request(f"container {wanted} is not valid for pod {name}")
    return str(wanted)


async def serve(cluster: Cluster, request: web.Request, pod: Obj) -> web.StreamResponse:
    """Runs a command in a pod; raises ApiError before the connection is upgraded."""
    query = request.query
    container = container_of(pod, query)
    command = query.getall("command", [])
    if not command:
        raise bad_request("you must specify at least 1 command for the container")
    if not any(_flag(query, n) for n in ("stdin", "stdout", "stderr")):
        raise bad_request("you must specify at least one of stdin, stdout, stderr")
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    statuses = {c["name"]: c for c in pod["status"].get("containerStatuses") or []}
    state = (statuses.get(container) or {}).get("state") or {}
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        raise ApiError(
            400,
            "BadRequest",
            "cannot exec into a container in a completed pod; current phase is "
            + pod["status"]["phase"],
        )
    reach_kubelet(cluster, pod)
    if "running" not in state:
        raise ApiError(
            500,
            "InternalError",
            f'Internal error occurred: unable to upgrade connection: container not found ("{container}")',
        )
    if request.headers.get("Upgrade", "").lower() != "websocket":
        raise bad_request("Upgrade request required")
    offered = [p.strip() for p in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if not set(offered) & set(PROTOCOLS):
        raise ApiError(403, "Forbidden", "client requested unsupported protocols")
    socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0, compress=False)
    await socket.prepare(request)
    cluster.execs += 1
    await _Exec(cluster, socket, pod, container, command, query).run()
    return socket


class _Exec:
    """One exec."""

    def __init__(
        self,
        cluster: Cluster,
        socket: web.WebSocketResponse,
        pod: Obj,
        container: str,
        command: list[str],
        query: Any,
    ) -> None:
        self._cluster = cluster
        self._socket = socket
        self._pod = pod
        self._container = container
        self._command = command
        self._stdin = _flag(query, "stdin")
        self._stdout = _flag(query, "stdout")
        self._stderr = _flag(query, "stderr")
        self._lost = False
        self._silent = False

    async def run(self) -> None:
        """Until the command or the connection ends."""
        machine = self._cluster.sandboxes.of(self._pod)
        if not self._cluster.backend.knows(machine, self._command[0]):
            await self._finish(_not_found(self._command[0]))
            return
        env = self._cluster.kubelet.environment(self._pod, self._container)
        process = self._cluster.backend.start(machine, self._command, env)
        if not self._stdin:
            process.stdin.close()
        drop = self._fault("exec_dropped", machine)
        self._silent = self._fault("exec_silent", machine) is not None
        reader = asyncio.ensure_future(self._read(process))
        pumps = asyncio.gather(
            self._pump(process.stdout, STDOUT, self._stdout),
            self._pump(process.stderr, STDERR, self._stderr),
        )
        try:
            if drop is not None:
                done, _unused = await asyncio.wait(
                    {asyncio.ensure_future(process.wait())}, timeout=float(drop["after"])
                )
                if not done:
                    self._cut(process)
                    return
            await pumps
            code = await process.wait()
            await self._finish(_status(self._command, code))
        finally:
            reader.cancel()
            if self._lost:
                process.stdout.discard = process.stderr.discard = True

    def _fault(self, name: str, machine: Machine) -> Obj | None:
        """A fault of connections that concerns this command."""
        fault = self._cluster.faults.hit(name, machine.node)
        perftest = any(w.rsplit("/", 1)[-1] in TOOLS for w in self._command)
        return fault if fault is not None and (fault["command"] == "any" or perftest) else None

    def _cut(self, process: Process) -> None:
        """Cuts the TCP connection, as a broken load balancer does; the process goes on."""
        self._lost = True
        process.stdout.discard = process.stderr.discard = True
        transport = self._socket._req.transport if self._socket._req else None
        if transport is not None:
            transport.abort()

    async def _send(self, channel: int, data: bytes) -> None:
        if self._lost or self._silent:
            return
        try:
            await self._socket.send_bytes(bytes([channel]) + data)
        except (ConnectionError, RuntimeError):
            self._lost = True

    async def _pump(self, pipe: Pipe, channel: int, wanted: bool) -> None:
        while data := await pipe.read():
            if wanted and not self._lost:
                for start in range(0, len(data), FRAME):
                    await self._send(channel, data[start : start + FRAME])
            elif self._lost:
                pipe.discard = True

    async def _read(self, process: Process) -> None:
        """What the client sends. When it goes away the process goes on, as in a real runtime."""
        async for message in self._socket:
            data = message.data if isinstance(message.data, bytes) else str(message.data).encode()
            if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT) or not data:
                continue
            if data[0] == STDIN and self._stdin:
                process.stdin.feed(data[1:])
            elif data[0] == CLOSE and data[1:2] == bytes([STDIN]):
                process.stdin.close()
        self._lost = True
        process.stdin.close()

    async def _finish(self, status: Obj) -> None:
        await self._send(ERROR, json.dumps(status).encode())
        while self._silent and not self._lost:
            await asyncio.sleep(0.2)  # until the client gives up
        if not self._lost:
            await self._socket.close()


def _status(command: list[str], code: int) -> Obj:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: error executing command [{' '.join(command)}], exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _not_found(command: str) -> Obj:
    where = "no such file or directory" if "/" in command else "executable file not found in $PATH"
    kind = "stat" if "/" in command else "exec"
    inner = (
        f"stat {command}: no such file or directory" if kind == "stat" else f'"{command}": {where}'
    )
    text = (
        "error executing command in container: failed to exec in container: failed to start exec: OCI runtime exec"
        f" failed: exec failed: unable to start container process: exec: {inner}: unknown"
    )
    if kind == "stat":
        text = text.replace("exec: stat", f'exec: "{command}": stat')
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {text}",
        "reason": "InternalError",
        "details": {"causes": [{"message": text}]},
        "code": 500,
    }
