"""The tools themselves: a coroutine that behaves like ib_write_bw and its family."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

from ..machine import Device, Gid, Machine
from ..processes import Context
from ..wire import PeerGone, Session
from . import meeting, memory, table, text
from .help import usage
from .options import Refused, at_least, parse
from .world import STARTUP, Exit, Quirks, Run, World, for_ever

__all__ = ["Quirks", "World", "perftest"]


async def perftest(world: World, context: Context) -> int:
    """The program: argv[0] names the tool. Returns the exit status."""
    machine: Machine = context.machine
    quirks = world.quirks(machine)
    program = context.argv[0]
    cuda = machine.perftest_has_cuda and not quirks.without_cuda
    driver = machine.gpu_driver and not quirks.no_cuda_driver
    if cuda and not driver and not at_least(world.version, "6.26"):
        context.stderr.write(
            f"{program}: error while loading shared libraries: libcuda.so.1: cannot open shared"
            " object file: No such file or directory\n"
        )
        return 127
    try:
        options = parse(context.argv, world.version, cuda)
    except Refused as refusal:
        context.stderr.write(refusal.err)
        if refusal.usage:
            context.stdout.write(usage(program, world.version, cuda))
        context.stdout.write(refusal.out)
        return refusal.status
    if quirks.on_host_anyway:
        options.cuda = options.cuda_bus_id = None
        options.dmabuf = False
    run = Run(world, context, options, quirks)
    try:
        return (await _main(run)).status
    except Exit as end:
        return end.status
    finally:
        if run.session is not None:
            run.session.leave(run.role)


async def _main(run: Run) -> Exit:
    options = run.options
    await run.pause(STARTUP * (0.5 if options.server else 1))
    named = _find_device(run)
    run.print(text.preamble(options, run.version, named.recognised))
    if options.verb in ("READ", "ATOMIC") and not named.recognised:
        run.complain("Device not recognized to implement inline feature. Disabling it\n")
    _check_port(run, named)
    device = _route(run, named)
    if options.server and not run.quiet:
        run.print(text.WAITING)
    # a client with -R registers its memory before it connects, all others after that
    if options.rdma_cm and options.on_gpu and not options.server:
        await memory.register_gpu(run)
    session = await (meeting.accept(run) if options.server else meeting.connect(run, device))
    run.session = session
    try:
        mtu = await meeting.negotiate(run, session, device)
        if options.on_gpu and not run.gpu_base:
            await memory.register_gpu(run)
        memory.register_host(run)
        peer = await _introduce(run, session, device, mtu)
        if options.server:
            return await table.as_server(run, session)
        return await table.as_client(run, session, device.port, peer)
    except PeerGone:
        if options.rdma_cm:
            await for_ever()  # nothing tells it that the other end is gone
        raise run.finish(meeting.unread(run.role)) from None


# ---- the device


def _find_device(run: Run) -> Device:
    device = run.machine.device(run.options.device)
    if device is not None:
        return device
    complaint = f"IB device {run.options.device} not found\n"
    if not any(d.granted for d in run.machine.devices):
        complaint = " Did not detect devices \n If device exists, check if driver is up\n"
    if at_least(run.version, "6.27"):
        run.print(text.preamble(run.options, run.version, True))
    raise run.fail(f"{complaint} Unable to find the Infiniband/RoCE device\n")


def _check_port(run: Run, device: Device) -> None:
    port = run.options.ib_port
    tail = " Couldn't set the link layer\n Couldn't get context for the device\n"
    if port != 1:
        raise run.fail(f" Unable to query port {port} attributes\n{tail}")
    if not device.up or run.world.fabric.is_down(device.port):
        raise run.fail(f" Port number {port} state is Down\n{tail}")


def _route(run: Run, device: Device) -> Device:
    """The device that is used: with -R the kernel takes the one that has the route, whatever -d says."""
    if not run.options.rdma_cm or not run.quirks.wrong_path:
        return device
    others = [d for d in run.machine.devices if d is not device]
    with_address = [d for d in others if d.gids]
    if with_address:
        return with_address[0]
    if not others:
        return device
    # a device without an address of the pod: the route leads over the node's own
    digits = run.machine.node.rsplit("-", 1)[-1]
    number = int(digits) if digits.isdigit() else 1
    own = ipaddress.IPv4Address("10.10.0.0") + number
    return replace(others[0], gids=[Gid(3, f"::ffff:{own}", "RoCE v2", "eth0")])


# ---- the two ends introduce themselves


async def _introduce(run: Run, session: Session, device: Device, mtu: int) -> table.Peer:
    """Prints the banner, exchanges addresses and prints them; returns what the other end says of itself."""
    options = run.options
    listed, used = _gids(run, session, device)
    facts = text.Banner(
        device=_device_name(run, device),
        transport=device.transport,
        mtu=mtu,
        infiniband=device.infiniband,
        gid_index=_gid_index(run, device, listed),
        new_post_send=device.new_post_send,
        inline=_inline(run, device),
        outstanding_reads=device.outstanding_reads,
    )
    if not run.quiet:
        run.print(text.RULE + text.banner(options, run.version, facts))
        if options.rdma_cm and options.server:
            run.print(text.RULE + text.WAITING_CM)
        if at_least(run.version, "6.29"):
            run.print(f" NUMA node       : {device.numa}\n")
        run.print(text.RULE)
    addresses = _addresses(run, device, used)
    kind = None if device.infiniband and options.gid_index is None else _gid_kind(listed)
    mine = table.Peer(addresses, device.port, options.on_gpu, kind)
    peer: table.Peer = await session.exchange(run.role, mine)
    kinds = {mine.gid_kind, peer.gid_kind} - {None}
    if "none" in kinds or ("link-local" in kinds and len(kinds) > 1):
        raise run.finish(
            "\n Found Incompatibility issue with GID types.\n Please Try to use a different IP version.\n\n"
        )
    if not run.quiet:
        for side, items in (("local", addresses), ("remote", peer.addresses)):
            for item in items:
                run.print(text.address(side, options, facts, item))
        run.print(text.RULE)
        if not (options.server and options.latency and options.verb == "READ"):
            run.print(text.header(options, run.version))
    return peer


def _gids(run: Run, session: Session, device: Device) -> tuple[Gid | None, Gid | None]:
    """The GID whose index the banner shows, and the one that is used: with -R that of the connection's own address."""
    options = run.options
    if options.gid_index is not None:
        chosen = next((g for g in device.gids if g.index == options.gid_index), None)
        return chosen, chosen
    if device.infiniband:
        return None, None
    best = device.best_gid(options.ipv6_gid)
    if options.rdma_cm:
        family = ":" in session.address
        for attachment in run.machine.attachments:
            for address in attachment.addresses:
                if (":" in address) == family and (gid := device.gid_of(address)):
                    return best, gid
    return best, best


def _gid_index(run: Run, device: Device, listed: Gid | None) -> int | None:
    """The banner's GID index; InfiniBand has none unless it is asked for."""
    if run.options.gid_index is not None:
        return run.options.gid_index
    if device.infiniband:
        return None
    return listed.index if listed else 0


def _gid_kind(gid: Gid | None) -> str:
    if gid is None:
        return "none"
    address = ipaddress.IPv6Address(gid.address)
    if address.ipv4_mapped is not None:
        return "mapped"
    return "link-local" if address.is_link_local else "global"


def _device_name(run: Run, device: Device) -> str:
    """In the banner: what -d said; with -R, 6.28 and newer show the device that the route led to."""
    routed = run.options.rdma_cm and at_least(run.version, "6.28")
    return device.name if routed or not run.options.device else run.options.device


def _inline(run: Run, device: Device) -> int:
    """Bytes of inline data: only latency tests on host memory use it."""
    if not device.recognised or run.options.on_gpu or not run.options.latency:
        return 0
    return 236 if run.options.verb == "SEND" else 220


def _addresses(run: Run, device: Device, gid: Gid | None) -> list[text.Address]:
    """This end's queue pairs."""
    rng = run.world.rng
    base = run.gpu_base or 0x7F0000000000 + rng.randrange(1 << 27) * 0x1000
    first, key = rng.randrange(0x40, 0x4000), rng.randrange(0x1000, 0x200000)
    return [
        text.Address(
            lid=device.lid,
            qpn=first + i,
            psn=rng.randrange(1 << 24),
            rkey=key,
            vaddr=base + run.buffer // 2 + i * run.largest,
            gid=gid,
        )
        for i in range(run.options.queue_pairs)
    ]
