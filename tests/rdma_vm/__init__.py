"""Guests (qemu) with software RDMA devices, in which the real perftest runs. See docs/rdma_vm.md."""

from __future__ import annotations

from .cache import default_cache
from .errors import BuildError, GuestError, MissingDependencyError, RdmaVmError
from .guest import Guest, GuestGroup
from .image import Image, build
from .node import Node, Rail, without_ipc_lock
from .packages import missing_programs
from .process import STDERR, STDOUT, GuestProcess, Result

__all__ = [
    "STDERR",
    "STDOUT",
    "BuildError",
    "Guest",
    "GuestError",
    "GuestGroup",
    "GuestProcess",
    "Image",
    "MissingDependencyError",
    "Node",
    "Rail",
    "RdmaVmError",
    "Result",
    "build",
    "default_cache",
    "missing_programs",
    "without_ipc_lock",
]
