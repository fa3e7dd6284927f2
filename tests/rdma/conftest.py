"""Guests for the tests: a new one for each, which takes a second; a used one may remember (rxe does not forget a cut)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import rdma_vm


@pytest.fixture(scope="session", autouse=True)
def _programs() -> None:
    """Skips where no guest can run; with RDMA_VM_REQUIRED set that is a failure."""
    missing = rdma_vm.missing_programs()
    if missing:
        message = f"a guest cannot run here, not found: {', '.join(missing)}"
        if os.environ.get("RDMA_VM_REQUIRED"):
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture
def guest() -> Iterator[rdma_vm.Guest]:
    """Four nodes in one guest."""
    with rdma_vm.Guest(nodes=4) as guest:
        yield guest


@pytest.fixture
def group() -> Iterator[rdma_vm.GuestGroup]:
    """Two nodes, each in a guest of its own."""
    with rdma_vm.GuestGroup(nodes=2) as group:
        yield group
