"""The simulated network between pods: who listens where, and connections through which two programs meet."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .machine import Machine


class ConnectionFailed(Exception):
    """kind: refused (host there, nobody listens), no_host, no_name, no_device (rdma_cm finds no RDMA device for the route)."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class PortInUse(Exception):
    """Another process of the pod listens on the port."""


class PeerGone(Exception):
    """The other end closed its connection or died."""


@dataclass
class Session:
    """A connection; each end has an inbox and says when it leaves."""

    client: Machine
    server: Machine
    address: str
    _inbox: dict[str, asyncio.Queue[Any]] = field(
        default_factory=lambda: {"client": asyncio.Queue(), "server": asyncio.Queue()}
    )
    _left: set[str] = field(default_factory=set)

    @staticmethod
    def other(role: str) -> str:
        """The role at the other end."""
        return "server" if role == "client" else "client"

    def send(self, role: str, data: Any) -> None:
        """Something for the other end."""
        self._inbox[self.other(role)].put_nowait(data)

    async def receive(self, role: str) -> Any:
        """The next thing the other end sent; raises PeerGone when it left."""
        data = await self._inbox[role].get()
        if data is PeerGone:
            self._inbox[role].put_nowait(PeerGone)
            raise PeerGone
        return data

    async def exchange(self, role: str, data: Any) -> Any:
        """Both ends send and wait for the other's."""
        self.send(role, data)
        return await self.receive(role)

    def leave(self, role: str) -> None:
        """This end goes away."""
        if role not in self._left:
            self._left.add(role)
            self._inbox[self.other(role)].put_nowait(PeerGone)

    def has_left(self, role: str) -> bool:
        """Whether an end has gone away."""
        return role in self._left


class Listener:
    """A listening port."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._waiting: asyncio.Queue[Session] = asyncio.Queue()

    def offer(self, session: Session) -> None:
        """A client has come."""
        self._waiting.put_nowait(session)

    async def accept(self) -> Session:
        """Waits for a client."""
        return await self._waiting.get()


class Wire:
    """All pods by address, all listeners by pod, kind (tcp, rdma_cm) and port."""

    def __init__(self) -> None:
        self._machines: dict[str, Machine] = {}
        self._listeners: dict[tuple[str, str, int], Listener] = {}

    def plug(self, machine: Machine) -> None:
        """A pod appears in the network."""
        for address in machine.all_addresses():
            self._machines[str(ipaddress.ip_address(address))] = machine

    def unplug(self, machine: Machine) -> None:
        """A pod is gone."""
        for address in machine.all_addresses():
            key = str(ipaddress.ip_address(address))
            if self._machines.get(key) is machine:
                del self._machines[key]

    def at(self, address: str) -> Machine | None:
        """The pod with an address."""
        try:
            return self._machines.get(str(ipaddress.ip_address(address)))
        except ValueError:
            return None

    @contextlib.contextmanager
    def listening(self, machine: Machine, kind: str, port: int) -> Iterator[Listener]:
        """Listens while the context lasts; raises PortInUse."""
        key = (machine.uid, kind, port)
        if key in self._listeners:
            raise PortInUse
        listener = Listener(machine)
        self._listeners[key] = listener
        try:
            yield listener
        finally:
            if self._listeners.get(key) is listener:
                del self._listeners[key]

    def connect(self, machine: Machine, kind: str, host: str, port: int) -> Session:
        """Connects to a listener; raises ConnectionFailed."""
        try:
            ipaddress.ip_address(host)
        except ValueError as error:
            raise ConnectionFailed("no_name") from error
        target = self.at(host)
        if target is None:
            raise ConnectionFailed("no_host")
        if kind.startswith("rdma_cm") and target.device_of(host) is None:
            raise ConnectionFailed("no_device")
        listener = self._listeners.get((target.uid, kind, port))
        if listener is None:
            raise ConnectionFailed("refused")
        session = Session(machine, target, host)
        listener.offer(session)
        return session
