"""Batches that come late on one rank alone: few are enough, where they cost enough."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from stepwatch.collector.detect.straggler.stalled_loads import log_alone, lost_to_stalls
from stepwatch.collector.detect.straggler.thresholds import LIMITS
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.long_steps import LEVELS, LongSteps
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.signals.arrays import Cube

from .simulated import lognormal, named, work_of
from .test_rare import course

LEVEL = LEVELS.index(1.0)


DATA = WORK.index("data")


def stalled(
    *counts: int, phase: str = "data", lost: int = 0, loaders: int = 99
) -> tuple[Course, LongSteps]:
    """So many late batches of each rank, in different buckets, each of eight seconds.

    The last `lost` ranks are not observed in the second half of the buckets; the first `loaders`
    load in every step.
    """
    ranks = len(counts)
    history = course(11, *[0] * ranks)
    history.compared[8:, ranks - lost :] = 0
    history.work[:, DATA, :loaders] = 0.1
    for rank, count in enumerate(counts):
        history.begun[:count, LEVEL, rank] = 1
        history.work[:count, WORK.index(phase), rank] += 8.0
    long = LongSteps(ranks)
    long.totals += history.begun.sum(axis=0, dtype=np.int64)
    return history, long


def log_ratios(*counts: int, stages: int = 1, **more: Any) -> list[float]:
    stage = (np.arange(len(counts)) * stages // len(counts)).astype(np.int16)
    return log_alone(*stalled(*counts, **more), stage, LIMITS).tolist()


def test_six_of_two_ranks_and_four_of_four_are_enough() -> None:
    assert log_ratios(6, 0) == pytest.approx([5 * math.log(2), 0.0])
    assert log_ratios(0, 0, 4, 0) == pytest.approx([0.0, 0.0, 3 * math.log(4), 0.0])


@pytest.mark.parametrize("counts", [(5, 0), (3, 0, 0, 0), (9, 1), (4, 0, 0, 1), (14,), (0, 0)])
def test_fewer_are_not_nor_are_few_more_than_peers_have(counts: tuple[int, ...]) -> None:
    assert max(log_ratios(*counts)) == 0.0


def test_more_are_needed_where_peers_have_some_now_or_had_before() -> None:
    share = 9 / 11
    among = 11 * (share * math.log(8 * share) + (1 - share) * math.log((1 - share) * 8 / 7))
    assert log_ratios(1, 0, 0, 0, 9, 0, 1, 0)[4] == pytest.approx(among - math.log(8))
    assert max(log_ratios(1, 0, 0, 0, 6, 0, 1, 0)) == 0.0
    stage = np.zeros(4, dtype=np.int16)
    for count, expected in ((6, 0.0), (7, 6 * math.log(4))):
        history, long = stalled(0, 0, count, 0)
        long.totals[LEVEL, 0] += 1
        assert log_alone(history, long, stage, LIMITS)[2] == pytest.approx(expected)


def test_a_rank_is_compared_within_its_stage() -> None:
    assert log_ratios(6, 0, 6, 0, stages=2) == pytest.approx([5 * math.log(2), 0.0] * 2)
    assert max(log_ratios(6, 9, stages=2)) == 0.0, (
        "nobody is alone in its stage and late beside peers"
    )


def test_a_rank_that_loads_for_the_others_has_no_peers() -> None:
    assert max(log_ratios(9, 0, 0, 0, loaders=1)) == 0.0
    assert log_ratios(6, 0, 0, 0, loaders=2)[0] == pytest.approx(5 * math.log(2))


def test_long_computation_is_left_to_chance() -> None:
    assert max(log_ratios(14, 0, phase="forward")) == 0.0


def test_a_peer_counts_in_the_steps_it_was_observed_in() -> None:
    assert log_ratios(8, 0, 0, 0, lost=2)[0] == pytest.approx(7 * math.log(4))
    chance = (8 / 4 + 2 / 2) / 10
    assert log_ratios(10, 0, 0, 0, lost=2)[0] == pytest.approx(
        10 * math.log(1 / chance) - math.log(4)
    )
    assert max(log_ratios(5, 0, lost=1)) == 0.0


def test_the_first_late_batch_only_says_since_when() -> None:
    history, _ = stalled(4, 0)
    history.begun[:, LEVEL, 0] = 0
    history.begun[[3, 5, 7, 9], LEVEL, 0] = 1
    net = np.zeros(15)
    net[[3, 5, 7, 9]] = 8.0
    assert lost_to_stalls(history, 0, net) == pytest.approx(3 / 4 * 4 * 8.0 / 120.0)


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
    report = named(loads(ranks, 20, 6.0, 0, rank=1))
    assert report is not None
    seconds, costly = report
    assert (costly.rank, costly.phase) == (1, "data")
    assert seconds <= 300.0
    assert costly.lost.low >= LIMITS.least_lost_ratio / 2


def test_what_costs_less_than_a_twentieth_waits_for_more_evidence() -> None:
    report = named(loads(2, 100, 2.5, 0, rank=1))
    assert report is None or report[0] > 600.0


@pytest.mark.parametrize("ranks", [2, 4])
def test_loaders_of_which_any_stalls_now_and_then_are_nobodys_fault(ranks: int) -> None:
    """Also where they cost a twelfth of the time, as nothing is known of whose fault it is."""
    for seed in range(6):
        assert named(loads(ranks, 60, 1.2, seed)) is None
        assert named(loads(ranks, 300, 6.0, seed)) is None
        assert named(loads(ranks, 30, 2.5, seed)) is None
