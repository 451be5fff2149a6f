"""What tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.ranks.forked import ForkedRanks

# No test asserts a time of the machine: a busy one makes any example slow.
settings.register_profile("stepwatch", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("stepwatch")


@pytest.fixture(scope="session")
def forked_ranks() -> Iterator[ForkedRanks]:
    """Ranks without the seconds that each takes to import torch."""
    ranks = ForkedRanks()
    yield ranks
    ranks.close()
