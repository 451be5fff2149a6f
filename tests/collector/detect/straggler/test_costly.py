"""Small and rare slowness is named at its cost; what chance explains, never, for days."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect.straggler import LIMITS
from stepwatch.collector.detect.straggler.costly import (
    beyond_peers,
    costly_ranks,
)
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.collector.statistics.episode import began
from stepwatch.collector.statistics.intervals import share_of

from .simulated import (
    Noise,
    advance,
    heavy,
    lognormal,
    named,
    shared,
    two_lengths,
    window_of,
    work_of,
)
from .test_rare import course

FIVE_MINUTES = 300.0


def slowed(
    ranks: int, factor: float, period: int, noise: float, steps: int = 700, seed: int = 3
) -> np.ndarray:
    """Work in which the last rank takes `factor` times as long in each so many steps."""
    work = work_of(lognormal(noise), np.random.default_rng(seed), steps, ranks, 0.5)
    work[:, ::period, -1] *= factor
    return work


@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
@pytest.mark.parametrize("factor", [1.1, 1.34, 1.45, 2.0])
def test_slow_in_every_step_is_named_within_two_minutes(ranks: int, factor: float) -> None:
    report = named(slowed(ranks, factor, 1, 0.03))
    assert report is not None
    seconds, costly = report
    assert (costly.rank, costly.since) == (ranks - 1, 0)
    assert seconds <= (60.0 if factor > 1.1 else 120.0)
    share = 1 - 1 / factor
    assert costly.lost.low <= share <= costly.lost.high + 0.05 * ranks**0.5


@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
@pytest.mark.parametrize("period", [2, 3, 5])
def test_slow_in_every_second_to_fifth_step_is_named_within_minutes(
    ranks: int, period: int
) -> None:
    report = named(slowed(ranks, 1.9, period, 0.1))
    assert report is not None
    seconds, costly = report
    assert (costly.rank, costly.since) == (ranks - 1, 0)
    assert seconds <= 150.0


@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
@pytest.mark.parametrize("factor", [1.7, 2.0, 5.0])
def test_one_slow_step_in_ten_is_named_within_five_minutes(ranks: int, factor: float) -> None:
    report = named(slowed(ranks, factor, 10, 0.05))
    assert report is not None
    seconds, costly = report
    assert costly.rank == ranks - 1
    assert seconds <= FIVE_MINUTES
    assert costly.lost.share == pytest.approx(
        0.1 * (factor - 1) / (1 + 0.1 * (factor - 1)), rel=0.5
    )


@pytest.mark.parametrize("ranks", [8, 64])
def test_one_slow_step_in_fifty_is_named_once_there_were_enough(ranks: int) -> None:
    report = named(slowed(ranks, 6.0, 50, 0.05, steps=1000))
    assert report is not None and report[1].rank == ranks - 1


def test_a_process_that_stops_two_seconds_of_every_five() -> None:
    work = work_of(lognormal(0.05), np.random.default_rng(0), 400, 4, 0.25)
    work[1, ::12, 2] += 2.0  # 12 steps of a quarter, then two seconds
    report = named(work)
    assert report is not None
    seconds, costly = report
    assert (costly.rank, costly.phase) == (2, "forward")
    assert seconds <= FIVE_MINUTES
    assert costly.lost.share == pytest.approx(0.4, abs=0.06)


def test_what_costs_less_than_two_percent_is_nobodys_business() -> None:
    assert named(slowed(4, 1.01, 1, 0.01, steps=2000)) is None
    assert named(slowed(4, 1.34, 50, 0.03, steps=2000)) is None


def test_two_slow_ranks_do_not_hide_each_other() -> None:
    work = work_of(lognormal(0.03), np.random.default_rng(0), 300, 4, 0.5)
    work[:, :, 2:] *= 1.4
    report = named(work)
    assert report is not None and report[1].rank in (2, 3)
    assert report[1].lost.share == pytest.approx(0.28, abs=0.06)


@pytest.mark.parametrize("period", [10, 50])
def test_one_that_is_slow_now_and_then_shows_beside_one_that_is_slow_more_often(
    period: int,
) -> None:
    work = work_of(lognormal(0.03), np.random.default_rng(0), 600, 4, 0.5)
    work[:, ::4, 1] *= 4.0
    work[:, ::period, 2] *= 1.0 + 0.1 * period
    evidence, stage = RankEvidence(), np.zeros(4, dtype=np.int16)
    advance(evidence, window_of(work, stage, 0))
    assert {costly_rank.rank for costly_rank in costly_ranks(evidence, stage, LIMITS)} == {1, 2}


def test_a_slow_node_shows_though_lengths_hide_each_of_its_ranks() -> None:
    work = work_of(two_lengths, np.random.default_rng(2), 200, 8, 0.5)
    work[:, :, 4:] *= 1.69
    report = named(work, nodes=2)
    assert report is not None
    assert report[1].node == 1 and report[1].rank >= 4


def test_one_slow_rank_is_not_its_node() -> None:
    work = work_of(lognormal(0.03), np.random.default_rng(2), 200, 8, 0.5)
    work[:, :, 5] *= 1.3
    report = named(work, nodes=2)
    assert report is not None and (report[1].rank, report[1].node) == (5, -1)


def test_ranks_are_compared_within_their_stage() -> None:
    work = work_of(lognormal(0.03), np.random.default_rng(0), 300, 8, 0.5)
    work[:, :, 4:] *= 2.0
    assert named(work, stages=2) is None
    work[:, :, 1] *= 1.5
    report = named(work, stages=2)
    assert report is not None and report[1].rank == 1


@pytest.mark.parametrize("kind", ["true", "none", "zero", "negative", "huge", "random", "nan"])
def test_work_counts_that_explain_the_times_are_used_and_lies_ignored(kind: str) -> None:
    """Lengths between a half and one and a half hide a rank at 1.5 times in every tenth step."""
    generator = np.random.default_rng(4)
    length = generator.uniform(0.5, 1.5, (450, 4))
    work = work_of(lognormal(0.02), generator, 450, 4, 0.5) * length
    work[:, ::10, 2] *= 1.5
    tokens = {
        "true": 4096 * length,
        "none": np.full((450, 4), 4096.0),
        "zero": np.zeros((450, 4)),
        "negative": -4096 * length,
        "huge": np.where(np.arange(4) == 2, 1e30, 4096.0) * length,
        "random": generator.uniform(1.0, 4096.0, (450, 4)),
        "nan": np.where(np.arange(4) == 1, np.nan, 4096.0 * length),
    }[kind]
    report = named(work, tokens=tokens)
    if kind == "true":
        assert report is not None and report[1].rank == 2
        assert report[1].counts.startswith("compared per token: tokens explain")
    else:
        assert report is None, "by far too few steps to see it without tokens"


def test_a_lie_hides_nobody_who_is_slow_in_every_step() -> None:
    work = slowed(4, 1.5, 1, 0.05, steps=100)
    for tokens in (np.zeros((100, 4)), np.random.default_rng(1).uniform(1.0, 9.0, (100, 4))):
        report = named(work, tokens=tokens)
        assert report is not None and report[1].rank == 3
        assert report[1].counts.startswith("tokens ignored: ")


def test_a_slow_ramp_is_dated_where_it_began_to_rise() -> None:
    even, noise = np.full(40, 10.0), np.random.default_rng(0).normal(0.0, 0.1, 40)
    ramp = 0.2 * np.maximum(np.arange(40) - 15.0, 0.0)
    assert abs(began(ramp + noise, even) - 15) <= 3
    assert abs(began(np.where(np.arange(40) >= 25, 2.0, 0.0) + noise, even) - 25) <= 1


def test_ranks_that_always_differ_by_a_percent_and_then_by_chance_are_alike() -> None:
    """A speed of its own, and lengths that cost much in some stretches by chance."""
    for seed in range(4):
        work = work_of(two_lengths, np.random.default_rng(seed), 1500, 2, 0.3)
        work[:, :, 1] *= 1.01
        assert named(work) is None


KINDS = {
    "even": lognormal(0.1),
    "heavy": heavy,
    "two lengths": two_lengths,
    "shared": shared,
}


def job_days(noise: Noise, ranks: int, days: float, seconds: float, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    steps = int(days * 86_400 / seconds)
    work = work_of(noise, generator, steps, ranks, seconds)
    report = named(work, every=64, nodes=2 if ranks > 2 else 1)
    return [] if report is None else [f"{report[1]}"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_three_job_days_of_exchangeable_noise_name_nobody(kind: str, ranks: int) -> None:
    """24 job-days in all, of steps of ten seconds."""
    assert job_days(KINDS[kind], ranks, 3.0, 10.0, ranks) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("ranks", "lost"), [(4, 2), (8, 4), (8, 6)])
def test_half_a_job_day_of_which_some_ranks_are_not_observed_names_nobody(
    kind: str, ranks: int, lost: int
) -> None:
    work = work_of(KINDS[kind], np.random.default_rng(lost), 21_600, ranks, 2.0)
    assert named(work, every=64, nodes=2, lost=lost) is None


@pytest.mark.parametrize("lost", [2, 4])
def test_a_slow_rank_shows_beside_those_that_are_observed(lost: int) -> None:
    work = work_of(lognormal(0.03), np.random.default_rng(lost), 600, 8, 1.0)
    work[:, 100:, 1] *= 1.2
    report = named(work, lost=lost)
    assert report is not None and report[1].rank == 1
    assert report[1].lost.share == pytest.approx(0.14, abs=0.04)


def test_peers_count_for_as_many_steps_as_are_known_of_them() -> None:
    seen_steps = np.array([[10, 10, 10, 10], [10, 10, 0, 5], [10, 0, 0, 0]], dtype=np.uint16)
    cost = np.array([[3.0, 1.0, 1.0, 1.0], [3.0, 2.0, 0.0, 1.0], [3.0, 0.0, 0.0, 0.0]])
    history = course(10, 0, 0, 0, 0, buckets=3)._replace(cost=cost, compared=seen_steps)
    nobody, peers = np.zeros(0, dtype=np.int64), np.array([1, 2, 3])
    net = beyond_peers(history, 0, peers, nobody)
    assert net.tolist() == [2.0, 1.0, 0.0], "of the last ones nobody knows"
    assert beyond_peers(history, 0, peers, peers[:1]).tolist() == [2.0, 1.0, 0.0]
    seen_steps = seen_steps * np.array([1, 1, 0, 0], dtype=np.uint16)
    partial = history._replace(compared=seen_steps, cost=cost * (seen_steps > 0))
    net = beyond_peers(partial, 0, peers, peers[:1])
    assert net.tolist() == [2.0, 1.0, 0.0], "those that nobody saw are not peers, whoever is named"


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
def test_many_job_days_of_exchangeable_noise_name_nobody(kind: str, ranks: int) -> None:
    for seed in range(5):
        assert job_days(KINDS[kind], ranks, 1.0, 1.0, seed) == []


@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_of_the_bets_alone_are_rarer_than_stated(kind: str) -> None:
    """Without the cost: a capital of A may be reached once in A steps, by each bet of a stream."""
    ranks, steps, least = 4, 8000, 500.0
    work = work_of(KINDS[kind], np.random.default_rng(7), steps, ranks, 0.5)
    evidence, stage, alarms = RankEvidence(), np.zeros(ranks, dtype=np.int16), 0
    for first in range(0, steps, 4):
        advance(evidence, window_of(work[:, first : first + 4], stage, first))
        over = evidence.log_capital >= np.log(least)
        alarms += int(over.sum())
        evidence.log_capital[over] = 0.0
    assert alarms <= steps * evidence.log_capital.size / least


def test_the_change_is_where_the_net_cost_rises() -> None:
    even = np.full(10, 10.0)
    assert began(np.array([0, 0, 0, 0, 0, 0, 2.0, 2, 2, 2]), even) == 6
    assert began(np.full(10, 2.0), even) == 0
    assert began(np.array([2.0, 1.9, 2.1, 2.0, 2.2, 1.9, 2, 2, 2.1, 2]), even) == 0


def test_the_interval_is_wider_where_buckets_differ_and_unknown_of_two() -> None:
    even = np.full(6, 10.0)
    sure = share_of(np.array([1.0, 1.1, 0.9, 1.0, 1.1, 0.9]), even)
    unsure = share_of(np.array([3.0, 0.0, 0.0, 3.0, 0.0, 0.0]), even)
    assert sure.share == unsure.share == pytest.approx(0.1)
    assert sure.low > 0.08 and unsure.low < 0.0
    assert share_of(np.ones(2), np.ones(2)).low == -np.inf
