"""Loaders that stall in turns are a stall of the job; epochs, one slow loader and noise are not."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect import data_stall
from stepwatch.collector.detect.data_stall.in_turns import detect, late_batches, may_be
from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.collector.state.trackers.steps.step_window import Window

from .windows import settle, slow, window

LIMITS = data_stall.LIMITS


def found(made: Window) -> list[Finding]:
    return detect(made, LIMITS) if may_be(made, LIMITS) else []


def stalling(made: Window, share: float, seconds: float, seed: int = 1, ranks: int = 0) -> Window:
    """One step in so many waits `seconds` for the batch of a rank, any of the first `ranks`."""
    dice, shape = np.random.default_rng(seed), made.planes["data"].shape
    hit = np.flatnonzero(dice.random(shape[0]) < share)
    made.planes["data"][hit, dice.integers(ranks or shape[1], size=len(hit))] += seconds
    settle(made)
    return made


@pytest.mark.parametrize(
    ("ranks", "share", "seconds"), [(2, 0.2, 1.0), (4, 0.1, 2.0), (64, 1, 0.3)]
)
def test_a_job_that_waits_for_one_rank_or_another(ranks: int, share: float, seconds: float) -> None:
    (finding,) = found(stalling(window(256, ranks, noise=0.03), share, seconds))
    assert (finding.kind.value, finding.rank, finding.cause.value) == (
        "data-stall",
        NO_RANK,
        "slow-data",
    )
    lost = share * seconds / (0.85 + share * seconds)
    assert finding.lost_ratio == pytest.approx(lost, rel=0.3)
    assert f"{finding.lost_ratio:.0%} of its throughput" in finding.summary
    assert "on one rank or another since step 1" in finding.summary


def test_the_first_stage_of_a_pipeline_loads_for_all() -> None:
    made = window(256, 8, stages=4, noise=0.1)
    made.planes["data"][:, 2:] = 0.0
    (finding,) = found(stalling(made, 0.15, 1.5, ranks=2))
    assert "on 2 of 8 ranks" in finding.summary


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_loader_of_one_rank_is_a_straggler(ranks: int) -> None:
    made = window(256, ranks, noise=0.1)
    slow(made, 1, "data", 2.0, 0)
    assert found(made) == []
    made = window(256, ranks, noise=0.1)
    made.planes["data"][::7, 1] += 2.0
    made.planes["data"][::40, 0] += 2.0
    settle(made)
    assert found(made) == []


def test_epochs_are_none_however_unevenly_they_begin() -> None:
    made = window(256, 4, noise=0.1)
    dice = np.random.default_rng(0)
    made.planes["data"][::16] += 4.0 * dice.lognormal(0.0, 0.05, made.planes["data"][::16].shape)
    settle(made)
    assert found(made) == []


@pytest.mark.parametrize("ranks", [2, 8, 512])
def test_noise_is_none(ranks: int) -> None:
    assert found(window(256, ranks, noise=0.4)) == []


def test_what_costs_less_or_is_over_is_none() -> None:
    assert found(stalling(window(256, 4, noise=0.1), 0.05, 1.0)) == []
    made = window(256, 4, noise=0.1)
    stalling(made.at(np.arange(128)), 0.2, 2.0)
    made.planes["data"][:128] = stalling(window(128, 4), 0.2, 2.0).planes["data"]
    settle(made)
    assert found(made) == []


def test_a_host_that_is_busy_for_less_than_a_minute_is_none() -> None:
    assert found(stalling(window(48, 4, noise=0.1), 0.3, 0.5)) == []


def test_a_batch_costs_what_its_step_would_be_shorter_by() -> None:
    made = window(4, 2)
    made.planes["forward"][:] = 1.5 - 0.8 + 0.25
    made.planes["data"][1, 0] += 1.0
    made.planes["forward"][1, 1] += 0.5
    settle(made)
    late = late_batches(made, LIMITS)
    assert (late.at.tolist(), late.ranks.tolist()) == ([1], [0])
    assert late.by == pytest.approx(1.0)
    assert late.lost == pytest.approx(0.5)


def test_a_single_process_has_no_turns() -> None:
    assert found(stalling(window(256, 1), 0.2, 2.0)) == []
