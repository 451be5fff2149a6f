"""A job that starves on data is said to, with its first step; a late rank or an epoch is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.detect import data_stall, straggler
from stepwatch.collector.detect.data_stall import Baseline, baseline_of
from stepwatch.collector.detect.data_stall.inputs import lasting_seconds
from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.collector.detect.observed import window_of
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.signals.records import StepFlag
from tests.collector.courses import not_held_up

from .windows import settle, unknown_facts, window

LIMITS = data_stall.LIMITS
HEALTHY = Baseline(0.05, 0.06)


def findings_of(step_window: Window, baseline: Baseline | None = HEALTHY) -> list[Finding]:
    return data_stall.detect(step_window, baseline, LIMITS)


def starve(step_window: Window, seconds: float, since: int, every: int = 1) -> Window:
    """All ranks wait `seconds` longer for data in each `every`-th step."""
    step_window.planes["data"][since::every] += seconds
    settle(step_window)
    return step_window


@pytest.mark.parametrize(("ranks", "stages"), [(2, 1), (4, 2), (8, 4), (64, 1)])
@pytest.mark.parametrize("since", [20, 40, 57])
def test_a_job_that_waits_for_data_on_all_ranks(ranks: int, stages: int, since: int) -> None:
    step_window = starve(window(64, ranks, stages, noise=0.1, seed=since), 0.6, since)
    (finding,) = findings_of(step_window)
    assert (finding.rank, finding.phase, finding.cause) == (NO_RANK, "data", "slow-data")
    assert finding.began_step == 100 + since
    assert f"the job waits for data since step {100 + since}" in finding.summary
    assert 0.3 < finding.lost_ratio < 0.5
    assert straggler.detect(step_window, unknown_facts(ranks), straggler.LIMITS) == []


def test_a_single_process_whose_workers_are_late_in_bursts_waits_for_data() -> None:
    step_window = starve(window(64, 1, noise=0.1, seed=3), 2.0, since=20, every=3)
    (finding,) = findings_of(step_window)
    assert (finding.rank, finding.phase) == (NO_RANK, "data")
    assert "on 1 of 1 ranks" in finding.summary
    every = starve(window(64, 1, noise=0.1, seed=3), 0.6, since=20)
    assert len(findings_of(every)) == 1
    assert straggler.detect(every, unknown_facts(1), straggler.LIMITS) == []


def test_one_rank_of_several_that_loads_is_no_job_that_waits() -> None:
    step_window = window(64, 4)
    step_window.planes["data"][:, 1:] = 0.0
    step_window.planes["data"][40:, 0] += 0.8
    settle(step_window)
    assert findings_of(step_window) == []


def test_it_is_said_after_six_steps() -> None:
    counts = [
        steps for steps in range(1, 10) if findings_of(starve(window(40 + steps, 4), 0.6, 40))
    ]
    assert counts[0] == LIMITS.nearly_all_share * LIMITS.window_steps == 6


def test_one_rank_that_waits_alone_is_a_straggler_not_a_stall() -> None:
    step_window = window(64, 4)
    step_window.planes["data"][40:, 2] += 0.8
    settle(step_window)
    assert findings_of(step_window) == []
    named = straggler.detect(step_window, unknown_facts(4), straggler.LIMITS)
    assert [(item.rank, item.phase) for item in named] == [(2, "data")]


def starving(stages: int, rank: int) -> Window:
    """Four ranks of which one has waited for data for four fifths of each step since the first."""
    step_window = window(64, 4, stages=stages)
    step_window.planes["data"][:, rank] += 4 * step_window.planes["duration"][:, rank]
    settle(step_window)
    return step_window


def test_a_rank_alone_in_its_stage_that_has_always_waited_for_data_has_no_peers() -> None:
    usual = Baseline(0.3, 0.3)
    (finding,) = findings_of(starving(4, 2), usual)
    assert (finding.rank, finding.phase, finding.cause) == (2, "data", "slow-data")
    assert "on rank 2, for which the others wait; it has since its first steps" in finding.summary
    assert finding.lost_ratio > 0.5
    assert findings_of(starving(1, 2), usual) == [], "its peers show it, as a straggler"
    assert findings_of(starving(2, 2), usual) == [], "it has one peer"
    observed_ranks = np.array([1, 2, 3])
    step_window = window_of(starving(4, 2), observed_ranks)
    (finding,) = data_stall.detect(step_window, usual, LIMITS, numbers=observed_ranks)
    assert finding.rank == 2


def test_later_stages_that_load_nothing_do_not_hide_it() -> None:
    step_window = window(64, 8, stages=2)
    step_window.planes["data"][:, 4:] = 0.0
    step_window.planes["data"][40:, :4] += 0.6
    settle(step_window)
    (finding,) = findings_of(step_window)
    assert "on 4 of 8 ranks" in finding.summary


@pytest.mark.parametrize("every", [2, 3, 4])
def test_a_loader_that_is_late_in_every_nth_step(every: int) -> None:
    (finding,) = findings_of(starve(window(96, 4, noise=0.05), 2.5, 40, every))
    assert 140 <= finding.began_step <= 140 + every


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("seconds", [1.0, 20.0])
def test_the_first_steps_of_an_epoch_are_no_stall(length: int, seconds: float) -> None:
    for newest in range(40, 60):
        step_window = window(newest, 4, noise=0.1)
        step_window.planes["data"][40 : 40 + length] += seconds
        settle(step_window)
        assert findings_of(step_window) == []


def test_short_epochs_are_no_stall() -> None:
    assert findings_of(starve(window(128, 4, noise=0.1), 3.0, 0, every=10)) == []


def test_the_first_steps_are_not_judged() -> None:
    step_window = window(12, 4, first_step=0)
    step_window.flags[0] = StepFlag.FIRST
    step_window.planes["data"][:3] += 30.0
    settle(step_window)
    assert findings_of(step_window) == []


def test_a_stall_that_is_over_is_not_said() -> None:
    step_window = window(64, 4)
    step_window.planes["data"][30:60] += 1.0
    settle(step_window)
    assert findings_of(step_window) == []


def test_a_loader_that_has_always_been_slow_is_not_news() -> None:
    step_window = starve(window(64, 4, noise=0.1), 0.6, 0)
    assert findings_of(step_window, Baseline(0.7, 0.7)) == []
    assert findings_of(step_window, None) == [], "no past is known"


def test_a_job_that_has_always_waited_for_most_of_its_time_is_named_with_its_cost() -> None:
    """2.1 s of data in a step of 3.1: whatever its first steps were, that is not a baseline."""
    step_window = starve(window(64, 4, noise=0.1), 2.05, 0)
    (finding,) = findings_of(step_window, Baseline(2.0, 2.0))
    assert "it has since its first steps" in finding.summary
    assert finding.lost_ratio > 0.4


@pytest.mark.parametrize(("steps", "named"), [(7, 0), (8, 1)])
def test_of_steps_of_ten_seconds_eight_are_enough(steps: int, named: int) -> None:
    """Nothing is known of a past, but that it was as slow."""
    for baseline in (None, Baseline(9.0, 9.0)):
        step_window = starve(window(steps, 4, noise=0.1), 9.0, 0)
        assert len(findings_of(step_window, baseline)) == named
        assert findings_of(starve(window(steps, 4, noise=0.1), 2.5, 0), baseline) == []


@pytest.mark.parametrize(("steps", "named"), [(13, 0), (16, 1), (23, 1)])
def test_of_steps_of_two_seconds_so_many_are_enough_as_take_half_a_minute(
    steps: int, named: int
) -> None:
    """And each of them in a row must be long."""
    for baseline in (None, Baseline(2.0, 2.0)):
        step_window = starve(window(steps, 4, noise=0.1), 1.2, 0)
        assert len(findings_of(step_window, baseline)) == named
        step_window.planes["data"][-6] = 0.02
        settle(step_window)
        assert findings_of(step_window, baseline) == []


def test_a_small_wait_in_every_step_is_named_once_it_has_lasted() -> None:
    step_window = starve(window(128, 4, noise=0.1), 0.15, 40)
    assert data_stall.detect(step_window, HEALTHY, LIMITS, 59.0) == []
    (finding,) = data_stall.detect(step_window, HEALTHY, LIMITS, 60.0)
    assert finding.began_step == 140
    assert 0.08 < finding.lost_ratio < 0.16
    assert data_stall.detect(step_window, Baseline(0.1, 0.1), LIMITS, 600.0) == [], "no three times"


def test_a_fifth_of_each_step_since_the_first_one_is_named_once_it_has_lasted() -> None:
    step_window = starve(window(128, 4, noise=0.1), 0.4, 0)
    assert data_stall.detect(step_window, Baseline(0.4, 0.4), LIMITS, 59.0) == []
    (finding,) = data_stall.detect(step_window, Baseline(0.4, 0.4), LIMITS, 60.0)
    assert "it has since its first steps" in finding.summary


def test_short_epochs_are_no_stall_however_long_they_go_on() -> None:
    step_window = starve(window(128, 4, noise=0.1), 3.0, 0, every=10)
    assert data_stall.detect(step_window, HEALTHY, LIMITS, 600.0) == []


def course(data: list[float], seconds: list[float], loaders: int = 4) -> Course:
    """Buckets of ten steps in which `loaders` of four ranks wait so long for data."""
    work = np.zeros((len(data), len(WORK), 4), dtype=np.float32)
    work[:, WORK.index("data"), :loaders] = np.array(data)[:, None]
    count = len(data)
    step_counts, zeros = np.full(count, 10), np.zeros((count, 4))
    begun, wait = np.zeros((count, 4, 4), dtype=np.uint8), np.zeros(count)
    observed, first = np.full(zeros.shape, 10, dtype=np.uint16), np.arange(count) * 10
    held_up = not_held_up(count)
    return Course(
        np.array(seconds), step_counts, first, wait, zeros, work, begun, wait, observed, *held_up
    )


@pytest.mark.parametrize("loaders", [1, 4])
def test_how_long_data_have_taken_their_share(loaders: int) -> None:
    assert lasting_seconds(course([0.1, 1.0, 1.0], [10.0] * 3, loaders), LIMITS) == 20.0
    assert lasting_seconds(course([1.0, 1.0, 0.1], [10.0] * 3, loaders), LIMITS) == 0.0
    paused = course([1.0, 1.0, 1.0], [10.0, 60.0, 10.0], loaders)
    assert lasting_seconds(paused, LIMITS) == 80.0, "an evaluation is not a wait that is over"
    assert lasting_seconds(course([], []), LIMITS) == 0.0
    assert lasting_seconds(course([0.0], [10.0]), LIMITS) == 0.0, "nobody loads"


def test_the_past_holds_although_the_stall_began_within_it() -> None:
    ratios = np.array([0.05] * 6 + [0.9] * 14)
    baseline = baseline_of(ratios, LIMITS)
    assert baseline is not None
    assert len(findings_of(starve(window(64, 4), 0.6, 40), baseline)) == 1
    assert baseline_of(ratios[:0], LIMITS) is None


def test_ranks_that_vanish_make_it_unknown() -> None:
    step_window = starve(window(64, 4), 0.6, 40)
    for plane in step_window.planes.values():
        plane[50:, 3] = np.nan
    assert findings_of(step_window) != [], "the steps that all reported were long"
    for plane in step_window.planes.values():
        plane[:, 3] = np.nan
    assert findings_of(step_window) == []


@settings(max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    ranks=st.integers(2, 16),
    noise=st.floats(0.0, 0.6),
    pause=st.sampled_from(["checkpoint", "eval"]),
)
def test_noise_and_pauses_are_silent(seed: int, ranks: int, noise: float, pause: str) -> None:
    step_window = window(64, ranks, noise=noise, seed=seed)
    step_window.planes[pause][::7] += 5.0
    settle(step_window)
    assert findings_of(step_window) == []


def test_steps_three_times_as_long_on_a_busy_host_are_silent() -> None:
    """250 windows in which every phase of every step now and then takes three times as long."""
    named = []
    for seed in range(250):
        step_window = window(64, 4, noise=0.3, seed=seed)
        spikes = np.random.default_rng(seed).random((64, 4)) < 0.1
        for phase in ("data", "forward", "backward"):
            step_window.planes[phase][spikes] *= 3
        settle(step_window)
        named += findings_of(step_window)
    assert named == []


@given(
    ranks=st.integers(1, 5),
    waits=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 47)), max_size=60),
    seconds=st.floats(0.1, 3.0),
)
@settings(max_examples=60, deadline=None)
def test_a_job_is_starved_only_while_it_waits_lately(
    ranks: int, waits: list[tuple[int, int]], seconds: float
) -> None:
    step_window = window(48, ranks)
    for rank, step in waits:
        step_window.planes["data"][step, rank % ranks] += seconds
    settle(step_window)
    findings = findings_of(step_window)
    long = step_window.planes["data"] >= np.maximum(
        LIMITS.least_share * step_window.planes["duration"],
        LIMITS.least_ratio
        * HEALTHY.most
        * (step_window.planes["duration"] - step_window.planes["data"]),
    )
    lately = long[-LIMITS.window_steps // 2 :].any(axis=0).sum()
    assert not findings or lately >= min(2, ranks)
