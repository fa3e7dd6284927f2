"""Memory for the test: of the host or of a GPU, and how registering it fails."""

from __future__ import annotations

import asyncio

from . import gpu
from .options import at_least
from .world import GPU_SETUP, Exit, Run

_NO_RESOURCES = " Couldn't create IB resources\n"
_CM_FAILED = (
    "Failed to initialize RDMA contexts.\nERRNO: Bad address.\n"
    "Failed to handle RDMA CM event.\nERRNO: Bad address.\n"
    "Failed to connect RDMA CM events.\nERRNO: Bad address.\n"
)
_CM_GAVE_UP = (
    "Failed to connect RDMA CM client, tried 10 times.\nERRNO: Bad address.\n"
    "Failed to create RDMA CM connection.\nERRNO: Bad address.\n"
    "Failed to create RDMA CM connection with resources.\n"
)


def may_lock(run: Run, size: int) -> bool:
    """Whether the pod may lock so many bytes."""
    limit = run.machine.memlock_kib
    return run.machine.ipc_lock or limit is None or size <= limit * 1024


def register_host(run: Run) -> None:
    """Registers host memory, unless the test is on a GPU."""
    if run.options.on_gpu:
        return
    if run.quirks.memlock or not may_lock(run, run.buffer):
        raise run.fail(gpu.refused(run.version, None, 1) + _NO_RESOURCES)


def has_driver(run: Run) -> bool:
    """Whether libcuda is there."""
    return run.machine.gpu_driver and not run.quirks.no_cuda_driver


async def register_gpu(run: Run) -> None:
    """Sets the GPU up and registers its memory."""
    if not has_driver(run):
        run.print("Failed to load CUDA library dynamically\n")
        raise run.fail(
            "dlerror: libcuda.so: cannot open shared object file: No such file or directory\n"
        )
    await run.pause(GPU_SETUP)
    options, rng = run.options, run.world.rng
    base = 0x7F0000000000 + rng.randrange(1, 1 << 15) * 0x2000000
    pointer = 0x550000000000 + rng.randrange(1 << 32) * 16
    pid = run.context.process.pid
    try:
        opening = gpu.initialise(options, run.version, run.world.gpu, run.machine.gpus, pid)
    except gpu.GpuFailed as failure:
        run.print(failure.out)
        raise run.fail(failure.err) from None
    opening += gpu.allocate(options, run.version, run.buffer, base, pointer)
    errno = run.quirks.dmabuf_errno if options.dmabuf else None
    if errno is not None or (run.quirks.no_peer_memory and not options.dmabuf):
        raise await _refused(run, opening, gpu.refused(run.version, errno, 14))
    run.print(opening)
    run.gpu_base = base


async def _refused(run: Run, opening: str, complaint: str) -> Exit:
    """Without -R the tool ends in order; with it the older ones crash and the newest try ten times."""
    if not run.options.rdma_cm:
        ends = "destroying current CUDA Ctx\n" if at_least(run.version, "6.20") else ""
        run.print(opening + ends)
        return run.fail(complaint + _NO_RESOURCES)
    if at_least(run.version, "6.28"):
        for _unused in range(10):
            run.print(opening)
            run.complain(complaint + _CM_FAILED)
        return run.fail(_CM_GAVE_UP)
    run.print(opening)
    run.complain(complaint + _CM_FAILED)
    run.context.process.signal("SEGV")
    await asyncio.sleep(0)
    return Exit(139)
