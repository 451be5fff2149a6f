"""Long steps of a rank: rare and large is enough, where healthy ranks have them as often is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepwatch.collector.detect.straggler.rare import least_log_rarity, log_rarity
from stepwatch.collector.detect.straggler.thresholds import LIMITS
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.long_steps import LEVELS, LongSteps, added
from tests.collector.courses import not_held_up


def course(steps: int, *counts: int, buckets: int = 15) -> Course:
    """So many steps in each bucket, and so many long steps of each rank in the first one."""
    begun = np.zeros((buckets, len(LEVELS), len(counts)), dtype=np.uint8)
    begun[0] = counts
    zeros = np.zeros((buckets, len(counts)))
    step_counts = np.full(buckets, steps)
    work = np.zeros((buckets, 5, len(counts)), dtype=np.float32)
    wait, observed = np.zeros(buckets), np.full(zeros.shape, steps, dtype=np.uint16)
    first = np.arange(buckets) * steps
    held_up = not_held_up(buckets)
    return Course(
        np.full(buckets, 10.0),
        step_counts,
        first,
        wait,
        zeros,
        work,
        begun,
        wait,
        observed,
        *held_up,
    )


def rarity(
    *counts: int, steps: int = 11, faulty: int = -1, ever: tuple[int, int] = (0, 0)
) -> list[float]:
    """Of `counts` in 15 buckets of so many steps; `ever` are long steps of each rank before, and
    in how many steps."""
    long = LongSteps(len(counts))
    long.totals += np.array(counts) + ever[0]
    long.steps += 15 * steps + ever[1]
    groups, named_mask = np.zeros(len(counts), dtype=np.int64), np.arange(len(counts)) == faulty
    log_rarities: list[float] = log_rarity(
        course(steps, *counts), long, groups, named_mask, LIMITS
    ).tolist()
    return log_rarities


@pytest.mark.parametrize(
    "counts", [(14, 0), (8, 0), (0, 6, 0, 0), (0, 0, 5, 0, 0, 0, 0, 0), (0, 0, 9, 0, 0, 0, 0, 1)]
)
def test_steps_that_only_one_rank_has_again_and_again_are_rare(counts: tuple[int, ...]) -> None:
    log_rarities = rarity(*counts)
    assert np.argmax(log_rarities) == np.argmax(counts)
    assert max(log_rarities) >= least_log_rarity(len(counts), LIMITS)


@pytest.mark.parametrize(
    "counts", [(6, 0), (14, 12), (9, 8, 7, 9), (3, 0, 0, 0), (20, 9, 11, 10), (0, 0)]
)
def test_few_and_such_as_peers_have_too_are_not(counts: tuple[int, ...]) -> None:
    assert max(rarity(*counts)) < least_log_rarity(len(counts), LIMITS)


def test_what_a_job_had_often_before_is_not_rare() -> None:
    least = least_log_rarity(2, LIMITS)
    assert max(rarity(9, 0)) >= least
    assert max(rarity(9, 0, ever=(90, 6_000))) < least


def test_a_rank_shows_beside_another_that_is_known_to_be_slow() -> None:
    least = least_log_rarity(4, LIMITS)
    assert rarity(0, 60, 8, 0)[2] < least
    assert rarity(0, 60, 8, 0, faulty=1)[2] >= least


def test_the_worked_example() -> None:
    log_rarities = rarity(6, 0, 0, 0, steps=15)
    # The level of 4.0 has the smallest usual rate, 0.00125, so its rate is 1 in 1,475; 225 steps
    # are 150 s, and 129,600 a day.
    mean = 225 / 1475
    tail = sum(math.exp(-mean) * mean**count / math.factorial(count) for count in range(5, 30))
    assert log_rarities[0] == pytest.approx(-math.log(129_600 / 1475 * tail), rel=1e-3)
    assert log_rarities[1:] == [0.0, 0.0, 0.0]


def test_no_false_alarm_in_a_year_of_minutes_of_exchangeable_ranks() -> None:
    dice, alarms = np.random.default_rng(13), 0
    for _ in range(2_000):
        ranks, rate = int(dice.choice([2, 4, 8])), float(np.exp(dice.uniform(-7.0, -1.0)))
        counts = dice.binomial(300, rate, ranks)
        log_rarities = rarity(*np.minimum(counts, 255).tolist(), steps=20)
        alarms += max(log_rarities) >= least_log_rarity(ranks, LIMITS)
    assert alarms == 0


def partly(
    counts: list[list[int]], observed: list[list[int]], ever: tuple[int, int] = (0, 0)
) -> list[float]:
    """Of `counts` in 15 buckets, of which the last half saw as many steps of each rank as the
    second of `seen`, the others as the first."""
    ranks = len(observed[0])
    history = course(20, *[0] * ranks)
    history.begun[0], history.begun[-1] = counts
    history.compared[:8], history.compared[8:] = observed
    long = LongSteps(ranks)
    long.totals += history.begun.sum(axis=0, dtype=np.int64) + ever[0]
    long.steps += history.compared.sum(axis=0, dtype=np.int64) + ever[1]
    nobody = np.zeros(ranks, dtype=np.bool_)
    return log_rarity(history, long, np.zeros(ranks, dtype=np.int64), nobody, LIMITS).tolist()


def test_long_steps_of_all_that_are_observed_hit_none_of_them_by_fault() -> None:
    """Of eight ranks four are not observed, for half the time or all of it."""
    half, no_counts = [20] * 4 + [0] * 4, [[60] * 4 + [0] * 4] * 2
    assert max(partly(no_counts, [half, half])) == 0.0
    assert max(partly([[60] * 8, no_counts[0]], [[20] * 8, half])) == 0.0


def test_the_rate_is_that_of_steps_that_were_seen() -> None:
    """As the worked example: 120 steps of the rank, 225 of its peers, and 1,800 a bucket a day."""
    observed, counts = [[15, 5, 5, 5], [0, 5, 5, 5]], [[8, 0, 0, 0], [0, 0, 0, 0]]
    mean = 120 / (225 + 800)
    tail = sum(math.exp(-mean) * mean**count / math.factorial(count) for count in range(7, 30))
    expected = -math.log(86_400 * 2 / (225 + 800) * tail)
    assert partly(counts, observed)[0] == pytest.approx(expected, rel=1e-3)


def test_what_was_seen_long_ago_counts_by_its_own_steps() -> None:
    observed, counts = [[20, 20, 20, 20]] * 2, [[9, 0, 0, 0], [0, 0, 0, 0]]
    rare, often = (
        partly(counts, observed, ever=(90, 90_000)),
        partly(counts, observed, ever=(90, 900)),
    )
    assert rare[0] > often[0]


def test_one_of_those_that_are_observed_shows() -> None:
    half = [20] * 4 + [0] * 4
    log_rarities = partly([[0, 8, 0, 0] + [0] * 4] * 2, [half, half])
    assert np.argmax(log_rarities) == 1
    assert log_rarities[1] >= least_log_rarity(8, LIMITS)


def test_no_false_alarm_where_some_are_not_observed_and_work_gets_longer_then() -> None:
    dice, alarms = np.random.default_rng(17), 0
    for _ in range(2_000):
        ranks = int(dice.choice([2, 4, 8]))
        observed = np.where(dice.random((2, ranks)) < 0.5, 20, 0)
        rates = np.exp(dice.uniform(-7.0, -1.0, 2))
        counts = dice.binomial(np.array([[8], [7]]) * observed, rates[:, None])
        log_rarities = partly(np.minimum(counts, 255).tolist(), observed.tolist())
        alarms += max(log_rarities) >= least_log_rarity(ranks, LIMITS)
    assert alarms == 0


def test_a_run_of_long_steps_begins_once_however_it_is_cut() -> None:
    excess = np.array([[0.0, 0.6, 0.6, 0.0, 5.0]], dtype=np.float32).T
    units = np.array([0])
    run_starts = LongSteps(1).begun(excess, units, units)
    assert run_starts.sum(axis=0)[:, 0].tolist() == [2, 1, 1, 1]
    parts = LongSteps(1)
    cut = np.concatenate([parts.begun(part, units, units) for part in (excess[:2], excess[2:])])
    np.testing.assert_array_equal(cut, run_starts)


def test_counts_stop_at_what_they_can_hold() -> None:
    counts = np.full((1, 1, 2), 254, dtype=np.uint8)
    for _ in range(3):
        added(counts, np.array([[[1, 0]]], dtype=np.uint8))
    assert counts.ravel().tolist() == [255, 254]
