"""Jumps, divergence and plateaus of the loss are found with their step; healthy curves are not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.detect import loss_anomaly
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.collector.detect.loss_anomaly.detector import FEWEST_STEPS
from stepwatch.collector.quantities import quantity
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.arrays import Vector
from stepwatch.signals.records import Kind
from tests.collector.made import JOB, segment, state_rows, step_rows
from tests.collector.state.trackers.metrics.test_metrics import metric_rows, name_rows

LIMITS = loss_anomaly.LIMITS


def curve(steps: int, noise: float = 0.02, seed: int = 0) -> Vector:
    """A healthy run: from 11 nats steeply down, then as a power law, with noise by batch."""
    index = np.arange(steps)
    level = 2.0 * (index / 1000 + 1) ** -0.1 + 9.0 * np.exp(-index / 40)
    noisy: Vector = level * np.random.default_rng(seed).lognormal(0.0, noise, steps)
    return noisy


def findings_of(losses: Vector, first: int = 100, lately: int | None = None) -> list[Finding]:
    steps = np.arange(first, first + len(losses))
    return loss_anomaly.detect(steps, losses, LIMITS, lately)


@pytest.mark.parametrize("onset", [200, 400, 900])
@pytest.mark.parametrize("factor", [1.5, 3.0])
def test_a_jump_that_stays_is_a_spike_with_its_step(onset: int, factor: float) -> None:
    losses = curve(onset + 8, seed=onset)
    losses[onset:] *= factor
    (finding,) = findings_of(losses)
    assert (finding.rank, finding.cause, finding.began_step) == (NO_RANK, "loss-spike", 100 + onset)
    assert f"the loss jumped since step {100 + onset}" in finding.summary


def test_a_spike_is_told_after_five_steps_and_a_huge_one_after_two() -> None:
    def steps_to(factor: float) -> int:
        for count in range(1, 20):
            losses = curve(500 + count)
            losses[500:] *= factor
            if findings_of(losses):
                return count
        return 99

    assert steps_to(1.5) == LIMITS.spike_steps
    assert steps_to(4.0) == FEWEST_STEPS


def test_single_bad_batches_are_no_spike() -> None:
    for end in range(401, 420):
        losses = curve(end)
        losses[400] *= 50
        losses[410:411] *= 3
        assert findings_of(losses, lately=450) == []


def test_a_spike_that_came_back_is_found_where_its_end_was_not_looked_at_before() -> None:
    losses = curve(500)
    losses[480:490] *= 3
    assert findings_of(losses) == []
    for lately in (580, 589):
        (finding,) = findings_of(losses, lately=lately)
        assert (finding.cause, finding.began_step) == ("loss-spike", 580)
        assert "jumped since step 580 until step 589" in finding.summary
        assert finding.summary.endswith("since step 590 it is back")
    assert findings_of(losses, lately=590) == []


def test_a_spike_of_two_steps_is_found_wherever_the_evaluation_falls() -> None:
    for offset in range(12):
        losses = curve(500 + offset)
        losses[498:500] *= 5
        (finding,) = findings_of(losses, lately=590)
        assert (finding.cause, finding.began_step) == ("loss-spike", 598), offset


def test_a_spike_that_stays_has_diverged() -> None:
    losses = curve(500)
    losses[440:] *= 2
    (finding,) = findings_of(losses)
    assert (finding.cause, finding.began_step) == ("loss-divergence", 540)


def test_a_slow_rise_is_a_divergence() -> None:
    losses = curve(1200)
    losses[800:] *= np.linspace(1.0, 1.6, 400)
    (finding,) = findings_of(losses)
    assert finding.cause == "loss-divergence"
    assert 800 <= finding.began_step <= 1000


def test_what_is_not_finite_is_left_to_another_detector() -> None:
    losses = curve(500)
    losses[450:] = np.nan
    losses[300:310] = np.inf
    assert findings_of(losses) == []
    assert findings_of(np.full(500, np.nan)) == []
    assert findings_of(np.zeros(0)) == []


def test_the_start_of_a_run_is_no_trouble() -> None:
    warmup = np.concatenate([np.linspace(10.8, 12.5, 30), 12.5 * np.exp(-np.arange(200) / 60)])
    for end in range(1, len(warmup)):
        assert findings_of(warmup[:end]) == []


def test_an_epoch_boundary_is_a_dent() -> None:
    for epoch in (50, 120, 300):
        losses = curve(1000, noise=0.03)
        for begin in range(epoch, 1000, epoch):
            losses[begin:] *= 0.97
            losses[begin : begin + 10] *= np.linspace(0.93, 1.0, len(losses[begin : begin + 10]))
        for end in range(900, 1000):
            assert findings_of(losses[:end]) == []


def test_a_lower_learning_rate_is_no_trouble() -> None:
    losses = curve(1000)
    losses[700:] *= 0.7
    for end in range(690, 800):
        assert findings_of(losses[:end]) == []


def test_losses_around_zero_and_below() -> None:
    generator = np.random.default_rng(3)
    losses = generator.normal(-2.0, 0.5, 2000)
    assert [
        findings_of(losses[:end]) for end in range(100, 2000, 7) if findings_of(losses[:end])
    ] == []
    losses[1990:] += 10.0
    (finding,) = findings_of(losses)
    assert finding.began_step == 2090


def test_a_plateau_is_told_only_over_thousands_of_steps_and_after_a_descent() -> None:
    horizon = LIMITS.plateau_steps
    falling = np.linspace(4.0, 3.0, horizon)
    stuck = np.concatenate([falling, np.full(horizon, 3.0)])
    noise = np.random.default_rng(0).normal(0.0, 0.02, len(stuck))
    (finding,) = findings_of(stuck + noise)
    assert (finding.cause, finding.began_step) == ("loss-plateau", 100 + horizon)
    assert findings_of((stuck + noise)[: 2 * horizon - 1]) == []
    assert findings_of(np.full(3 * horizon, 3.0) + np.resize(noise, 3 * horizon)) == []
    shown = quantity(finding.evidence[0].value, finding.evidence[0].unit)
    assert shown.endswith("percent") and shown != "-0 percent"
    for end in range(2 * horizon, 16_000, 1500):
        assert findings_of(curve(end)) == [], "a power law"


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(0, 2500),
    noise=st.floats(0.0, 0.5),
    scale=st.floats(1e-6, 1e6),
)
def test_noise_is_silent(seed: int, steps: int, noise: float, scale: float) -> None:
    assert findings_of(scale * curve(steps, noise, seed), lately=steps + 60) == []


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), freedom=st.integers(2, 6))
def test_batches_with_heavy_tails_are_silent(seed: int, freedom: int) -> None:
    generator = np.random.default_rng(seed)
    losses = curve(600, 0.0) + 0.1 * generator.standard_t(freedom, 600)
    assert [end for end in range(70, 600, 13) if findings_of(losses[:end])] == []


def every_length(losses: Vector) -> tuple[int, float] | None:
    """Where the longest run of newest steps begins that lie above those before, and their usual
    level: every length is looked at, with all that a spike asks for."""
    longest = min(LIMITS.history_steps, len(losses) - LIMITS.history_steps)
    for count in range(longest, FEWEST_STEPS - 1, -1):
        tail, previous = losses[-count:], losses[-count - LIMITS.history_steps : -count]
        usual, few = float(np.median(previous)), count < LIMITS.spike_steps
        around = np.median(np.abs(previous - usual))
        changes = np.median(np.abs(np.diff(previous))) / np.sqrt(2)
        height, width = (LIMITS.spike_steps, 1) if few else (1, LIMITS.spike_steps)
        noise = LIMITS.least_errors * 1.4826 * max(around, changes)
        over = tail > usual + height * max(noise, LIMITS.least_ratio * abs(usual))
        lately = over.all() if few else over.mean() >= 0.8 and over[-3:].all()
        reached = np.convolve(previous, np.full(width, 1.0 / width), mode="valid").max()
        if over[0] and lately and np.median(tail) > reached:
            return len(losses) - count, usual
    return None


@given(
    steps=st.integers(100, 240),
    noise=st.sampled_from([0.0, 0.02, 0.3]),
    jumps=st.lists(st.tuples(st.integers(1, 80), st.floats(0.2, 6.0)), max_size=4),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_a_look_at_few_lengths_finds_what_a_look_at_all_does(
    steps: int, noise: float, jumps: list[tuple[int, float]], seed: int
) -> None:
    losses = curve(steps, noise, seed)
    for back, factor in jumps:
        losses[-back:] *= factor
    expected = every_length(losses)
    jumped = [
        finding
        for finding in findings_of(losses, first=0)
        if "before step" in finding.evidence[0].against
    ]
    if expected is not None:
        (finding,) = jumped
        assert finding.began_step == expected[0]
        assert f"baseline {expected[1]:.4g}" in finding.summary
    else:
        assert all(finding.cause == "loss-divergence" for finding in jumped)


@pytest.mark.parametrize(
    ("rates", "against"),
    [
        ({0: 3e-4, 64: 3e-4}, "unchanged"),
        ({0: 3e-4, 64: 3e-4, 396: 3e-3, 405: 7.0}, "since step 396, before it 0.0003"),
        ({}, None),
    ],
)
def test_a_spike_names_the_learning_rate(rates: dict[int, float], against: str | None) -> None:
    losses = curve(410)
    losses[400:] *= 3
    rows = step_rows(range(len(losses)), [0])
    rows["loss"] = losses
    tables = {Kind.STEP: rows, Kind.RANK_STATE: state_rows([0], 1, 80.0)}
    if rates:
        tables[Kind.METRIC_NAME] = name_rows({1: "lr"}, ranks=[0])
        tables[Kind.METRIC] = np.concatenate([metric_rows(s, [r]) for s, r in rates.items()])
    job = LiveJob(JOB)
    job.apply(segment(1, tables), Received(0.0, 0.0))
    (finding,) = loss_anomaly.find(DetectionContext(job, 0.0))
    told = [(fact.value, fact.against) for fact in finding.evidence if fact.name == "learning rate"]
    expected = 3e-3 if 396 in rates else 3e-4
    assert told == ([] if against is None else [(expected, against)])
