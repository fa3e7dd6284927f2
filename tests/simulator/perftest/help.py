"""The usage text: the tool's own, as it was captured from 6.06 and 6.29."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .options import at_least

HERE = Path(__file__).parent / "help"
_CUDA = (
    "      --use_cuda=<cuda device id> Use CUDA specific device for GPUDirect RDMA testing\n"
    "      --use_cuda_bus_id=<cuda full BUS id> Use CUDA specific device, based on its full PCIe address, for"
    " GPUDirect RDMA testing\n"
)
_DMABUF = "      --use_cuda_dmabuf Use CUDA DMA-BUF for GPUDirect RDMA testing\n"


@cache
def _captured(tool: str, stem: str) -> str:
    path = HERE / f"{stem}-{tool}.txt"
    if not path.exists():
        path = HERE / f"{stem}-ib_write_bw.txt"
    return path.read_text()


def usage(program: str, version: str, cuda: bool) -> str:
    """What --help prints, and an unknown option too."""
    tool = program.rsplit("/", 1)[-1]
    stem = "629" if at_least(version, "6.20") else "606"
    out = _captured(tool, stem).replace("@PROGRAM@", program)
    if cuda:
        extra = _CUDA + (_DMABUF if at_least(version, "6.20") else "")
        head, mark, tail = out.partition("      --use_hugepages")
        out = head + extra + mark + tail if mark else out + extra
    return out
