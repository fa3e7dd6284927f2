"""The test proper: rows of figures out of the model of the fabric, and who prints which."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..fabric import Bandwidth, Latency, PathBroken, Port
from ..wire import Session
from . import text
from .options import at_least
from .world import RETRIES_EXHAUSTED, Exit, Run, for_ever


@dataclass(frozen=True)
class Peer:
    """What an end tells the other about itself."""

    addresses: list[text.Address]
    port: Port
    on_gpu: bool
    # of its GID: mapped, global, link-local, none; None where GIDs play no part
    gid_kind: str | None


async def as_client(run: Run, session: Session, here: Port, peer: Peer) -> Exit:
    """Drives the test: every row is measured here, sent to the server, and printed."""
    if run.quirks.hangs:
        await for_ever()
    options, fabric = run.options, run.world.fabric
    backwards = options.verb in ("READ", "ATOMIC")
    source, sink = (peer.port, here) if backwards else (here, peer.port)
    sizes = [2**i for i in range(1, 24)] if options.all_sizes else [options.size]
    missed = False
    fabric.begin(source, sink)
    try:
        while True:
            for size in sizes:
                row = await _row(run, session, source, sink, size, options.on_gpu or peer.on_gpu)
                session.send("client", (size, row))
                _print_row(run, size, row)
                limit = options.limit_bw
                missed |= bool(limit and isinstance(row, Bandwidth) and row.average_gbps < limit)
            if not options.run_infinitely:
                break
    finally:
        fabric.end(source, sink)
    session.send("client", None)
    await session.receive("client")
    _both_directions(run, size, row)
    if not run.quiet:
        run.print(text.RULE)
    if missed:
        return run.finish("Error: BW result is below bw limit\n")
    return run.finish(status=0)


async def _row(
    run: Run, session: Session, source: Port, sink: Port, size: int, on_gpu: bool
) -> Bandwidth | Latency:
    try:
        row, seconds = _measure(run, source, sink, size, on_gpu)
    except PathBroken:
        await run.pause(RETRIES_EXHAUSTED)
        raise _completion_error(run) from None
    await run.pause(seconds)
    if session.has_left("server"):
        await run.pause(RETRIES_EXHAUSTED)
        raise _completion_error(run)
    return row


def _measure(
    run: Run, source: Port, sink: Port, size: int, on_gpu: bool
) -> tuple[Bandwidth | Latency, float]:
    """A row, and the seconds it takes in reality."""
    options, fabric = run.options, run.world.fabric
    if options.latency:
        factor = 2.0 if options.verb in ("READ", "ATOMIC") else 1.0
        latency = fabric.latency(source, sink, size, gpu=on_gpu, factor=factor)
        return latency, float(options.duration or 0) or latency.average * 2e-6 * options.iterations
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


def _completion_error(run: Run) -> Exit:
    named = at_least(run.version, "6.28")
    name = "status-transport retry counter exceeded (12)" if named else "status 12"
    done = run.world.rng.randrange(0, 3000)
    function = "run_iter_lat" if run.options.latency else "run_iter_bw"
    return run.finish(
        f" Completion with error at client\n Failed {name}: wr_id 0 syndrom 0x81\n"
        f"scnt={done + 128}, ccnt={done}\n Failed to complete {function} function successfully\n"
    )


async def as_server(run: Run, session: Session) -> Exit:
    """Takes the client's figures and prints those that a server prints."""
    options = run.options
    every = (
        options.bidirectional
        or options.verb == "SEND"
        or (options.latency and options.verb != "READ")
    )
    size, row, rows = 0, None, 0
    while (got := await session.receive("server")) is not None:
        size, row = got
        rows += 1
        if run.quirks.dies_after_rows is not None and rows > run.quirks.dies_after_rows:
            session.leave("server")
            run.context.process.signal("KILL")
            await for_ever()
        if every:
            _print_row(run, size, row, at_server=True)
    if not every and not options.latency:
        _print_row(run, size, row, at_server=True)
    session.send("server", "bye")
    _both_directions(run, size, row)
    if not run.quiet and not (options.latency and options.verb == "READ"):
        run.print(text.RULE)
    return run.finish(status=0)


# ---- printing


def _iterations(run: Run, row: Any) -> int:
    """The number in the second column."""
    options = run.options
    if options.duration is None:
        return options.iterations * (1 if options.latency else options.queue_pairs)
    margin = options.margin if options.margin is not None else (2 if options.duration > 4 else 0)
    window = max(options.duration - 2 * margin, 1)
    if options.latency:
        return max(1, int(window * 1e6 / (2 * row.average)))
    return int(row.message_rate_mpps * 1e6 * window / (2 if options.bidirectional else 1))


def _print_row(run: Run, size: int, row: Any, at_server: bool = False) -> None:
    options, out = run.options, run.context.stdout
    if run.quiet:
        factor = 1.0 if options.gbits else 1e9 / 8 / text.MIB
        if options.output == "bandwidth":
            line = f"{row.average_gbps * factor:f}"
        else:
            line = f"{row.message_rate_mpps if options.output == 'message_rate' else row.average:f}"
    elif options.latency:
        line = text.latency_row(options, size, _iterations(run, row), row)
    else:
        own = at_server and options.verb == "SEND" and not options.bidirectional
        peak = text.peak_is_measured(options) and not own
        cpu = run.world.rng.uniform(0.3, 1.5)
        line = text.bandwidth_row(options, run.version, size, _iterations(run, row), row, peak, cpu)
    out.write(line)
    if not options.latency:
        out.flush()  # before the line's end, as the tool does
    out.write("\n")


def _both_directions(run: Run, size: int, row: Any) -> None:
    """--report-both: each direction in a table of its own."""
    options = run.options
    if run.quiet or options.latency or not (options.report_both and options.bidirectional):
        return
    half = replace(
        row,
        peak_gbps=row.peak_gbps / 2,
        average_gbps=row.average_gbps / 2,
        message_rate_mpps=row.message_rate_mpps / 2,
    )
    for title in ("Local", "Remote"):
        head = text.header(options, run.version)
        run.print(f"{text.RULE}\n {title} results: \n{text.RULE}{head}")
        _print_row(run, size, half)
