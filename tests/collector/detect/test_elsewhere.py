"""Transfers beside those of an earlier attempt, and of other jobs of the class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.detect.slow_collective import LIMITS
from stepwatch.collector.detect.slow_collective.lasting import (
    Elsewhere,
    finding_of,
    longer_between_stages,
    longer_in_collectives,
)
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.long_steps import LEVELS
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.state.trackers.steps.early_baseline import UsualWaits
from stepwatch.signals.arrays import Vector
from tests.collector.courses import not_held_up

STEPS, RANKS, WORKS, WAITS = 10, 4, 0.9, 0.1
BEFORE = Elsewhere(
    UsualWaits(WORKS + WAITS, WORKS, WAITS, WAITS),
    "attempt 0",
    UsualWaits(WORKS + 0.3, WORKS, 0.3, 0.3),
)
STAGES = np.array([0, 0, 1, 1], dtype=np.int16)


def course(
    waits: float | Vector = WAITS,
    work: float | Vector = WORKS,
    count: int = 6,
    pipeline: float = 0.0,
) -> Course:
    """Buckets of ten steps, seconds per step: least wait (buckets,), and work (ranks,)."""
    least, rank_work = np.broadcast_to(waits, count), np.broadcast_to(work, RANKS)
    worked = np.zeros((count, len(WORK), RANKS), dtype=np.float32)
    worked[:, WORK.index("forward")] = rank_work * STEPS
    observed = np.full((count, RANKS), STEPS, dtype=np.uint16)
    return Course(
        (rank_work.max() + least + pipeline) * STEPS,
        np.full(count, STEPS),
        np.arange(count) * STEPS + 3,
        least * STEPS,
        np.zeros((count, RANKS)),
        worked,
        np.zeros((count, len(LEVELS), RANKS), dtype=np.uint8),
        np.full(count, pipeline) * STEPS,
        observed,
        *not_held_up(count),
    )


def test_transfers_that_take_three_times_as_long_as_before_are_named_with_what_they_cost() -> None:
    growth = longer_in_collectives(course(0.3), BEFORE, LIMITS)
    assert growth is not None
    finding = finding_of(growth, "collectives", "least wait")
    assert (finding.rank, finding.began_step) == (-1, 3)
    assert finding.ratio == pytest.approx(3.0)
    assert finding.lost_ratio == pytest.approx(0.2 / 1.2)
    assert finding.confidence == "one of"
    assert "longer than in attempt 0" in finding.summary
    assert finding.summary.endswith("whether the network is slower or the job was changed")


@pytest.mark.parametrize(
    "now",
    [
        course(),
        course(0.3, count=3),
        course(0.3, WORKS + 0.25),
        course(0.3, WORKS - 0.25),
        course(0.3, np.array([WORKS, WORKS, WORKS, WORKS + 0.25])),
        course(np.array([0.1, 0.1, 0.3, 0.3, 0.3, 0.3])),
        course(0.14),
    ],
    ids=[
        "as before",
        "half a minute",
        "more work",
        "less work",
        "one is slow",
        "not always",
        "a little",
    ],
)
def test_nothing_is_said_where_something_else_explains_it_or_it_is_too_little(now: Course) -> None:
    assert longer_in_collectives(now, BEFORE, LIMITS) is None


def test_a_first_run_that_waited_for_nothing_is_no_measure() -> None:
    nothing = BEFORE._replace(usual=BEFORE.usual._replace(least_wait=0.0))
    assert longer_in_collectives(course(0.3), nothing, LIMITS) is None


def test_what_became_slow_later_is_compared_with_its_own_past() -> None:
    """A model whose exchange grows as it learns is not a slow link at each of its restarts."""
    as_before = BEFORE._replace(own_waits=BEFORE.usual)
    assert longer_in_collectives(course(0.3), as_before, LIMITS) is None
    pipeline = course(0.0, pipeline=0.3)
    assert longer_between_stages(pipeline, STAGES, as_before, LIMITS) is None


def test_stretches_in_which_a_rank_was_not_observed_say_nothing_of_transfers() -> None:
    partly = course(0.3)
    partly.compared[:, 1] = STEPS - 1
    assert longer_in_collectives(partly, BEFORE, LIMITS), "a row that is lost hides nobody"
    partly.compared[2:, 1] = STEPS - 2
    assert longer_in_collectives(partly, BEFORE, LIMITS) is None
    partial = course(0.3)
    partial.compared[:, 1] = 0
    assert longer_in_collectives(partial, BEFORE, LIMITS), "it has no peers, and never had"


def test_a_job_without_steps_is_not_compared() -> None:
    assert longer_in_collectives(course(0.3, count=0), BEFORE, LIMITS) is None


def test_ranks_that_are_late_in_turns_are_no_slow_transfers() -> None:
    """Work that jitters more is 6 % longer on average, and in each of many collectives all wait for
    another rank: the logarithm of their number as long."""
    assert longer_in_collectives(course(0.22, WORKS * 1.06), BEFORE, LIMITS) is None
    assert longer_in_collectives(course(0.22, WORKS * 1.01), BEFORE, LIMITS)


@given(st.floats(0.0, 10.0), st.floats(0.01, 10.0), st.floats(0.0, 10.0), st.floats(0.01, 10.0))
def test_what_is_said_to_be_lost_is_a_share_that_is_worth_a_ticket(
    waits: float, work: float, usual: float, usual_work: float
) -> None:
    usual_waits = UsualWaits(usual + usual_work, usual_work, 0.0, usual)
    baseline = Elsewhere(usual_waits, "attempt 0", usual_waits._replace(least_wait=2.0 * usual))
    growth = longer_in_collectives(course(waits, work), baseline, LIMITS)
    if growth is not None:
        assert LIMITS.least_lost_ratio <= growth.lost < 1.0
        assert growth.now >= LIMITS.grown_ratio * growth.usual and waits > usual


def test_stages_that_wait_longer_are_named_unless_one_of_them_works_longer() -> None:
    """Two stages: what either works longer, the other waits."""
    growth = longer_between_stages(course(0.0, pipeline=0.3), STAGES, BEFORE, LIMITS)
    assert growth is not None and growth.lost == pytest.approx(1 / 6)
    slow = course(0.0, np.array([WORKS, WORKS, WORKS + 0.2, WORKS]), pipeline=0.3)
    assert longer_between_stages(slow, STAGES, BEFORE, LIMITS) is None
