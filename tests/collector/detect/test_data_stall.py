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
from stepwatch.collector.state.trackers.steps.step_window import WORK, Window
from stepwatch.signals.records import StepFlag
from tests.collector.courses import not_held_up

from .windows import settle, unknown_facts, window

LIMITS = data_stall.LIMITS
HEALTHY = Baseline(0.05, 0.06)


def found(made: Window, baseline: Baseline | None = HEALTHY) -> list[Finding]:
    return data_stall.detect(made, baseline, LIMITS)


def starve(made: Window, seconds: float, since: int, every: int = 1) -> Window:
    """All ranks wait `seconds` longer for data in each `every`-th step."""
    made.planes["data"][since::every] += seconds
    settle(made)
    return made


@pytest.mark.parametrize(("ranks", "stages"), [(2, 1), (4, 2), (8, 4), (64, 1)])
@pytest.mark.parametrize("since", [20, 40, 57])
def test_a_job_that_waits_for_data_on_all_ranks(ranks: int, stages: int, since: int) -> None:
    made = starve(window(64, ranks, stages, noise=0.1, seed=since), 0.6, since)
    (finding,) = found(made)
    assert (finding.rank, finding.phase, finding.cause) == (NO_RANK, "data", "slow-data")
    assert finding.began_step == 100 + since
    assert f"the job waits for data since step {100 + since}" in finding.summary
    assert 0.3 < finding.lost_ratio < 0.5
    assert straggler.detect(made, unknown_facts(ranks), straggler.LIMITS) == []


def test_a_single_process_whose_workers_are_late_in_bursts_waits_for_data() -> None:
    made = starve(window(64, 1, noise=0.1, seed=3), 2.0, since=20, every=3)
    (finding,) = found(made)
    assert (finding.rank, finding.phase) == (NO_RANK, "data")
    assert "on 1 of 1 ranks" in finding.summary
    every = starve(window(64, 1, noise=0.1, seed=3), 0.6, since=20)
    assert len(found(every)) == 1
    assert straggler.detect(every, unknown_facts(1), straggler.LIMITS) == []


def test_one_rank_of_several_that_loads_is_no_job_that_waits() -> None:
    made = window(64, 4)
    made.planes["data"][:, 1:] = 0.0
    made.planes["data"][40:, 0] += 0.8
    settle(made)
    assert found(made) == []


def test_it_is_said_after_six_steps() -> None:
    counts = [steps for steps in range(1, 10) if found(starve(window(40 + steps, 4), 0.6, 40))]
    assert counts[0] == LIMITS.least_steps


def test_one_rank_that_waits_alone_is_a_straggler_not_a_stall() -> None:
    made = window(64, 4)
    made.planes["data"][40:, 2] += 0.8
    settle(made)
    assert found(made) == []
    named = straggler.detect(made, unknown_facts(4), straggler.LIMITS)
    assert [(item.rank, item.phase) for item in named] == [(2, "data")]


def starving(stages: int, rank: int) -> Window:
    """Four ranks of which one has waited for data for four fifths of each step since the first."""
    made = window(64, 4, stages=stages)
    made.planes["data"][:, rank] += 4 * made.planes["duration"][:, rank]
    settle(made)
    return made


def test_a_rank_alone_in_its_stage_that_has_always_waited_for_data_has_no_peers() -> None:
    usual = Baseline(0.3, 0.3)
    (finding,) = found(starving(4, 2), usual)
    assert (finding.rank, finding.phase, finding.cause) == (2, "data", "slow-data")
    assert "on rank 2, for which the others wait; it has since its first steps" in finding.summary
    assert finding.lost_ratio > 0.5
    assert found(starving(1, 2), usual) == [], "its peers show it, as a straggler"
    assert found(starving(2, 2), usual) == [], "it has one peer"
    seen = np.array([1, 2, 3])
    made = window_of(starving(4, 2), seen)
    (finding,) = data_stall.detect(made, usual, LIMITS, numbers=seen)
    assert finding.rank == 2


def test_later_stages_that_load_nothing_do_not_hide_it() -> None:
    made = window(64, 8, stages=2)
    made.planes["data"][:, 4:] = 0.0
    made.planes["data"][40:, :4] += 0.6
    settle(made)
    (finding,) = found(made)
    assert "on 4 of 8 ranks" in finding.summary


@pytest.mark.parametrize("every", [2, 3, 4])
def test_a_loader_that_is_late_in_every_nth_step(every: int) -> None:
    (finding,) = found(starve(window(96, 4, noise=0.05), 2.5, 40, every))
    assert 140 <= finding.began_step <= 140 + every


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("seconds", [1.0, 20.0])
def test_the_first_steps_of_an_epoch_are_no_stall(length: int, seconds: float) -> None:
    for newest in range(40, 60):
        made = window(newest, 4, noise=0.1)
        made.planes["data"][40 : 40 + length] += seconds
        settle(made)
        assert found(made) == []


def test_short_epochs_are_no_stall() -> None:
    assert found(starve(window(128, 4, noise=0.1), 3.0, 0, every=10)) == []


def test_the_first_steps_are_not_judged() -> None:
    made = window(12, 4, first_step=0)
    made.flags[0] = StepFlag.FIRST
    made.planes["data"][:3] += 30.0
    settle(made)
    assert found(made) == []


def test_a_stall_that_is_over_is_not_said() -> None:
    made = window(64, 4)
    made.planes["data"][30:60] += 1.0
    settle(made)
    assert found(made) == []


def test_a_loader_that_has_always_been_slow_is_not_news() -> None:
    made = starve(window(64, 4, noise=0.1), 0.6, 0)
    assert found(made, Baseline(0.7, 0.7)) == []
    assert found(made, None) == [], "no past is known"


def test_a_job_that_has_always_waited_for_most_of_its_time_is_named_with_its_cost() -> None:
    """2.1 s of data in a step of 3.1: whatever its first steps were, that is no baseline."""
    made = starve(window(64, 4, noise=0.1), 2.05, 0)
    (finding,) = found(made, Baseline(2.0, 2.0))
    assert "it has since its first steps" in finding.summary
    assert finding.lost_ratio > 0.4


@pytest.mark.parametrize(("steps", "named"), [(7, 0), (8, 1)])
def test_of_steps_of_ten_seconds_eight_are_enough(steps: int, named: int) -> None:
    """Nothing is known of a past, but that it was as slow."""
    for baseline in (None, Baseline(9.0, 9.0)):
        made = starve(window(steps, 4, noise=0.1), 9.0, 0)
        assert len(found(made, baseline)) == named
        assert found(starve(window(steps, 4, noise=0.1), 2.5, 0), baseline) == []


@pytest.mark.parametrize(("steps", "named"), [(13, 0), (16, 1), (23, 1)])
def test_of_steps_of_two_seconds_so_many_are_enough_as_take_half_a_minute(
    steps: int, named: int
) -> None:
    """And each of them in a row must be long."""
    for baseline in (None, Baseline(2.0, 2.0)):
        made = starve(window(steps, 4, noise=0.1), 1.2, 0)
        assert len(found(made, baseline)) == named
        made.planes["data"][-6] = 0.02
        settle(made)
        assert found(made, baseline) == []


def test_a_small_wait_in_every_step_is_named_once_it_has_lasted() -> None:
    made = starve(window(128, 4, noise=0.1), 0.15, 40)
    assert data_stall.detect(made, HEALTHY, LIMITS, 59.0) == []
    (finding,) = data_stall.detect(made, HEALTHY, LIMITS, 60.0)
    assert finding.began_step == 140
    assert 0.08 < finding.lost_ratio < 0.16
    assert data_stall.detect(made, Baseline(0.1, 0.1), LIMITS, 600.0) == [], "no three times"


def test_a_fifth_of_each_step_since_the_first_one_is_named_once_it_has_lasted() -> None:
    made = starve(window(128, 4, noise=0.1), 0.4, 0)
    assert data_stall.detect(made, Baseline(0.4, 0.4), LIMITS, 59.0) == []
    (finding,) = data_stall.detect(made, Baseline(0.4, 0.4), LIMITS, 60.0)
    assert "it has since its first steps" in finding.summary


def test_short_epochs_are_no_stall_however_long_they_go_on() -> None:
    made = starve(window(128, 4, noise=0.1), 3.0, 0, every=10)
    assert data_stall.detect(made, HEALTHY, LIMITS, 600.0) == []


def course(data: list[float], seconds: list[float], loaders: int = 4) -> Course:
    """Buckets of ten steps in which `loaders` of four ranks wait so long for data."""
    work = np.zeros((len(data), len(WORK), 4), dtype=np.float32)
    work[:, WORK.index("data"), :loaders] = np.array(data)[:, None]
    count = len(data)
    each, none = np.full(count, 10), np.zeros((count, 4))
    begun, wait = np.zeros((count, 4, 4), dtype=np.uint8), np.zeros(count)
    seen, first = np.full(none.shape, 10, dtype=np.uint16), np.arange(count) * 10
    held = not_held_up(count)
    return Course(np.array(seconds), each, first, wait, none, work, begun, wait, seen, *held)


@pytest.mark.parametrize("loaders", [1, 4])
def test_how_long_data_have_taken_their_share(loaders: int) -> None:
    assert lasting_seconds(course([0.1, 1.0, 1.0], [10.0] * 3, loaders), LIMITS) == 20.0
    assert lasting_seconds(course([1.0, 1.0, 0.1], [10.0] * 3, loaders), LIMITS) == 0.0
    paused = course([1.0, 1.0, 1.0], [10.0, 60.0, 10.0], loaders)
    assert lasting_seconds(paused, LIMITS) == 80.0, "an evaluation is no wait that is over"
    assert lasting_seconds(course([], []), LIMITS) == 0.0
    assert lasting_seconds(course([0.0], [10.0]), LIMITS) == 0.0, "nobody loads"


def test_the_past_holds_although_the_stall_began_within_it() -> None:
    ratios = np.array([0.05] * 6 + [0.9] * 14)
    baseline = baseline_of(ratios, LIMITS)
    assert baseline is not None
    assert len(found(starve(window(64, 4), 0.6, 40), baseline)) == 1
    assert baseline_of(ratios[:0], LIMITS) is None


def test_ranks_that_vanish_make_it_unknown() -> None:
    made = starve(window(64, 4), 0.6, 40)
    for plane in made.planes.values():
        plane[50:, 3] = np.nan
    assert found(made) != [], "the steps that all reported were long"
    for plane in made.planes.values():
        plane[:, 3] = np.nan
    assert found(made) == []


@settings(max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    ranks=st.integers(2, 16),
    noise=st.floats(0.0, 0.6),
    pause=st.sampled_from(["checkpoint", "eval"]),
)
def test_noise_and_pauses_are_silent(seed: int, ranks: int, noise: float, pause: str) -> None:
    made = window(64, ranks, noise=noise, seed=seed)
    made.planes[pause][::7] += 5.0
    settle(made)
    assert found(made) == []


def test_steps_three_times_as_long_on_a_busy_host_are_silent() -> None:
    """250 windows in which every phase of every step now and then takes three times as long."""
    named = []
    for seed in range(250):
        made = window(64, 4, noise=0.3, seed=seed)
        spikes = np.random.default_rng(seed).random((64, 4)) < 0.1
        for phase in ("data", "forward", "backward"):
            made.planes[phase][spikes] *= 3
        settle(made)
        named += found(made)
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
    made = window(48, ranks)
    for rank, step in waits:
        made.planes["data"][step, rank % ranks] += seconds
    settle(made)
    findings = found(made)
    long = made.planes["data"] >= np.maximum(
        LIMITS.least_share * made.planes["duration"],
        LIMITS.least_ratio * HEALTHY.most * (made.planes["duration"] - made.planes["data"]),
    )
    lately = long[-LIMITS.window_steps // 2 :].any(axis=0).sum()
    assert not findings or lately >= min(LIMITS.least_ranks, ranks)
