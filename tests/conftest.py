"""What tests of several folders share."""

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
    """What is imported and collected stays to the end: the garbage collector does not look through
    it, neither now nor in each test that lets it run."""
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
