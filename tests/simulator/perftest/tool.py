"""The tools themselves: a coroutine that behaves like ib_write_bw and its family."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from typing import Any

from ..fabric import Fabric, PathBroken
from ..machine import Device, Gid, Machine
from ..processes import Context
from ..wire import ConnectionFailed, PeerGone, PortInUse, Session, Wire
from . import gpu as gpu_text
from . import text
from .help import usage
from .options import Refused, at_least, parse

# What a run takes in reality, in seconds: multiplied by the time scale.
STARTUP = 0.15
LISTEN_DELAY = 0.25  # from the banner of a server to its listening socket
GPU_SETUP = 0.6
RETRIES_EXHAUSTED = 3.5  # a queue pair's timeout and seven retries
_STATUS_12 = "transport retry counter exceeded"


@dataclass
class Quirks:
    """Faults that the tools of one pod show. All off by default."""

    never_listens: bool = False
    dies_after_rows: int | None = None  # server: the process ends in the middle of a run
    hangs: bool = False  # client: stops after the header, for ever
    no_peer_memory: bool = False
    dmabuf_errno: int | None = None
    no_cuda_driver: bool = False
    without_cuda: bool = False
    on_host_anyway: bool = False  # behaves as if --use_cuda had not been given
    wrong_path: bool = False  # with -R the kernel takes another device, whatever -d says
    memlock: bool = False


@dataclass
class World:
    """What the tools share: the fabric, the network, the version and the pace."""

    fabric: Fabric
    wire: Wire
    version: str = "6.29"
    scale: float = 0.1
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    gpu: gpu_text.Gpu = field(default_factory=gpu_text.Gpu)
    quirks: Any = None  # callable: Machine -> Quirks

    def quirks_of(self, machine: Machine) -> Quirks:
        return self.quirks(machine) if self.quirks else Quirks()


class _Exit(Exception):
    """Ends the run with a status, after what has been printed."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def _unread(role: str) -> str:
    word = "to" if role == "server" else "from"
    return (
        "ethernet_read_keys: Couldn't read remote address\n"
        f" Unable to read {word} socket/rdma_cm\n"
        " Failed to exchange data between server and clients\n"
    )


class Run:
    """One execution of a tool."""

    def __init__(self, world: World, context: Context) -> None:
        self.world = world
        self.context = context
        self.machine: Machine = context.machine
        self.out = context.stdout
        self.err = context.stderr
        self.quirks = world.quirks_of(self.machine)
        self.version = world.version
        self.gpu_base = 0
        self.session: Session | None = None
        self.gpu_initialised = False

    # ---- helpers
    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self.world.scale)

    def fail(self, err: str, status: int = 1) -> _Exit:
        self.err.write(err)
        return _Exit(status)

    @property
    def role(self) -> str:
        return "server" if self.options.server else "client"

    # ---- the run
    async def run(self) -> int:
        cuda_build = self.machine.perftest_has_cuda and not self.quirks.without_cuda
        no_driver = self.quirks.no_cuda_driver or not self.machine.gpu_driver
        program = self.context.argv[0]
        if cuda_build and no_driver and not at_least(self.version, "6.26"):
            self.err.write(
                f"{program}: error while loading shared libraries: libcuda.so.1: cannot open shared object file:"
                " No such file or directory\n"
            )
            return 127
        try:
            self.options = parse(self.context.argv, self.version, cuda_build)
        except Refused as refusal:
            self.err.write(refusal.err)
            if refusal.usage:
                self.out.write(usage(program, self.version, cuda_build))
            self.out.write(refusal.out)
            return refusal.status
        if self.quirks.on_host_anyway:
            self.options.cuda = self.options.cuda_bus_id = None
            self.options.dmabuf = False
        try:
            return await self._main(no_driver)
        except _Exit as end:
            return end.status
        finally:
            if self.session is not None:
                self.session.leave(self.role)

    async def _main(self, no_driver: bool) -> int:
        options = self.options
        quiet = options.output is not None
        await self.pause(STARTUP * (0.5 if options.server else 1))
        device = self._find_device()
        self.out.write(text.preamble(options, self.version, device.recognised))
        if options.verb in ("READ", "ATOMIC") and not device.recognised:
            self.err.write("Device not recognized to implement inline feature. Disabling it\n")
        self._check_port(device)
        device = self._route(device)
        if options.server and not quiet:
            self.out.write(text.WAITING)
        # with -R the memory is registered before the connection, else after it
        if options.rdma_cm and options.on_gpu and not options.server:
            await self._gpu(no_driver)
        self.session = session = await (self._accept() if options.server else self._connect(device))
        try:
            mtu = await self._negotiate(session, device)
            if options.on_gpu and not self.gpu_initialised:
                await self._gpu(no_driver)
            self._register_host_memory()
            return await self._measure(session, device, mtu, quiet)
        except PeerGone:
            if options.rdma_cm:
                await asyncio.Event().wait()  # nothing tells it that the other end is gone
            raise self._release(_unread(self.role)) from None

    def _find_device(self) -> Device:
        device = self.machine.device(self.options.device)
        if device is not None:
            return device
        if not any(d.granted for d in self.machine.devices):
            text_ = " Did not detect devices \n If device exists, check if driver is up\n"
        else:
            text_ = f"IB device {self.options.device} not found\n"
        if at_least(self.version, "6.27"):
            self.out.write(text.preamble(self.options, self.version, True))
        raise self.fail(text_ + " Unable to find the Infiniband/RoCE device\n")

    def _check_port(self, device: Device) -> None:
        tail = " Couldn't set the link layer\n Couldn't get context for the device\n"
        if self.options.ib_port != 1:
            raise self.fail(f" Unable to query port {self.options.ib_port} attributes\n{tail}")
        if not device.up or self.world.fabric.is_down(device.port):
            raise self.fail(f" Port number {self.options.ib_port} state is Down\n{tail}")

    def _route(self, device: Device) -> Device:
        """With -R the kernel takes the device that has the route, whatever -d says."""
        if not self.options.rdma_cm or not self.quirks.wrong_path:
            return device
        others = [d for d in self.machine.devices if d is not device and d.gids] or [
            d for d in self.machine.devices if d is not device
        ]
        if not others:
            return device
        other = others[0]
        if other.gids:
            return other
        # a device without an address of the pod: the route leads over the node's own
        number = (
            int(self.machine.node.rsplit("-", 1)[-1]) if self.machine.node[-1:].isdigit() else 1
        )
        return replace(
            other, gids=[Gid(3, f"::ffff:10.10.{number >> 8}.{number & 255}", "RoCE v2", "eth0")]
        )

    # ---- meeting the peer
    @property
    def _kind(self) -> str:
        return "rdma_cm" if self.options.rdma_cm or self.options.comm_rdma_cm else "tcp"

    async def _accept(self) -> Session:
        await self.pause(LISTEN_DELAY)
        if self.quirks.never_listens:
            await asyncio.Event().wait()
        try:
            with self.world.wire.listening(
                self.machine, self._kind, self.options.tcp_port
            ) as listener:
                session = await listener.accept()
        except PortInUse:
            raise self.fail(
                f"Couldn't listen to port {self.options.tcp_port}\n{self._no_socket()}"
            ) from None
        return session

    def _no_socket(self) -> str:
        newline = "\n" if at_least(self.version, "6.20") else ""
        return f"Unable to open file descriptor for socket connection{newline} Unable to init the socket connection\n"

    async def _connect(self, device: Device) -> Session:
        options = self.options
        host = options.host or ""
        if options.rdma_cm and (self.quirks.memlock or not self._may_lock(65536)):
            raise self.fail(
                gpu_text.refused(self.version, None, 1)
                + " Unable to create the resources needed by comm struct\n"
                + " Unable to perform rdma_client function\n Unable to init the socket connection\n"
            )
        try:
            if self._kind == "rdma_cm" and not (device.gids or device.infiniband):
                raise ConnectionFailed("no_device")
            return self.world.wire.connect(self.machine, self._kind, host, options.tcp_port)
        except ConnectionFailed as failure:
            if failure.kind == "no_name":
                raise self.fail(
                    f"Name or service not known for ai_family: 2 service: {host} port: {options.tcp_port}\n"
                    f"Problem in resolving basic address and port\n{self._no_socket()}"
                ) from None
            if self._kind == "tcp":
                if failure.kind == "no_host":
                    await self.pause(3)
                raise self.fail(
                    f"Couldn't connect to {host}:{options.tcp_port}\n{self._no_socket()}"
                ) from None
            event = {"refused": 8, "no_host": 1, "no_device": 1}[failure.kind]
            if failure.kind == "no_host":
                await self.pause(3)
            raise self.fail(
                f"Unexpected CM event bl blka {event}\n"
                " Unable to perform rdma_client function\n Unable to init the socket connection\n"
            ) from None

    async def _negotiate(self, session: Session, device: Device) -> int:
        """Versions, parameters and MTU; returns the MTU of the path."""
        wanted = self.options.mtu or device.mtu
        mine = {
            "version": self.version,
            "verb": self.options.verb,
            "tst": self.options.test,
            "test_type": "DURATION" if self.options.duration is not None else "ITERATIONS",
            "report_fmt": "GBS" if self.options.gbits else "MBS",
            "size": self.options.size,
            "iters": self.options.iterations,
            "num_of_qps": self.options.queue_pairs,
            "duration": self.options.duration or 0,
        }
        theirs = await session.exchange(self.role, {**mine, "mtu": min(wanted, device.mtu)})
        both_check = at_least(self.version, "6.28") and at_least(theirs["version"], "6.28")
        for name in list(mine)[1:] if both_check else ():
            if self.options.all_sizes and name == "size":
                continue
            if mine[name] != theirs[name]:
                raise self.fail(
                    f" {name} mismatch: local={mine[name]}, remote={theirs[name]}\n Failed to negotiate parameters\n"
                )
        if wanted > device.mtu:
            order = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}[device.mtu]
            self.out.write(
                f"Requested mtu is higher than active mtu \nChanging to active mtu - {order}\n"
            )
        return int(min(wanted, device.mtu, theirs["mtu"]))

    # ---- memory
    def _may_lock(self, size: int) -> bool:
        limit = self.machine.memlock_kib
        return self.machine.ipc_lock or limit is None or size <= limit * 1024

    def _buffer(self) -> int:
        size = 2**23 if self.options.all_sizes else max(self.options.size, 2048)
        return size * 2 * self.options.queue_pairs

    def _register_host_memory(self) -> None:
        if self.options.on_gpu:
            return
        if self.quirks.memlock or not self._may_lock(self._buffer()):
            raise self.fail(
                gpu_text.refused(self.version, None, 1) + " Couldn't create IB resources\n"
            )

    async def _gpu(self, no_driver: bool) -> None:
        options = self.options
        if no_driver:
            self.out.write("Failed to load CUDA library dynamically\n")
            raise self.fail(
                "dlerror: libcuda.so: cannot open shared object file: No such file or directory\n"
            )
        await self.pause(GPU_SETUP)
        rng = self.world.rng
        self.gpu_base = 0x7F0000000000 + rng.randrange(1 << 15) * 0x2000000
        pointer = 0x550000000000 + rng.randrange(1 << 32) * 16
        size = self._buffer()
        pid = self.context.process.pid
        try:
            opening = gpu_text.initialise(
                options, self.version, self.world.gpu, self.machine.gpus, pid
            )
        except gpu_text.GpuFailed as failure:
            self.out.write(failure.out)
            raise self.fail(failure.err) from None
        opening += gpu_text.allocate(options, self.version, size, self.gpu_base, pointer)
        self.gpu_initialised = True
        errno = self.quirks.dmabuf_errno if options.dmabuf else None
        if errno is None and not (self.quirks.no_peer_memory and not options.dmabuf):
            self.out.write(opening)
            return
        refusal = gpu_text.refused(self.version, errno, 14)
        if not options.rdma_cm:
            ends = "destroying current CUDA Ctx\n" if at_least(self.version, "6.20") else ""
            self.out.write(opening + ends)
            raise self.fail(refusal + " Couldn't create IB resources\n")
        # With -R the connection's event handler fails: older versions crash, the newest tries ten times.
        refusal += (
            "Failed to initialize RDMA contexts.\nERRNO: Bad address.\n"
            "Failed to handle RDMA CM event.\nERRNO: Bad address.\n"
            "Failed to connect RDMA CM events.\nERRNO: Bad address.\n"
        )
        if not at_least(self.version, "6.28"):
            self.out.write(opening)
            self.err.write(refusal)
            self.context.process.signal("SEGV")
            await asyncio.sleep(0)
            raise _Exit(139)
        for _ in range(10):
            self.out.write(opening)
            self.err.write(refusal)
        raise self.fail(
            "Failed to connect RDMA CM client, tried 10 times.\nERRNO: Bad address.\n"
            "Failed to create RDMA CM connection.\nERRNO: Bad address.\n"
            "Failed to create RDMA CM connection with resources.\n"
        )

    def _release(self, err: str = "", status: int = 1) -> _Exit:
        """Ends the run; GPU memory is given back first, which is seen on stdout."""
        if self.options.on_gpu and self.gpu_initialised:
            self.out.write(gpu_text.release(self.version, self.gpu_base))
        return self.fail(err, status)

    # ---- the test
    async def _measure(self, session: Session, device: Device, mtu: int, quiet: bool) -> int:
        options, out = self.options, self.out
        gid = device.best_gid()
        if options.gid_index is not None:
            gid = next((g for g in device.gids if g.index == options.gid_index), None)
        missing = not device.infiniband and (gid is None)
        facts = text.Banner(
            device=self._shown(device),
            transport=device.transport,
            mtu=mtu,
            infiniband=device.infiniband,
            gid_index=(
                None
                if device.infiniband and options.gid_index is None
                else options.gid_index if options.gid_index is not None else gid.index if gid else 0
            ),
            new_post_send=device.new_post_send,
            inline=self._inline(device),
            outstanding_reads=device.outstanding_reads,
        )
        if not quiet:
            out.write(text.RULE + text.banner(options, self.version, facts))
            if options.rdma_cm and options.server:
                out.write(text.RULE + text.WAITING_CM)
            if at_least(self.version, "6.29"):
                out.write(f" NUMA node       : {device.numa}\n")
            out.write(text.RULE)
        addresses = self._addresses(
            device, None if device.infiniband and options.gid_index is None else gid
        )
        theirs_too = await session.exchange(
            self.role,
            {
                "addresses": addresses,
                "port": device.port,
                "device": device,
                "missing": missing,
                "gpu": options.on_gpu,
                "mapped": gid.address.startswith("::ffff") if gid else None,
            },
        )
        if (
            missing
            or theirs_too["missing"]
            or (
                gid
                and theirs_too["mapped"] is not None
                and gid.address.startswith("fe80")
                != theirs_too["addresses"][0].gid.address.startswith("fe80")
            )
        ):
            raise self._release(
                "\n Found Incompatibility issue with GID types.\n Please Try to use a different IP version.\n\n"
            )
        if not quiet:
            for item in addresses:
                out.write(text.address("local", options, facts, item))
            for item in theirs_too["addresses"]:
                out.write(text.address("remote", options, facts, item))
            out.write(text.RULE)
            if not (options.server and options.latency and options.verb == "READ"):
                out.write(text.header(options, self.version))
        return await self._rows(session, device, theirs_too, quiet)

    def _shown(self, device: Device) -> str:
        """The device's name in the banner: with -R, 6.28 and newer show the one that the route led to."""
        if options_name := self.options.device:
            if self.options.rdma_cm and at_least(self.version, "6.28"):
                return device.name
            return options_name
        return device.name

    def _inline(self, device: Device) -> int:
        if not device.recognised or self.options.on_gpu or not self.options.latency:
            return 0
        return 236 if self.options.verb == "SEND" else 220

    def _addresses(self, device: Device, gid: Any) -> list[text.Address]:
        rng = self.world.rng
        buffer, size = self._buffer(), (
            2**23 if self.options.all_sizes else max(self.options.size, 2048)
        )
        base = self.gpu_base or 0x7F0000000000 + rng.randrange(1 << 27) * 0x1000
        first = rng.randrange(0x40, 0x4000)
        key = rng.randrange(0x1000, 0x200000)
        return [
            text.Address(
                device.lid,
                first + i,
                rng.randrange(1 << 24),
                key,
                base + buffer // 2 + i * size,
                gid,
            )
            for i in range(self.options.queue_pairs)
        ]

    def _sizes(self) -> list[int]:
        return [2**i for i in range(1, 24)] if self.options.all_sizes else [self.options.size]

    async def _rows(
        self, session: Session, device: Device, peer: dict[str, Any], quiet: bool
    ) -> int:
        if self.options.server:
            return await self._serve_rows(session, quiet)
        return await self._client_rows(session, device, peer, quiet)

    async def _client_rows(
        self, session: Session, device: Device, peer: dict[str, Any], quiet: bool
    ) -> int:
        options, fabric = self.options, self.world.fabric
        if self.quirks.hangs:
            await asyncio.Event().wait()
        here, there = device.port, peer["port"]
        source, sink = (there, here) if options.verb in ("READ", "ATOMIC") else (here, there)
        on_gpu = options.on_gpu or peer["gpu"]
        fabric.begin(source, sink)
        missed_limit = False
        try:
            sizes = self._sizes()
            rounds = 0
            while True:
                for size in sizes:
                    try:
                        row, took = self._figure(source, sink, size, on_gpu)
                    except PathBroken:
                        await self.pause(RETRIES_EXHAUSTED)
                        raise self._completion_error() from None
                    await self.pause(took)
                    if session.has_left("server"):
                        await self.pause(RETRIES_EXHAUSTED)
                        raise self._completion_error()
                    session.send("client", ("row", size, row))
                    self._print_row(size, row, quiet, at_server=False)
                    if (
                        options.limit_bw
                        and not options.latency
                        and row.average_gbps < options.limit_bw
                    ):
                        missed_limit = True
                rounds += 1
                if not options.run_infinitely:
                    break
        finally:
            fabric.end(source, sink)
        session.send("client", ("end", 0, None))
        await session.receive("client")
        self._both_directions(size, row, quiet)
        if not quiet:
            self.out.write(text.RULE)
        if missed_limit:
            raise self._release("Error: BW result is below bw limit\n")
        raise self._release("", 0)

    def _figure(self, source: Any, sink: Any, size: int, on_gpu: bool) -> tuple[Any, float]:
        options, fabric = self.options, self.world.fabric
        if options.latency:
            row = fabric.latency(
                source,
                sink,
                size,
                gpu=on_gpu,
                factor=2.0 if options.verb in ("READ", "ATOMIC") else 1.0,
            )
            seconds = float(options.duration or 0) or row.average * 2e-6 * options.iterations
            return row, seconds
        bandwidth = fabric.bandwidth(
            source,
            sink,
            size,
            iterations=options.iterations,
            queue_pairs=options.queue_pairs,
            gpu=on_gpu,
            seconds=float(options.duration) if options.duration is not None else None,
            both_ways=options.bidirectional,
        )
        return bandwidth, bandwidth.seconds

    def _iterations(self, size: int, row: Any) -> int:
        options = self.options
        if options.duration is None:
            return options.iterations * (1 if options.latency else options.queue_pairs)
        margin = (
            options.margin if options.margin is not None else (2 if options.duration > 4 else 0)
        )
        window = max(options.duration - 2 * margin, 1)
        if options.latency:
            return max(1, int(window * 1e6 / (2 * row.average)))
        return int(row.message_rate_mpps * 1e6 * window / (2 if options.bidirectional else 1))

    def _print_row(self, size: int, row: Any, quiet: bool, at_server: bool) -> None:
        options = self.options
        iterations = self._iterations(size, row)
        if quiet:
            value = {
                "bandwidth": lambda: row.average_gbps
                * (1.0 if options.gbits else 1e9 / 8 / text.MIB),
                "message_rate": lambda: row.message_rate_mpps,
                "latency": lambda: row.average,
            }[options.output or "bandwidth"]()
            self.out.write(f"{value:f}")
            self.out.flush()
            self.out.write("\n")
            return
        if options.latency:
            self.out.write(text.latency_row(options, size, iterations, row) + "\n")
            return
        peak = text.peak_is_measured(options) and not (
            at_server and options.verb == "SEND" and not options.bidirectional
        )
        cpu = self.world.rng.uniform(0.3, 1.5)
        self.out.write(text.bandwidth_row(options, self.version, size, iterations, row, peak, cpu))
        self.out.flush()
        self.out.write("\n")

    def _completion_error(self) -> _Exit:
        name = f"status-{_STATUS_12} (12)" if at_least(self.version, "6.28") else "status 12"
        done = self.world.rng.randrange(0, 3000)
        function = "run_iter_lat" if self.options.latency else "run_iter_bw"
        return self._release(
            f" Completion with error at client\n Failed {name}: wr_id 0 syndrom 0x81\n"
            f"scnt={done + 128}, ccnt={done}\n Failed to complete {function} function successfully\n"
        )

    async def _serve_rows(self, session: Session, quiet: bool) -> int:
        options = self.options
        every = (
            options.bidirectional
            or options.verb == "SEND"
            or (options.latency and options.verb != "READ")
        )
        last: tuple[int, Any] | None = None
        rows = 0
        while True:
            what, size, row = await session.receive("server")
            if what == "end":
                break
            rows += 1
            last = (size, row)
            if self.quirks.dies_after_rows is not None and rows > self.quirks.dies_after_rows:
                session.leave("server")
                self.context.process.signal("KILL")
                await asyncio.sleep(3600)
            if every:
                self._print_row(size, row, quiet, at_server=True)
        if not every and last and not options.latency and not options.run_infinitely:
            self._print_row(last[0], last[1], quiet, at_server=True)
        session.send("server", "bye")
        if last:
            self._both_directions(last[0], last[1], quiet)
        if not quiet and not (options.latency and options.verb == "READ"):
            self.out.write(text.RULE)
        raise self._release("", 0)

    def _both_directions(self, size: int, row: Any, quiet: bool) -> None:
        """--report-both: each direction in a table of its own."""
        options = self.options
        if quiet or not (options.report_both and options.bidirectional) or options.latency:
            return
        half = replace(
            row,
            peak_gbps=row.peak_gbps / 2,
            average_gbps=row.average_gbps / 2,
            message_rate_mpps=row.message_rate_mpps / 2,
        )
        for title in ("Local", "Remote"):
            self.out.write(
                f"{text.RULE}\n {title} results: \n{text.RULE}{text.header(options, self.version)}"
            )
            self._print_row(size, half, quiet, at_server=False)


async def perftest(world: World, context: Context) -> int:
    """The program: argv[0] names the tool."""
    return await Run(world, context).run()
