"""The cache folder: where it is, and who may write to it now."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def default_cache() -> Path:
    """`.build/rdma_vm` of the repository, or what the environment variable RDMA_VM_CACHE says."""
    repository = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("RDMA_VM_CACHE", repository / ".build" / "rdma_vm")).absolute()


@contextmanager
def lock(cache: Path) -> Iterator[None]:
    """One writer at a time, over processes; the kernel lets go when the process ends."""
    with open(cache / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
