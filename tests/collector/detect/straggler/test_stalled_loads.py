"""Batches that come late on one rank alone: few are enough, where they cost enough."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepwatch.collector.detect.straggler.evidence.stalled_loads import log_alone
from stepwatch.collector.detect.straggler.thresholds import LIMITS
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.long_steps import LEVELS, LongSteps
from stepwatch.collector.state.trackers.steps.step_window import WORK
from stepwatch.signals.arrays import Cube

from .simulated import lognormal, named, work_of
from .test_rare import course

LEVEL = LEVELS.index(1.0)


def stalled(*counts: int, phase: str = "data", lost: int = 0) -> tuple[Course, LongSteps]:
    """So many late batches of each rank, in different buckets, each of eight seconds.

    The last `lost` ranks are not observed in the second half of the buckets.
    """
    ranks = len(counts)
    known = course(11, *[0] * ranks)
    known.seen[8:, ranks - lost :] = 0
    for rank, count in enumerate(counts):
        known.begun[:count, LEVEL, rank] = 1
        known.work[:count, WORK.index(phase), rank] = 8.0
    long = LongSteps(ranks)
    long.totals += known.begun.sum(axis=0, dtype=np.int64)
    return known, long


def alone(*counts: int, stages: int = 1, phase: str = "data", lost: int = 0) -> list[float]:
    stage = (np.arange(len(counts)) * stages // len(counts)).astype(np.int16)
    return log_alone(*stalled(*counts, phase=phase, lost=lost), stage, LIMITS).tolist()


def test_five_of_two_ranks_and_four_of_four_are_enough() -> None:
    assert alone(5, 0) == pytest.approx([5 * math.log(2), 0.0])
    assert alone(0, 0, 4, 0) == pytest.approx([0.0, 0.0, 4 * math.log(4), 0.0])


@pytest.mark.parametrize("counts", [(4, 0), (3, 0, 0, 0), (9, 1), (12, 0, 0, 1), (14,), (0, 0)])
def test_fewer_are_not_nor_are_those_of_which_a_peer_has_any(counts: tuple[int, ...]) -> None:
    assert max(alone(*counts)) == 0.0


def test_a_rank_is_compared_within_its_stage() -> None:
    assert alone(6, 0, 6, 0, stages=2) == pytest.approx([6 * math.log(2), 0.0] * 2)
    assert max(alone(6, 9, stages=2)) == 0.0, "nobody is alone in its stage and late beside peers"


def test_long_computation_is_left_to_chance() -> None:
    assert max(alone(14, 0, phase="forward")) == 0.0


def test_a_peer_counts_in_the_steps_it_was_observed_in() -> None:
    assert alone(8, 0, 0, 0, lost=2)[0] == pytest.approx(8 * math.log(4))
    assert alone(10, 0, 0, 0, lost=2)[0] == pytest.approx(8 * math.log(4) + 2 * math.log(2))
    assert max(alone(4, 0, lost=1)) == 0.0


def loads(ranks: int, every: int, seconds: float, seed: int, rank: int = -1) -> Cube:
    """Half an hour of steps of a second, of which one in `every` waits for the batch of `rank`, or
    of any rank."""
    dice = np.random.default_rng(seed)
    work = work_of(lognormal(0.05), dice, 1_800, ranks, 1.0)
    hit = np.flatnonzero(dice.random(1_800) * every < 1.0)
    work[0, hit, dice.integers(ranks, size=len(hit)) if rank < 0 else rank] += seconds
    return work


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_loader_that_stalls_for_seconds_is_named_after_a_few_stalls(ranks: int) -> None:
    found = named(loads(ranks, 25, 6.0, 0, rank=1))
    assert found is not None
    seconds, costly = found
    assert (costly.rank, costly.phase) == (1, "data")
    assert seconds <= 300.0
    assert costly.lost.low >= LIMITS.least_lost_low


def test_what_costs_less_than_a_twentieth_waits_for_more_evidence() -> None:
    found = named(loads(2, 100, 2.5, 0, rank=1))
    assert found is None or found[0] > 600.0


@pytest.mark.parametrize("ranks", [2, 4])
def test_loaders_of_which_any_stalls_now_and_then_are_nobodys_fault(ranks: int) -> None:
    for seed in range(6):
        assert named(loads(ranks, 60, 1.2, seed)) is None
        assert named(loads(ranks, 300, 6.0, seed)) is None
