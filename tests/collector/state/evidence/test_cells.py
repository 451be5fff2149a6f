"""Pauses of the job are not work; a rank that pauses alone is late for all others."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.state.evidence.cells import _without_pauses
from stepwatch.collector.state.evidence.step_window import WORK

OTHER = WORK.index("other")


def remaining_ranks(paused: list[int], ranks: int = 4, unknown: int = 0) -> list[int]:
    """Which ranks still have seven seconds of other work, where those `paused` had them."""
    work = np.full((len(WORK), 1, ranks), 0.1, dtype=np.float32)
    work[OTHER, 0, paused] = 7.0
    known_mask = np.ones((1, ranks), dtype=np.bool_)
    known_mask[0, ranks - unknown :] = False
    _without_pauses(work, known_mask)
    return np.flatnonzero(work[OTHER, 0] >= 5.0).tolist()


@pytest.mark.parametrize(("paused", "ranks"), [([2], 4), ([0], 2), ([1, 2], 4), ([5], 64)])
def test_a_rank_that_pauses_alone_works_longer_than_its_peers(
    paused: list[int], ranks: int
) -> None:
    assert remaining_ranks(paused, ranks) == paused


@pytest.mark.parametrize(("paused", "unknown"), [([0, 1, 2, 3], 0), ([0, 1, 3], 0), ([0, 1], 1)])
def test_where_most_ranks_pause_the_job_does(paused: list[int], unknown: int) -> None:
    assert remaining_ranks(paused, unknown=unknown) == []
