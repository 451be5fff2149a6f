"""Changes of a level, and pipeline stages whose work has grown, by what ten minutes show."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.analysis.stage_change import grown_stages, lasting_change, lost_ratio
from stepwatch.collector.detect.finding import Confidence
from stepwatch.collector.detect.slow_collective import LIMITS
from stepwatch.collector.detect.slow_collective.lasting import (
    detect_always,
    finding_of,
    grown_in_collectives,
)
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.long_steps import LEVELS
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.statistics.change import change_in
from stepwatch.signals.arrays import Matrix, Vector
from stepwatch.signals.names import Cause, FindingKind
from tests.collector.courses import not_held_up

BUCKETS, STEPS = 40, 10
STAGES = np.array([0, 0, 1, 1], dtype=np.int16)


def noise(seed: int, spread: float = 0.03) -> Vector:
    return np.random.default_rng(seed).normal(1.0, spread, BUCKETS)


def course(forward: Matrix, wait: Vector | None = None) -> Course:
    """Buckets of ten steps: forward (buckets, ranks) of each rank, and the least wait, per step."""
    count, ranks = forward.shape
    work = np.zeros((count, len(WORK), ranks), dtype=np.float32)
    work[:, WORK.index("forward")] = forward * STEPS
    least = np.zeros(count) if wait is None else wait
    steps, zeros = np.full(count, STEPS), np.zeros((count, ranks))
    begun = np.zeros((count, len(LEVELS), ranks), dtype=np.uint8)
    seconds = (forward.max(axis=1) + least) * STEPS
    observed, first = np.full(zeros.shape, STEPS, dtype=np.uint16), np.arange(count) * STEPS
    waits = least * STEPS, np.zeros(count)
    held_up = not_held_up(count)
    return Course(seconds, steps, first, waits[0], zeros, work, begun, waits[1], observed, *held_up)


def test_the_worked_example() -> None:
    change = change_in(np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0]), 2, 2)
    assert change is not None and (change.split, change.earlier_level, change.later_level) == (
        3,
        1.0,
        2.0,
    )
    assert change_in(np.ones(3), 2, 2) is None


@pytest.mark.parametrize("seed", range(8))
def test_a_small_change_is_found_where_it_is(seed: int) -> None:
    values = noise(seed)
    values[20:] *= 1.15
    change = lasting_change(values)
    assert change is not None and abs(change.split - 20) <= 1
    assert change.later_level / change.earlier_level == pytest.approx(1.15, abs=0.05)


def test_no_change_is_sure_in_years_of_noise_with_pauses() -> None:
    for seed in range(3_000):
        values = noise(seed, 0.05)
        values[np.random.default_rng(seed).integers(0, BUCKETS, 3)] += 5.0
        assert lasting_change(values) is None


def test_what_half_of_the_buckets_have_is_no_change() -> None:
    """A loader that stalls once in 20 s: the middle of the newest twelve may be either."""
    values = np.array([1.0, 1.07, 1.0, 1.001, 1.002] * 9 + [1.07, 1.002] * 6)
    change = change_in(values, 3, 12)
    assert change is not None and change.sure > 8.0
    assert lasting_change(values) is None
    values[-11::4] = 1.07
    assert lasting_change(values) is not None, "three in four have"


def test_what_is_over_has_not_lasted() -> None:
    values = noise(1)
    values[15:37] *= 1.3
    assert lasting_change(values) is None


def test_a_stage_of_which_all_ranks_are_slow_is_named_and_one_slow_rank_is_not_its_stage() -> None:
    forward = np.stack([noise(seed) for seed in range(4)], axis=1)
    assert grown_stages(course(forward), STAGES) == []
    slow_rank = forward.copy()
    slow_rank[20:, 3] *= 1.5
    assert grown_stages(course(slow_rank), STAGES) == []
    slow_stage = forward.copy()
    slow_stage[20:, 2:] *= 1.3
    (grown,) = grown_stages(course(slow_stage), STAGES)
    assert (grown.stage, grown.phase, grown.first_step) == (1, "forward", 200)
    assert grown.lost == pytest.approx(0.23, abs=0.04)


def test_a_batch_that_all_stages_share_is_nobodys_fault() -> None:
    forward = np.stack([noise(seed) for seed in range(4)], axis=1)
    forward[20:] *= 1.5
    assert grown_stages(course(forward), STAGES) == []


def test_what_steps_are_not_longer_by_costs_nothing() -> None:
    forward = np.stack([noise(seed, 0.001) for seed in range(4)], axis=1)
    forward[:, :2] *= 2.0  # stage 0 limits the pipeline, stage 1 grows beside it
    forward[20:, 2:] *= 1.5
    assert all(stage.lost < 0.01 for stage in grown_stages(course(forward), STAGES))
    change = lasting_change(forward[:, 3])
    assert change is not None and lost_ratio(course(forward), change, 9.0) < 0.01


def test_a_transfer_that_all_wait_for_a_little_longer() -> None:
    forward = np.stack([noise(seed) for seed in range(4)], axis=1)
    wait = 0.06 * noise(9, 0.1)
    assert grown_in_collectives(course(forward, wait), LIMITS) is None
    wait[20:] += 0.1
    growth = grown_in_collectives(course(forward, wait), LIMITS)
    assert growth is not None
    finding = finding_of(growth, "collectives on all ranks", "least wait")
    assert finding.kind is FindingKind.SLOW_COLLECTIVE
    assert (finding.cause, finding.rank) == (Cause.SLOW_TRANSFER, -1)
    assert finding.began_step == 200 and finding.lost_ratio == pytest.approx(0.086, abs=0.02)
    assert "on all ranks take longer since step 200" in finding.summary


def test_a_larger_batch_waits_longer_and_works_longer() -> None:
    forward = np.stack([noise(seed) for seed in range(4)], axis=1)
    wait = 0.06 * noise(9, 0.1)
    forward[20:] *= 1.5
    wait[20:] *= 3.0
    assert grown_in_collectives(course(forward, wait), LIMITS) is None


@pytest.mark.parametrize(("longer", "names"), [(0.05, True), (0.15, False)])
def test_what_all_wait_longer_since_one_rank_works_longer_is_no_transfer(
    longer: float, names: bool
) -> None:
    """Who is late at the first collective waits at the next ones for the others' sequences."""
    forward = np.stack([noise(seed) for seed in range(4)], axis=1)
    wait = 0.06 * noise(9, 0.1)
    forward[20:, 2] += longer
    wait[20:] += 0.1
    growth = grown_in_collectives(course(forward, wait), LIMITS)
    assert (growth is not None) is names


@pytest.mark.parametrize("ranks", [64, 1024])
@pytest.mark.parametrize("at_once", [1, 10])
def test_among_many_ranks_whose_lengths_differ_a_slow_network_is_named(
    ranks: int, at_once: int
) -> None:
    """As many steps in a bucket: one rank's sequences are much longer than before, by chance."""
    dice = np.random.default_rng(ranks)
    lengths = np.where(dice.random((at_once, BUCKETS, ranks)) < 0.3, 1.6, 0.75)
    wait = 0.1 * noise(9, 0.05)
    wait[20:] += 0.2
    growth = grown_in_collectives(course(lengths.mean(axis=0), wait), LIMITS)
    assert growth is not None and 200 <= growth.first_step < 300


@pytest.mark.parametrize(("wait", "names"), [(0.7, False), (3.0, True)])
def test_transfers_that_always_took_most_of_each_step(wait: float, names: bool) -> None:
    forward = np.stack([noise(seed) for seed in range(4)], axis=1)
    findings = detect_always(course(forward, wait * noise(9)), LIMITS)
    assert [finding.confidence for finding in findings] == [Confidence.ONE_OF] * names
    short = course(forward[:10], 3.0 * noise(9)[:10])
    short = short._replace(seconds=short.seconds / 5, least_wait=short.least_wait / 5)
    assert detect_always(short, LIMITS) == [], "for half a minute"
