from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from . import seeds
from .history import BETWEEN_SECONDS, CLASS_JOBS, earlier_runs
from .plan import FaultKind, History, Shape
from .sampler import sample, stretch


def test_the_same_seed_makes_the_same_scenario() -> None:
    assert sample(4711) == sample(4711)
    assert sample(4711) != sample(4713)


def test_no_seed_to_report_from_can_be_one_to_tune_on() -> None:
    tuned = set(seeds.tuning_seeds(5000))
    drawn = [seeds.report_seed() for _ in range(5000)]
    assert tuned.isdisjoint(drawn)
    assert not any(map(seeds.is_tuning, drawn))
    assert all(map(seeds.is_tuning, tuned))


def test_each_report_has_seeds_of_its_own() -> None:
    assert len({seeds.report_seed() for _ in range(200)}) == 200
    assert seeds.report_seed(lambda bits: (1 << bits) - 1) == (1 << 41) - 1


def test_late_batches_cost_a_healthy_job_little() -> None:
    """Half of the jobs have epochs, half have loaders that stall."""
    jobs = list(map(sample, range(400)))
    for part in ("epoch", "stall"):
        selection = [job for job in jobs if getattr(job.loads, f"{part}_every")]
        assert 160 <= len(selection) <= 240
        for job in selection:
            every, seconds = (getattr(job.loads, f"{part}_{name}") for name in ("every", "seconds"))
            assert 0.0 < seconds <= 0.021 * every * job.step_seconds


def test_a_stretch_is_a_healthy_job_of_up_to_eight_hours() -> None:
    lengths = [sample_of.seconds for sample_of in map(stretch, range(200))]
    assert 900.0 <= min(lengths) < 1800.0
    assert 6 * 3600.0 < max(lengths) <= 8 * 3600.0
    assert not any(stretch(seed).faults for seed in range(50))


def test_about_a_third_of_all_scenarios_is_healthy() -> None:
    healthy = sum(not sample(seed).faults for seed in range(900))
    assert 240 <= healthy <= 360


@given(st.integers(0, 2**41), st.none() | st.sampled_from(list(FaultKind)))
def test_a_scenario_fits_together(seed: int, kind: FaultKind | None) -> None:
    scenario = sample(seed, kind)
    assert scenario.ranks % scenario.nodes == 0
    assert scenario.pauses.seconds <= 60.0
    if scenario.shape is Shape.TENSOR:
        assert scenario.ranks % 2 == 0
    for fault in scenario.faults:
        assert 0 <= min(fault.ranks) <= max(fault.ranks) < scenario.ranks
        assert fault.onset + 60.0 < scenario.seconds
    if kind is not None:
        assert [fault.kind for fault in scenario.faults] == [kind]


@pytest.mark.parametrize("kind", FaultKind)
def test_a_class_can_be_asked_for(kind: FaultKind) -> None:
    assert sample(2, kind).faults[0].kind is kind
    assert not sample(2, healthy=True).faults


def test_a_quarter_of_what_slows_a_job_ends_long_before_it() -> None:
    jobs = [sample(seed, FaultKind.SLOW_COMPUTE) for seed in range(400)]
    ending = [job for job in jobs if math.isfinite(job.faults[0].seconds)]
    assert 70 <= len(ending) <= 130
    for job in ending:
        (fault,) = job.faults
        assert fault.onset + fault.seconds + 120.0 <= job.seconds


def test_of_all_jobs_a_third_each_has_an_earlier_attempt_or_others_of_its_class() -> None:
    histories = [sample(seed).history for seed in range(900)]
    assert all(240 <= histories.count(history) <= 360 for history in History)


@pytest.mark.parametrize(
    ("history", "runs"), [(History.NONE, 0), (History.ATTEMPT, 1), (History.CLASS, CLASS_JOBS)]
)
def test_what_ran_before_is_healthy_and_over(history: History, runs: int) -> None:
    scenario = replace(sample(2, FaultKind.SLOW_LINK), history=history)
    previous = earlier_runs(scenario)
    assert len(previous) == runs
    assert len({run.seed for run in previous} | {scenario.seed}) == runs + 1, "other noise"
    for run in previous:
        assert not run.faults and run.ends is not None
        assert run.seconds > 22 * run.step_seconds + BETWEEN_SECONDS
        assert (run.job == scenario.job) == (history is History.ATTEMPT)
