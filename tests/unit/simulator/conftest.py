"""One simulated cluster for all tests of a session; each test begins with no faults and no objects of others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the simulated cluster needs aiohttp")
pytest.importorskip("trustme", reason="the simulated cluster needs trustme")

_TESTS = Path(__file__).resolve().parents[2]
for _folder in (_TESTS, Path(__file__).parent):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from simulated_support import Cluster  # noqa: E402


@pytest.fixture(scope="session")
def _running(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("simulator"), nodes=4, rails=2)
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(_running):
    _running.clean()
    return _running
