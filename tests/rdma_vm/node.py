"""A node of the fabric: an RDMA device with an address, in a guest, and what can be done to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from .errors import GuestError
from .process import GuestProcess, OutputCallback, Result

PERFTEST_PORT = 18515
"""perftest's default."""

_SCRIPTS = "/usr/lib/rdma_vm"


@dataclass(frozen=True)
class Rail:
    """One RDMA port of a node. `mac` is that of the interface that carries it."""

    device: str
    interface: str
    address: str
    mac: str

    @property
    def gid(self) -> str:
        """GID 1, the one perftest takes by default: the IPv4 address mapped, as perftest prints it (decimal bytes)."""
        quads = [f"{int(part):02d}" for part in self.address.split(".")]
        return ":".join([*["00"] * 10, "255", "255", *quads])


def rails_of_guest_node(index: int) -> tuple[Rail, ...]:
    """The one rail of node `index` in a guest that holds all nodes; guest/nodes makes the same."""
    return (Rail(f"mlx5_{index}", f"net{index + 1}", f"10.9.0.{index + 1}", _mac(0, index)),)


def rails_of_group_node(index: int, rails: int) -> tuple[Rail, ...]:
    """The rails of node `index` in a guest of its own; rail k of all nodes is in 10.9.k.0/24."""
    return tuple(
        Rail(f"mlx5_{k}", f"net{k + 1}", f"10.9.{k}.{index + 1}", _mac(k, index))
        for k in range(rails)
    )


def pod_address(index: int) -> str:
    """The address of node `index` of a group on the cluster network, which has no RDMA and carries plain TCP."""
    return f"10.8.0.{index + 1}"


def _mac(rail: int, index: int) -> str:
    return f"02:00:00:09:{rail:02x}:{index + 1:02x}"


@dataclass(frozen=True)
class Node:
    """A node: a guest of its own (group), or one of the devices of a shared guest.

    `port` leads to the agent of the guest it is in; `count` is the number of nodes that share that guest. `pod_address`:
    on the cluster network, where there is one: in a group.
    """

    index: int
    rails: tuple[Rail, ...]
    port: int
    count: int
    pod_address: str = ""

    @property
    def name(self) -> str:
        return f"node{self.index + 1}"

    @property
    def device(self) -> str:
        return self.rails[0].device

    @property
    def interface(self) -> str:
        return self.rails[0].interface

    @property
    def address(self) -> str:
        return self.rails[0].address

    @property
    def gid(self) -> str:
        return self.rails[0].gid

    def popen(
        self,
        argv: Sequence[str],
        *,
        linger: bool = False,
        on_output: OutputCallback | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> GuestProcess:
        """Starts a program in the node's guest; see GuestProcess."""
        return GuestProcess(self.port, argv, linger=linger, on_output=on_output, on_end=on_end)

    def run(self, argv: Sequence[str], timeout: float = 60) -> Result:
        """Runs a program to its end. After `timeout` seconds its process group is killed: TimeoutError."""
        with self.popen(argv) as process:
            return process.wait(timeout)

    def check(self, argv: Sequence[str], timeout: float = 60) -> str:
        """Like run, but a failure raises GuestError with the program's words; returns its standard output."""
        result = self.run(argv, timeout)
        if result.returncode != 0:
            raise GuestError(f"{' '.join(argv)}: {result.err.strip()} ({result.returncode})")
        return result.out

    def wait_listening(self, port: int = PERFTEST_PORT, timeout: int = 10) -> None:
        """Waits until a TCP or rdma_cm server accepts connections on that port. Raises TimeoutError."""
        script = f"{_SCRIPTS}/listening"
        if self.run([script, str(port), str(timeout)], timeout + 20).returncode != 0:
            raise TimeoutError(f"nothing listens on port {port} of {self.name}")

    def link(self, up: bool, rail: int = 0) -> None:
        """Sets the interface of a rail up or down, and with it the RDMA port."""
        self.check(["ip", "link", "set", self.rails[rail].interface, "up" if up else "down"])
        if up and self.count > 1:
            self.check([f"{_SCRIPTS}/neighbours", str(self.index + 1), str(self.count)])

    def shape(
        self,
        *,
        rate_mbit: float | None = None,
        loss_percent: float | None = None,
        delay_ms: float | None = None,
        rail: int = 0,
    ) -> None:
        """Limits what a rail sends (tc netem), in place of earlier limits. Nothing given: no limit."""
        interface = self.rails[rail].interface
        self.run(["tc", "qdisc", "del", "dev", interface, "root"])
        options: list[str] = []
        if rate_mbit is not None:
            options += ["rate", f"{rate_mbit}mbit"]
        if loss_percent is not None:
            options += ["loss", f"{loss_percent}%"]
        if delay_ms is not None:
            options += ["delay", f"{delay_ms}ms"]
        if options:
            queue = ["limit", "10000"]  # packets; netem's 1000 would drop of a window of perftest
            self.check(["tc", "qdisc", "add", "dev", interface, "root", "netem", *queue, *options])

    def processes(self) -> dict[int, str]:
        """{pid: command line} of all that somebody started in the node's guest and that still runs."""
        lines = self.check([f"{_SCRIPTS}/processes"]).splitlines()
        return {
            int(pid): command.strip() for pid, _unused, command in (x.partition(" ") for x in lines)
        }

    def as_dict(self) -> dict:
        """For JSON; `from_dict` is its inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict) -> Node:
        return cls(**{**data, "rails": tuple(Rail(**rail) for rail in data["rails"])})


def without_ipc_lock(argv: Sequence[str], memlock_kib: int = 64) -> list[str]:
    """argv as a container without IPC_LOCK would run it: locked memory is limited (root alone would be let off)."""
    capabilities = "-ipc_lock,-sys_resource"
    return [
        *("prlimit", f"--memlock={memlock_kib * 1024}:{memlock_kib * 1024}"),
        *("setpriv", f"--bounding-set={capabilities}", f"--inh-caps={capabilities}"),
        *argv,
    ]
