"""The lines about GPU memory, by version, and how its set-up fails."""

from __future__ import annotations

from dataclasses import dataclass

from .options import Options, at_least


@dataclass(frozen=True)
class Gpu:
    """The GPUs of a node, as the tool lists them."""

    name: str = "NVIDIA H100 80GB HBM3"
    buses: tuple[str, ...] = (
        "0F:00",
        "2D:00",
        "44:00",
        "5B:00",
        "89:00",
        "A8:00",
        "C0:00",
        "D8:00",
    )
    integrated: int = 0

    def pcie(self, index: int) -> str:
        """The bus address of a GPU."""
        return self.buses[index % len(self.buses)]


class GpuFailed(Exception):
    """Set-up failed: what it left on each stream."""

    def __init__(self, out: str, err: str) -> None:
        super().__init__(err)
        self.out = out
        self.err = err


_NO_CONTEXT = "Couldn't init GPU context: 1\nFailed to init memory\n Couldn't create IB resources\n"


def initialise(options: Options, version: str, gpu: Gpu, visible: int, pid: int) -> str:
    """From `initializing CUDA` to the context, with so many GPUs visible in the container; raises GpuFailed."""
    out = ""
    index = options.cuda
    if options.cuda_bus_id is not None:
        out += "initializing CUDA\n"
        out += f"Finding PCIe BUS {options.cuda_bus_id}\nPicking GPU number 0\n"
        index = 0
    out += "initializing CUDA\n"
    assertion = 'destroying current CUDA Ctx\nAssertion "CUDA_SUCCESS == result" failed at src/cuda_memory.c:100\n'
    asserts = at_least(version, "6.20") and not at_least(version, "6.29")
    if not visible:
        out += "cuInit(0) returned 100\n"
        if not at_least(version, "6.20"):
            raise GpuFailed(out, "")
        raise GpuFailed(out + (assertion if asserts else ""), _NO_CONTEXT)
    if index is None or not 0 <= index < visible:
        text = f"No such device ID ({index}) exists in system\n"
        raise GpuFailed(out + (assertion if asserts else ""), text + _NO_CONTEXT)
    out += "Listing all CUDA devices in system:\n"
    for i in range(visible):
        out += f"CUDA device {i}: PCIe address is {gpu.pcie(i)}\n"
    out += (
        f"\nPicking device No. {index}\n[pid = {pid}, dev = {index}] device name = [{gpu.name}]\n"
    )
    out += "creating CUDA Ctx\nmaking it the current CUDA Ctx\n"
    if at_least(version, "6.23"):
        out += f"CUDA device integrated: {gpu.integrated}\n"
    return out


def allocate(
    options: Options, version: str, size: int, base: int, host_pointer: int, queue_pair: int = 0
) -> str:
    """The lines of allocation and of registration through DMA-BUF."""
    dmabuf = ""
    if options.dmabuf:
        dmabuf = f"using DMA-BUF for GPU buffer address at {base:#x} aligned at {base:#x} with aligned size {size}\n"
    if at_least(version, "6.25"):
        out = f"{dmabuf}allocated GPU buffer of a {size} address at {host_pointer:#x} for type CUDA_MEM_DEVICE\n"
    else:
        out = f"cuMemAlloc() of a {size} bytes GPU buffer\n"
        out += f"allocated GPU buffer address at {base:016x} pointer={base:#x}\n{dmabuf}"
    if options.dmabuf:
        out += f"Calling ibv_reg_dmabuf_mr(offset=0, size={size}, addr={base:#x}, fd=37) for QP #{queue_pair}\n"
    return out


def release(version: str, base: int) -> str:
    """The last two lines of a run."""
    word = "GPU" if at_least(version, "6.22") else "RX GPU"
    return f"deallocating {word} buffer {base:016x}\ndestroying current CUDA Ctx\n"


def refused(version: str, dmabuf_errno: int | None, errno: int) -> str:
    """stderr when the memory cannot be registered (errno 14 for GPU memory without peer memory, 1 or 12 for the lock limit)."""
    code = dmabuf_errno if dmabuf_errno is not None else errno
    numbered = at_least(version, "6.26") or (dmabuf_errno is not None and at_least(version, "6.20"))
    out = f"Couldn't allocate MR with error={code}\n" if numbered else "Couldn't allocate MR\n"
    if dmabuf_errno == 95:
        out += "OFED stack does not support DMA-BUF\n"
    return out + "failed to create mr\nFailed to create MR\n"
