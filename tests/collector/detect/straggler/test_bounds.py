"""Cheap looks leave out nothing that the long way finds."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stepwatch.collector.detect.peers import peers_of
from stepwatch.collector.detect.straggler import LIMITS
from stepwatch.collector.detect.straggler.early import persistent, worth_a_look
from stepwatch.collector.detect.straggler.steps import evaluated_steps
from stepwatch.collector.state.evidence.cost import step_costs
from stepwatch.collector.state.evidence.step_window import WORK
from tests.collector.detect.windows import slow, window

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None)
@given(
    seed=SEEDS,
    ranks=st.sampled_from([2, 4, 12]),
    steps=st.integers(3, 30),
    lasts=st.integers(1, 12),
    ends_before=st.integers(0, 2),
    share=st.floats(0.02, 2.0),
    noise=st.sampled_from([0.0, 0.05, 0.5]),
)
def test_a_phase_that_is_not_worth_a_look_has_nobody(
    seed: int,
    ranks: int,
    steps: int,
    lasts: int,
    ends_before: int,
    share: float,
    noise: float,
) -> None:
    step_window = window(steps, ranks, noise=noise, seed=seed)
    rank, phase = seed % ranks, WORK[seed % len(WORK)]
    slow(step_window, rank, phase, share, max(0, steps - lasts))
    if ends_before:
        slow(step_window, rank, phase, -share, steps - ends_before)
    stages = peers_of(step_window.stage)
    assume(stages is not None)
    assert stages is not None
    evaluated = evaluated_steps(step_window, np.ones(steps, dtype=np.bool_), stages, {})
    looked_at = worth_a_look(evaluated, WORK, LIMITS)
    assert [name for name in WORK if persistent(evaluated, name, LIMITS)] == [
        name for name in looked_at if persistent(evaluated, name, LIMITS)
    ]
    if not ends_before and not noise and lasts >= LIMITS.least_steps <= steps and share >= 1.0:
        assert phase in looked_at


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
