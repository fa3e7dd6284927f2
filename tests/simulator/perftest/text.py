"""What perftest prints, as pure functions of what it measured. Column widths and tabs are those of the real tool."""

from __future__ import annotations

from dataclasses import dataclass

from ..fabric import Bandwidth, Latency
from ..machine import Gid
from .options import Options, at_least

RULE = "-" * 87 + "\n"
WAITING = "\n" + "*" * 36 + "\n* Waiting for client to connect... *\n" + "*" * 36 + "\n"
WAITING_CM = (
    " Waiting for client rdma_cm QP to connect\n"
    " Please run the same command with the IB/RoCE interface IP\n"
)
MIB = 2**20


@dataclass
class Banner:
    """What the banner says beside the options."""

    device: str
    transport: str
    mtu: int
    infiniband: bool
    gid_index: int | None
    new_post_send: bool
    inline: int
    outstanding_reads: int
    ddp: bool = False


def tx_depth(options: Options) -> int:
    """The depth that is printed: never deeper than there are iterations, 1 for latency tests."""
    if options.latency:
        return 1
    depth = options.tx_depth or 128
    return depth if options.duration is not None else min(depth, options.iterations)


def cq_moderation(options: Options) -> int:
    """100, but 1 for large messages of one size, and never more than there is to complete."""
    if options.post_list > 1:
        return options.post_list
    if options.cq_moderation is not None:
        return options.cq_moderation
    if not options.all_sizes and options.size > 8192:
        return 1
    return min(100, options.iterations, tx_depth(options))


def polls_dynamically(options: Options, version: str) -> bool:
    """6.27 and newer poll adaptively in runs that are long enough."""
    return at_least(version, "6.27") and (
        options.duration is not None or options.iterations >= 5000
    )


def peak_is_measured(options: Options) -> bool:
    """Whether the peak column holds a figure."""
    return not (
        options.duration is not None
        or options.run_infinitely
        or options.no_peak
        or options.iterations > 20000
    )


def preamble(options: Options, version: str, recognised: bool) -> str:
    """What comes before the tool looks for its peer."""
    out = ""
    if options.cuda_bus_id is not None:
        out += f"Got PCIe address of: {options.cuda_bus_id}\n"
    receiver = options.verb == "SEND" and options.server and not options.bidirectional
    warned = options.duration is not None or options.run_infinitely or options.iterations > 20000
    if not options.latency and at_least(version, "6.20") and (warned or receiver):
        out += " WARNING: BW peak won't be measured in this run.\n"
    if options.post_list > 1:
        out += RULE + "Post List requested - CQ moderation will be the size of the post list\n"
    if (
        at_least(version, "6.27")
        and options.duration is None
        and not polls_dynamically(options, version)
    ):
        out += "Disabling dynamic polling\n"
    if options.on_gpu and options.verb == "SEND" and at_least(version, "6.29"):
        out = _scatter(out)
    if options.verb in ("READ", "ATOMIC") and not recognised:
        out += RULE
    if options.on_gpu and options.verb != "READ" and at_least(version, "6.20"):
        out += "Perftest doesn't supports CUDA tests with inline messages: inline size set to 0\n"
    return out


def _scatter(before: str) -> str:
    """6.29 turns scatter-to-CQE off for sends of device memory, and says so after its warnings."""
    warning, mark, rest = before.partition("Disabling dynamic polling\n")
    size = "MLX5_SCATTER_TO_CQE=0"
    return (
        f"{warning}{RULE}Scatter2CQE (size <= 64) is not supported with device memory send tests: setting {size}\n"
        f"{mark}{rest}"
    )


def banner(options: Options, version: str, facts: Banner) -> str:
    """The block between the first two rules, rules not included."""
    kind = "Latency" if options.latency else "BW"
    words = [options.title]
    if options.bidirectional and not options.latency:
        words.append("Bidirectional")
    if options.post_list > 1 and not options.latency:
        words.append("Post List")
    relaxed = (
        "OFF" if options.tool == "ib_write_lat" or "disable_pcie_relaxed" in options.seen else "ON"
    )
    lock_free = "\t\tLock-free      : OFF" if at_least(version, "6.23") else ""
    reorder = ""
    if at_least(version, "6.27"):
        reorder = "\t\tUsing Enhanced Reorder      : OFF"
    elif at_least(version, "6.25"):
        reorder = "\t\tUsing DDP      : OFF"
    post = "ON" if facts.new_post_send and "use_old_post_send" not in options.seen else "OFF"
    lines = [
        " " * 20 + " ".join([*words, kind, "Test"]),
        f" Dual-port       : OFF\t\tDevice         : {facts.device}",
        f" Number of qps   : {options.queue_pairs}\t\tTransport type : {facts.transport}",
        f" Connection type : {options.connection}\t\tUsing SRQ      : OFF",
        f" PCIe relax order: {relaxed}{lock_free}",
        f" ibv_wr* API     : {post}{reorder}",
    ]
    if not options.server or options.bidirectional:
        lines.append(f" TX depth        : {tx_depth(options)}")
    if options.post_list > 1:
        lines.append(f" Post List       : {options.post_list}")
    if options.verb == "SEND" and (options.server or options.bidirectional):
        lines.append(f" RX depth        : {min(512, options.iterations)}")
    if not options.latency:
        lines.append(f" CQ Moderation   : {cq_moderation(options)}")
        if at_least(version, "6.25"):
            dynamic = polls_dynamically(options, version)
            lines.append(f" CQE Poll Batch  : {'Dynamic' if dynamic else 16}")
    lines += [
        f" Mtu             : {facts.mtu}[B]",
        f" Link type       : {'IB' if facts.infiniband else 'Ethernet'}",
    ]
    if facts.gid_index is not None:
        lines.append(f" GID index       : {facts.gid_index}")
    if options.verb in ("READ", "ATOMIC"):
        lines.append(f" Outstand reads  : {facts.outstanding_reads}")
    else:
        lines.append(f" Max inline data : {facts.inline}[B]")
    lines += [
        f" rdma_cm QPs\t : {'ON' if options.rdma_cm else 'OFF'}",
        f" Data ex. method : {'rdma_cm' if options.rdma_cm or options.comm_rdma_cm else 'Ethernet'}"
        + (f" \tTOS    : {options.tos}" if options.tos is not None and options.rdma_cm else ""),
    ]
    return "\n".join(lines) + "\n"


@dataclass
class Address:
    """One queue pair's address as both ends print it."""

    lid: int
    qpn: int
    psn: int
    rkey: int
    vaddr: int
    gid: Gid | None


def address(side: str, options: Options, facts: Banner, address: Address) -> str:
    """`side` is local or remote."""
    lid = f"{address.lid:#04x}" if address.lid else "0000"
    line = f" {side} address: LID {lid} QPN {address.qpn:#06x} PSN {address.psn:#06x}"
    if not (options.rdma_cm or options.comm_rdma_cm):
        if options.verb == "READ":
            line += f" OUT {facts.outstanding_reads:#04x}"
        if options.verb in ("READ", "WRITE"):
            line += f" RKey {address.rkey:#08x} VAddr {address.vaddr:#016x}"
    if address.gid is not None:
        line += f"\n GID: {address.gid.decimal}"
    return line + "\n"


def unit(options: Options, version: str) -> str:
    """The unit in the header."""
    if options.gbits:
        return "Gb/sec"
    return "MiB/sec" if at_least(version, "6.22") else "MB/sec"


def header(options: Options, version: str) -> str:
    """The table's header line."""
    cpu = "    CPU_Util[%]" if options.cpu_util and options.duration is not None else ""
    if not options.latency:
        u = unit(options, version)
        return f" #bytes     #iterations    BW peak[{u}]    BW average[{u}]   MsgRate[Mpps]{cpu}\n"
    if options.duration is not None:
        return f" #bytes        #iterations       t_avg[usec]    tps average{cpu}\n"
    return (
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
        "   99% percentile[usec]   99.9% percentile[usec] \n"
    )


def bandwidth_row(
    options: Options,
    version: str,
    size: int,
    iterations: int,
    row: Bandwidth,
    peak: bool,
    cpu: float,
) -> str:
    """One row without its newline: the tool flushes before it ends the line."""
    factor = 1.0 if options.gbits else 1e9 / 8 / MIB
    average = row.average_gbps * factor
    top = row.peak_gbps * factor if peak else 0.0
    tail = f"\t    {cpu:<3.2f}" if options.cpu_util and options.duration is not None else ""
    # the tool looks at its own direction before it adds the other
    if options.gbits and average / (2 if options.bidirectional else 1) < 0.1:
        return (
            f" {size:<7d}    {iterations:d}           {top:.6f}            {average:.6f}"
            f"            {row.message_rate_mpps:.6f}{tail}"
        )
    gap = " " * (5 if at_least(version, "6.22") else 3)
    return (
        f" {size:<7d}    {iterations:<10d}       {top:<7.2f}            {average:<7.2f}"
        f"\t\t{gap}{row.message_rate_mpps:<7.6f}{tail}"
    )


def latency_row(options: Options, size: int, iterations: int, row: Latency) -> str:
    """One row of a latency test without its newline."""
    if options.duration is not None:
        rate = 1e6 / (2 * row.average)
        if options.verb == "READ":
            rate = 1e6 / row.average
        return f" {size:<7d}       {iterations:<7d}         {row.average:<7.2f}        {rate:<7.2f}"
    return (
        f" {size:<7d} {iterations:d}          {row.minimum:<7.2f}        {row.maximum:<7.2f}      {row.typical:<7.2f}  "
        f"\t       {row.average:<7.2f}     \t{row.stdev:<7.2f}\t\t{row.p99:<7.2f} \t\t{row.p999:<7.2f}"
    )
