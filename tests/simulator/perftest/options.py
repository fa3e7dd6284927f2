"""The command line of the perftest tools, as far as the double understands it."""

from __future__ import annotations

from dataclasses import dataclass, field

VERSIONS = ("6.06", "6.20", "6.23", "6.25", "6.27", "6.29")

# verb, test (BW or LAT), title, default size, default iterations
TOOLS = {
    "ib_write_bw": ("WRITE", "BW", "RDMA_Write", 65536, 5000),
    "ib_read_bw": ("READ", "BW", "RDMA_Read", 65536, 1000),
    "ib_send_bw": ("SEND", "BW", "Send", 65536, 1000),
    "ib_atomic_bw": ("ATOMIC", "BW", "Atomic FETCH_AND_ADD", 8, 1000),
    "ib_write_lat": ("WRITE", "LAT", "RDMA_Write", 2, 1000),
    "ib_read_lat": ("READ", "LAT", "RDMA_Read", 2, 1000),
    "ib_send_lat": ("SEND", "LAT", "Send", 2, 1000),
}


def at_least(version: str, wanted: str) -> bool:
    """Compares perftest versions, "6.06" < "6.20"."""
    return tuple(map(int, version.split("."))) >= tuple(map(int, wanted.split(".")))


@dataclass
class Options:
    """A parsed command line."""

    tool: str
    verb: str
    test: str
    title: str
    size: int
    iterations: int
    device: str | None = None
    ib_port: int = 1
    tcp_port: int = 18515
    all_sizes: bool = False
    duration: int | None = None
    margin: int | None = None
    queue_pairs: int = 1
    bidirectional: bool = False
    gbits: bool = False
    rdma_cm: bool = False
    comm_rdma_cm: bool = False
    gid_index: int | None = None
    mtu: int | None = None
    tx_depth: int | None = None
    cq_moderation: int | None = None
    post_list: int = 1
    connection: str = "RC"
    no_peak: bool = False
    limit_bw: float | None = None
    cuda: int | None = None
    cuda_bus_id: str | None = None
    dmabuf: bool = False
    cpu_util: bool = False
    run_infinitely: bool = False
    report_both: bool = False
    tos: int | None = None
    ipv6_gid: bool = False
    ipv6_address: bool = False
    output: str | None = None
    quiet_cpu: bool = False
    host: str | None = None
    seen: list[str] = field(default_factory=list)

    @property
    def latency(self) -> bool:
        """Whether it is a latency test."""
        return self.test == "LAT"

    @property
    def server(self) -> bool:
        """Whether it waits for a client."""
        return self.host is None

    @property
    def on_gpu(self) -> bool:
        """Whether the memory is that of a GPU."""
        return self.cuda is not None or self.cuda_bus_id is not None


class Refused(Exception):
    """The parser gave up: what goes to each stream, and the exit status."""

    def __init__(self, err: str = "", out: str = "", status: int = 1, usage: bool = False) -> None:
        super().__init__(err)
        self.err = err
        self.out = out
        self.status = status
        self.usage = usage


_EXITED = " Parser function exited with Error\n"

# letter, long name, takes a value
_SPEC: list[tuple[str, str, bool]] = [
    ("a", "all", False),
    ("b", "bidirectional", False),
    ("c", "connection", True),
    ("d", "ib-dev", True),
    ("D", "duration", True),
    ("f", "margin", True),
    ("F", "CPU-freq", False),
    ("h", "help", False),
    ("H", "report-histogram", False),
    ("i", "ib-port", True),
    ("I", "inline_size", True),
    ("l", "post_list", True),
    ("m", "mtu", True),
    ("n", "iters", True),
    ("N", "noPeak", False),
    ("p", "port", True),
    ("q", "qp", True),
    ("Q", "cq-mod", True),
    ("r", "rx-depth", True),
    ("R", "rdma_cm", False),
    ("s", "size", True),
    ("S", "sl", True),
    ("t", "tx-depth", True),
    ("T", "tos", True),
    ("u", "qp-timeout", True),
    ("U", "report-unsorted", False),
    ("V", "version", False),
    ("w", "limit_bw", True),
    ("x", "gid-index", True),
    ("z", "comm_rdma_cm", False),
    ("", "bind_source_ip", True),
    ("", "cpu_util", False),
    ("", "disable_pcie_relaxed", False),
    ("", "force-link", True),
    ("", "ipv6", False),
    ("", "ipv6-addr", False),
    ("", "output", True),
    ("", "perform_warm_up", False),
    ("", "report_gbits", False),
    ("", "report-both", False),
    ("", "retry_count", True),
    ("", "run_infinitely", False),
    ("", "tclass", True),
    ("", "use_cuda", True),
    ("", "use_cuda_bus_id", True),
    ("", "use_cuda_dmabuf", False),
    ("", "use_old_post_send", False),
]
_NUMBERS = {
    "ib-port": "IB port",
    "iters": "Iteration num",
    "port": "Port",
    "qp": "num of qps",
    "size": "Message size",
    "duration": "Duration",
    "gid-index": "Gid index",
    "tx-depth": "TX depth",
    "cq-mod": "CQ moderation",
    "post_list": "Post List size",
    "mtu": "MTU",
    "margin": "margin",
    "tos": "TOS",
}
# What the parser allows, and the words of its refusal; seen in 6.06.
_BOUNDS = {
    "gid-index": (0, 64, "Gid index"),
    "iters": (5, 100_000_000, "Iteration num"),
    "qp": (1, 16384, "num of Qps"),
    "size": (1, 2**31 - 1, "Message Size"),
    "tx-depth": (1, 15000, "Tx depth"),
}


def parse(argv: list[str], version: str, has_cuda: bool) -> Options:
    """Parses a command line; raises Refused with what the tool prints when it does not like it."""
    tool = argv[0].rsplit("/", 1)[-1]
    verb, test, title, size, iterations = TOOLS[tool]
    options = Options(tool, verb, test, title, size, iterations)
    cuda_in_table = has_cuda or at_least(version, "6.20")
    values: list[tuple[str, str | None]] = []
    rest: list[str] = []
    words = iter(argv[1:])
    for word in words:
        if word == "--":
            rest += list(words)
        elif word.startswith("--"):
            values.append(_long(argv[0], word, words, version, cuda_in_table))
        elif word.startswith("-") and len(word) > 1:
            values += _short(argv[0], word, words)
        else:
            rest.append(word)
    for name, value in values:
        _set(options, name, value, version, has_cuda)
    if len(rest) > 1:
        raise Refused(
            usage=True, err=" Invalid Command line. Please check command rerun \n" + _EXITED
        )
    if rest:
        options.host = rest[0]
    _check(options, version)
    return options


def _refuse_option(program: str, text: str) -> Refused:
    head = f"{program}: {text}\n Invalid Command or flag.\n Please check command line and run again.\n\n"
    return Refused(usage=True, err=head + _EXITED)


def _long(
    program: str, word: str, words: object, version: str, cuda: bool
) -> tuple[str, str | None]:
    name, equals, value = word[2:].partition("=")
    known = [s for s in _SPEC if s[1] and not (s[1].startswith("use_cuda") and not cuda)]
    if not at_least(version, "6.20"):
        known = [s for s in known if s[1] not in ("use_cuda_dmabuf", "ipv6-addr")]
    exact = [s for s in known if s[1] == name] or [s for s in known if s[1].startswith(name)]
    if len(exact) != 1:
        raise _refuse_option(program, f"unrecognized option '{word}'")
    _letter, full, takes = exact[0]
    if not takes:
        return (full, None)
    if equals:
        return (full, value)
    following = next(words, None)  # type: ignore[call-overload]
    if following is None:
        raise _refuse_option(program, f"option '{word}' requires an argument")
    return (full, following)


def _short(program: str, word: str, words: object) -> list[tuple[str, str | None]]:
    out: list[tuple[str, str | None]] = []
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        spec = next((s for s in _SPEC if s[0] == letter), None)
        if spec is None:
            raise _refuse_option(program, f"invalid option -- '{letter}'")
        if not spec[2]:
            out.append((spec[1], None))
            continue
        value = letters or next(words, None)  # type: ignore[call-overload]
        if value is None:
            raise _refuse_option(program, f"option requires an argument -- '{letter}'")
        out.append((spec[1], value))
        break
    return out


def _number(name: str, value: str | None, version: str) -> int:
    try:
        return int(value or "")
    except ValueError as error:
        kind = "int"
        if name == "iters" and at_least(version, "6.20"):
            kind = "uint64_t"
        raise Refused(f" {_NUMBERS[name]} argument {value} should be {kind}\n{_EXITED}") from error


def _set(options: Options, name: str, value: str | None, version: str, has_cuda: bool) -> None:
    if name in ("help", "version"):
        raise Refused(out="" if name == "help" else f"Version: {version}\n", usage=name == "help")
    options.seen.append(name)
    number = _number(name, value, version) if name in _NUMBERS else 0
    if name in _BOUNDS:
        low, high, words = _BOUNDS[name]
        if not low <= number <= high:
            raise Refused(f" {words} should be between {low} and {high}\n{_EXITED}")
    if name == "duration" and number <= 0:
        raise Refused(f" Duration period must be positive\n{_EXITED}")
    fields = {
        "ib-port": "ib_port",
        "port": "tcp_port",
        "qp": "queue_pairs",
        "size": "size",
        "iters": "iterations",
        "duration": "duration",
        "tx-depth": "tx_depth",
        "cq-mod": "cq_moderation",
        "post_list": "post_list",
        "mtu": "mtu",
        "margin": "margin",
        "tos": "tos",
    }
    flags = {
        "all": "all_sizes",
        "bidirectional": "bidirectional",
        "report_gbits": "gbits",
        "rdma_cm": "rdma_cm",
        "comm_rdma_cm": "comm_rdma_cm",
        "noPeak": "no_peak",
        "cpu_util": "cpu_util",
        "report-both": "report_both",
        "ipv6": "ipv6_gid",
        "ipv6-addr": "ipv6_address",
        "run_infinitely": "run_infinitely",
        "CPU-freq": "quiet_cpu",
    }
    if name in fields:
        setattr(options, fields[name], number)
    elif name in flags:
        setattr(options, flags[name], True)
    elif name == "ib-dev":
        options.device = value
    elif name == "connection":
        options.connection = value or "RC"
    elif name == "gid-index":
        options.gid_index = number
    elif name == "limit_bw":
        options.limit_bw = float(value or 0)
    elif name == "output":
        options.output = value
    elif name in ("use_cuda", "use_cuda_bus_id"):
        if not has_cuda:
            raise Refused(err=_EXITED, out=" Unsupported memory type\n")
        if name == "use_cuda_bus_id":
            options.cuda_bus_id = value
            return
        try:
            options.cuda = int(value or "")
        except ValueError as error:
            raise Refused(f" CUDA device argument {value} should be int\n{_EXITED}") from error
        if options.cuda < 0:
            raise Refused(f" CUDA device must be non-negative int\n{_EXITED}")
    elif name == "use_cuda_dmabuf":
        if not has_cuda:
            raise Refused(err=_EXITED, out=" Unsupported memory type\n")
        if not options.on_gpu:
            raise Refused(f"CUDA DMA-BUF cannot be used without CUDA\n{_EXITED}")
        options.dmabuf = True


def _check(options: Options, version: str) -> None:
    rule = "-" * 87 + "\n"
    if options.iterations % options.post_list:
        raise Refused(
            "Number of iterations must be a multiple of post list size\n", out="-" * 87 + "\n"
        )
    if options.all_sizes and options.duration is not None:
        raise Refused("Duration mode currently doesn't support running on all sizes.\n", out=rule)
    if options.on_gpu and options.tool == "ib_write_lat":
        if at_least(version, "6.29"):
            text = (
                "Perftest doesn't support CUDA latency test with write (without immediate) verb\n"
            )
        elif at_least(version, "6.20"):
            text = "Perftest supports CUDA latency tests with read/send verbs only\n"
        else:
            text = " Perftest supports CUDA only in BW tests\n"
        raise Refused(text, out=rule)
    if options.on_gpu and options.latency and not at_least(version, "6.20"):
        raise Refused(" Perftest supports CUDA only in BW tests\n", out=rule)
