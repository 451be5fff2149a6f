"""The cost of a rank is what the next slowest rank leaves of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.state.evidence.cost import step_costs

SEEDS = st.integers(0, 2**32 - 1)


@given(
    seed=SEEDS,
    steps=st.integers(0, 5),
    stages=st.integers(1, 3),
    ranks=st.integers(2, 9),
    alike=st.booleans(),
)
def test_only_the_slowest_rank_costs_what_it_is_slower_than_the_next(
    seed: int, steps: int, stages: int, ranks: int, alike: bool
) -> None:
    dice = np.random.default_rng(seed)
    work = dice.random((steps, stages, ranks)).astype(np.float32)
    if alike:
        work = np.round(work, 1)
    costs = step_costs(work, np.zeros((1, 1, 1), dtype=np.bool_))
    assert costs.dtype == work.dtype
    for step, stage in np.ndindex(steps, stages):
        stage_work = work[step, stage].tolist()
        first = stage_work.index(max(stage_work))
        slowest_peer = max(stage_work[:first] + stage_work[first + 1 :])
        expected = np.zeros(ranks, dtype=np.float32)
        expected[first] = np.float32(stage_work[first]) - np.float32(slowest_peer)
        np.testing.assert_array_equal(costs[step, stage], expected)
