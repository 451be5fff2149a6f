"""Waits between pipeline stages that grow by a little are found where no stage works longer."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect.slow_collective import LIMITS
from stepwatch.collector.detect.slow_collective.lasting import Growth, grown_between_stages
from stepwatch.collector.state.evidence.buckets import BUCKETS, Course
from stepwatch.collector.state.evidence.long_steps import LEVELS
from stepwatch.collector.state.evidence.step_window import WORK
from tests.collector.courses import not_held_up

STAGES = np.array([0, 0, 1, 1], dtype=np.int16)
STEPS, CHANGES_AT = 10, 20


def grown(
    transfer: float = 0.0, work: float = 0.0, spread: float = 0.1, seed: int = 0
) -> Growth | None:
    """Ten minutes of a pipeline with steps of a second, half of which ranks wait for the other
    stage, in proportion to sequences whose lengths spread; from one bucket on, the way takes so
    many seconds longer, or a rank of stage 1 works so much longer."""
    dice = np.random.default_rng(seed)
    length = dice.normal(1.0, spread, BUCKETS)
    later = np.arange(BUCKETS) >= CHANGES_AT
    seconds = np.zeros((BUCKETS, len(WORK), len(STAGES)), dtype=np.float32)
    seconds[:, WORK.index("forward")] = 0.5 * length[:, None]
    seconds[:, WORK.index("data"), 3] += work * later
    wait = 0.5 * length + (transfer + work) * later + dice.normal(0.0, 0.005, BUCKETS)
    zeros = np.zeros((BUCKETS, len(STAGES)))
    alone_seconds, together, times = not_held_up(BUCKETS)
    return grown_between_stages(
        Course(
            seconds=(0.5 * length + wait) * STEPS,
            steps=np.full(BUCKETS, STEPS),
            first_step=np.arange(BUCKETS) * STEPS,
            least_wait=np.zeros(BUCKETS),
            cost=zeros,
            work=seconds * STEPS,
            begun=np.zeros((BUCKETS, len(LEVELS), len(STAGES)), dtype=np.uint8),
            pipeline_wait=wait * STEPS,
            compared=np.full(zeros.shape, STEPS, dtype=np.uint16),
            lost_to_one=alone_seconds,
            lost_to_data=together,
            times=times,
        ),
        STAGES,
        LIMITS,
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_way_that_costs_a_twelfth_shows_though_lengths_spread_by_a_tenth(seed: int) -> None:
    growth = grown(transfer=0.09, seed=seed)
    assert growth is not None
    assert abs(growth.first_step - CHANGES_AT * STEPS) <= STEPS
    assert growth.lost == pytest.approx(0.08, abs=0.02)


def test_what_a_rank_works_longer_is_no_transfer() -> None:
    assert grown(work=0.2) is None
    assert grown(work=0.2, transfer=0.02) is None


def test_noise_alone_is_no_change_in_a_year_of_ten_minutes() -> None:
    assert [seed for seed in range(1_000) if grown(seed=seed) is not None] == []
