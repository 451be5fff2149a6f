"""From when until when a rank is slow: a fault that is over is over soon, however long it was."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect.straggler import LIMITS
from stepwatch.collector.detect.straggler.costly import costly_ranks
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.collector.statistics.episode import episode
from tests.collector.detect.straggler.simulated import advance, lognormal, window_of, work_of

STEP = 0.5
FIRST = 120


def named_at(work: np.ndarray) -> list[tuple[float, float, float]]:
    """Seconds, share and seconds of a step, each five steps in which the last rank is named."""
    evidence, stage, seconds, reports = RankEvidence(), np.zeros(4, dtype=np.int16), 0.0, []
    for first in range(0, work.shape[1], 5):
        step_window = window_of(work[:, first : first + 5], stage, first)
        advance(evidence, step_window)
        seconds += float(step_window.planes["duration"][:, 0].sum())
        for costly_rank in costly_ranks(evidence, stage, LIMITS):
            reports.append(
                (seconds, costly_rank.lost.share, costly_rank.work[0] / costly_rank.work[1])
            )
    return reports


@pytest.mark.parametrize("factor", [1.3, 2.0])
@pytest.mark.parametrize("lasts", [30, 60, 120, 300])
def test_a_fault_is_over_within_forty_seconds_of_its_end(factor: float, lasts: int) -> None:
    generator = np.random.default_rng(lasts)
    count = int(lasts / (STEP * factor))
    work = work_of(lognormal(0.03), generator, FIRST + count + 400, 4, STEP)
    work[:, FIRST : FIRST + count, 3] *= factor
    end = float(work[:, : FIRST + count].sum(axis=0).max(axis=1).sum() * 1.05)
    reports = named_at(work)
    assert reports, "it is named"
    assert reports[-1][0] - end <= 40.0
    late_reports = [report for report in reports if report[0] > end]
    for _, share, times in late_reports:
        assert times == pytest.approx(factor, abs=0.35 * (factor - 1)), "not of healthy steps"
        assert share >= 0.55 * (1 - 1 / factor), "what it cost while it was there"


def test_what_is_slow_now_and_then_goes_on_between_two_times() -> None:
    """One stretch of forty seconds in each two minutes ends in between, one step in fifty not."""
    work = work_of(lognormal(0.03), np.random.default_rng(0), 1500, 4, STEP)
    work[:, ::50, 3] *= 8.0
    seconds = [report[0] for report in named_at(work)]
    assert max(np.diff(seconds)) <= 15.0


def test_an_episode_is_what_shows_and_no_bucket_that_has_just_begun() -> None:
    net, seconds = np.array([0.0, 0, 5, 5, 5, 0, 0]), np.full(7, 10.0)
    span = episode(net, seconds)
    assert (span.begin, span.end, np.flatnonzero(span.shows).tolist()) == (2, 5, [2, 3, 4])
    assert span.log_over == pytest.approx(2 * np.log(8))
    begun = episode(np.append(net[:4], 0.0), np.append(seconds[:4], 0.5))
    assert (begun.begin, begun.end) == (2, 5), "half a second shows nothing"
    noise = episode(np.append(net, 0.1), np.append(seconds, 0.2))
    assert noise.end == 5, "half of so short a stretch says as little"


def test_noise_as_large_as_the_fault_does_not_keep_it_open() -> None:
    """Neither does it end what goes on: one false end in some hundred looks at most."""
    dice, over, early_count = np.random.default_rng(0), 0, 0
    for _ in range(100):
        noise = dice.normal(0.0, 0.8, 40)
        lasting = episode(np.where(np.arange(40) >= 10, 0.8, 0.0) + noise, np.full(40, 10.0))
        early_count += lasting.log_over >= LIMITS.least_log_over
        ended = np.where((np.arange(40) >= 10) & (np.arange(40) < 25), 0.8, 0.0)
        over += episode(ended + noise, np.full(40, 10.0)).log_over >= LIMITS.least_log_over
    assert over >= 75 and early_count <= 3


def test_a_rank_that_costs_nothing_anywhere_shows_nothing() -> None:
    """Its peers pause now and then, so it is faster than they are in every stretch."""
    span = episode(np.full(6, -0.2), np.full(6, 10.0))
    assert not span.shows.any() and span.end == 6
