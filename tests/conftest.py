"""Fixtures and hooks for tests in several folders."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.ranks.forked import ForkedRanks

# No test asserts a time of the machine: a busy one makes any example slow.
settings.register_profile("stepwatch", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("stepwatch")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Freeze imported and collected objects, which stay to the end: the garbage collector skips
    them, now and in each test that runs it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def forked_ranks() -> Iterator[ForkedRanks]:
    """Ranks without the seconds that each takes to import torch."""
    ranks = ForkedRanks()
    yield ranks
    ranks.close()
