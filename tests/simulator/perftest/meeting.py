"""How the two ends find each other: listening, connecting, and agreeing on what to do."""

from __future__ import annotations

import asyncio

from ..machine import Device
from ..wire import ConnectionFailed, PortInUse, Session
from . import gpu
from .memory import may_lock
from .options import at_least
from .world import LISTEN_DELAY, UNREACHABLE, Exit, Run, for_ever

_NO_RDMA_CM = " Unable to perform rdma_client function\n Unable to init the socket connection\n"
# What 6.06 says before it crashes; the session stays open, as the server waits for the second connection.
_REJECTED = (
    "RDMA CM event error:\nEvent: RDMA_CM_EVENT_REJECTED; error: 8.\n\n"
    "ERRNO: Operation not supported.\nFailed to handle RDMA CM event.\n"
    "ERRNO: Operation not supported.\nFailed to connect RDMA CM events.\nERRNO: Operation not supported.\n"
)
_MTU_ORDER = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}


def _kind(run: Run) -> str:
    """The kind of socket: TCP or rdma_cm, for one IP version only."""
    family = "6" if run.options.ipv6_address else ""
    return ("rdma_cm" if run.options.rdma_cm or run.options.comm_rdma_cm else "tcp") + family


def _no_socket(run: Run) -> str:
    newline = "\n" if at_least(run.version, "6.20") else ""
    return f"Unable to open file descriptor for socket connection{newline} Unable to init the socket connection\n"


async def accept(run: Run) -> Session:
    """The server's side; it listens a little after its banner, and for one client only."""
    await run.pause(LISTEN_DELAY)
    if run.quirks.never_listens:
        await for_ever()
    try:
        with run.world.wire.listening(run.machine, _kind(run), run.options.tcp_port) as listener:
            return await listener.accept()
    except PortInUse:
        raise run.fail(
            " rdma_bind_addr failed\n Unable to perform rdma_server function\n Unable to init the socket connection\n"
            if run.options.rdma_cm
            else f"Couldn't listen to port {run.options.tcp_port}\n{_no_socket(run)}"
        ) from None


async def connect(run: Run, device: Device) -> Session:
    """The client's side."""
    host, port = run.options.host or "", run.options.tcp_port
    if run.options.rdma_cm and (run.quirks.memlock or not may_lock(run, 65536)):
        raise run.fail(
            gpu.refused(run.version, None, 1)
            + " Unable to create the resources needed by comm struct\n"
            + _NO_RDMA_CM
        )
    try:
        if (":" in host) != run.options.ipv6_address:
            raise ConnectionFailed("no_name")  # it asks the resolver for one IP version only
        if "rdma_cm" in _kind(run) and not (device.gids or device.infiniband):
            raise ConnectionFailed("no_device")
        session = run.world.wire.connect(run.machine, _kind(run), host, port)
    except ConnectionFailed as failure:
        if failure.kind == "no_host":
            await run.pause(UNREACHABLE)
        raise _not_connected(run, failure.kind, host, port) from None
    race = run.quirks.listen_race
    if run.options.rdma_cm and race and race["times"] > 0:
        race["times"] -= 1
        run.complain(_REJECTED)
        run.context.process.signal("SEGV")
        await asyncio.sleep(0)
        raise Exit(139)
    return session


def _not_connected(run: Run, kind: str, host: str, port: int) -> Exit:
    if kind == "no_name":
        text = f"Name or service not known for {host}:{port}\n"
        if at_least(run.version, "6.20"):
            family = 10 if run.options.ipv6_address else 2
            text = (
                f"Name or service not known for ai_family: {family} service: {host} port: {port}\n"
            )
        return run.fail(f"{text}Problem in resolving basic address and port\n{_no_socket(run)}")
    if "tcp" in _kind(run):
        return run.fail(f"Couldn't connect to {host}:{port}\n{_no_socket(run)}")
    event = 8 if kind == "refused" else 1  # rejected, or no address
    return run.fail(f"Unexpected CM event bl blka {event}\n{_NO_RDMA_CM}")


async def negotiate(run: Run, session: Session, device: Device) -> int:
    """Versions, parameters and MTU; returns the MTU of the path. 6.28 and newer refuse what differs."""
    options = run.options
    wanted = options.mtu or device.mtu
    mine = {
        "verb": options.verb,
        "tst": options.test,
        "test_type": "DURATION" if options.duration is not None else "ITERATIONS",
        "report_fmt": "GBS" if options.gbits else "MBS",
        "size": options.size,
        "iters": options.iterations,
        "num_of_qps": options.queue_pairs,
        "duration": options.duration or 0,
    }
    hello = {"version": run.version, "mtu": min(wanted, device.mtu), "parameters": mine}
    theirs = await session.exchange(run.role, hello)
    if at_least(run.version, "6.28") and at_least(theirs["version"], "6.28"):
        for name, value in mine.items():
            other = theirs["parameters"][name]
            if value != other and not (name == "size" and options.all_sizes):
                raise run.fail(
                    f" {name} mismatch: local={value}, remote={other}\n Failed to negotiate parameters\n"
                )
    if wanted > device.mtu:
        run.print(
            "Requested mtu is higher than active mtu \n"
            f"Changing to active mtu - {_MTU_ORDER[device.mtu]}\n"
        )
    return int(min(hello["mtu"], theirs["mtu"]))


def unread(role: str) -> str:
    """What an end complains of when the other has gone away."""
    word = "to" if role == "server" else "from"
    return (
        "ethernet_read_keys: Couldn't read remote address\n"
        f" Unable to read {word} socket/rdma_cm\n"
        " Failed to exchange data between server and clients\n"
    )
