"""What tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ranks.forked import ForkedRanks


@pytest.fixture(scope="session")
def forked_ranks() -> Iterator[ForkedRanks]:
    """Ranks without the seconds that each takes to import torch."""
    ranks = ForkedRanks()
    yield ranks
    ranks.close()
