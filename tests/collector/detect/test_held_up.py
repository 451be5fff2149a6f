"""Pauses and stalls in turns, and waits of all ranks now and then, are what the job loses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.collector.detect.held_up import LIMITS, detect
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.signals.arrays import Cube
from stepwatch.signals.names import Cause, FindingKind

from .straggler.simulated import advance, heavy, lognormal, two_lengths, window_of, work_of

STEP = 0.5
DATA, BACKWARD, OTHER = (WORK.index(name) for name in ("data", "backward", "other"))


def found_in(work: Cube, stages: int = 1) -> list[Finding]:
    ranks = work.shape[2]
    evidence, stage = RankEvidence(), (np.arange(ranks) * stages // ranks).astype(np.int16)
    for first in range(0, work.shape[1], 50):
        advance(evidence, window_of(work[:, first : first + 50], stage, first))
    return detect(evidence.buckets.course(), stage, LIMITS)


def healthy(ranks: int = 4, steps: int = 500, seed: int = 0) -> Cube:
    return work_of(lognormal(0.05), np.random.default_rng(seed), steps, ranks, STEP)


def in_turns(work: Cube, phase: int, every: int, seconds: float, ranks: int | None = None) -> Cube:
    """One step in so many pauses at one rank, any of the first `ranks`."""
    dice = np.random.default_rng(1)
    hit = np.flatnonzero(dice.random(work.shape[1]) * every < 1.0)
    work[phase, hit, dice.integers(ranks or work.shape[2], size=len(hit))] += seconds
    return work


@pytest.mark.parametrize("ranks", [2, 4, 8, 64])
@pytest.mark.parametrize("phase", [BACKWARD, OTHER])
def test_pauses_in_turns_are_what_the_job_loses_and_no_ranks_fault(ranks: int, phase: int) -> None:
    work = in_turns(healthy(ranks), phase, 6, 1.6)
    lost = (work.sum(axis=0) - healthy(ranks).sum(axis=0)).sum()
    (finding,) = found_in(work)
    assert (finding.kind, finding.rank) == (FindingKind.THROUGHPUT_REGRESSION, NO_RANK)
    assert finding.summary.startswith("ranks pause in turns since step ")
    assert finding.phase == WORK[phase]
    assert finding.lost_ratio == pytest.approx(lost / work.sum(axis=0).max(axis=1).sum(), abs=0.06)


@pytest.mark.parametrize("stages", [1, 2])
def test_loaders_that_stall_in_turns_are_a_data_stall(stages: int) -> None:
    """In a pipeline the ranks of the first stage alone load: of two, one that waits is not both."""
    work = healthy(8 if stages == 1 else 4)
    (finding,) = found_in(in_turns(work, DATA, 5, 1.2, work.shape[2] // stages), stages)
    assert (finding.kind, finding.cause) == (FindingKind.DATA_STALL, Cause.SLOW_DATA)
    assert finding.summary.startswith("loaders stall in turns since step ")
    assert finding.lost_ratio == pytest.approx(0.3, abs=0.06)


def test_what_one_rank_explains_is_its_own() -> None:
    work = healthy()
    work[BACKWARD, ::6, 2] += 1.6
    assert found_in(work) == []


def test_waits_of_all_ranks_where_epochs_begin_are_said_at_their_cost() -> None:
    dice = np.random.default_rng(2)
    work = healthy()
    work[DATA, 20::40] += 12.0 * dice.lognormal(0.0, 0.2, work[DATA, 20::40].shape)
    (finding,) = found_in(work)
    assert (finding.kind, finding.rank, finding.subject) == (
        FindingKind.DATA_STALL,
        -1,
        "now and then",
    )
    assert "as where an epoch begins" in finding.summary
    assert finding.lost_ratio == pytest.approx(0.35, abs=0.1)


def test_cheap_epochs_and_rare_stalls_are_no_loss_that_matters() -> None:
    work = healthy()
    work[DATA, 20::40] += 1.0
    assert found_in(work) == []
    assert found_in(in_turns(healthy(), DATA, 50, 1.5)) == []


def test_what_is_over_is_not_found_any_more() -> None:
    work = in_turns(healthy(steps=200), BACKWARD, 6, 1.6)
    assert found_in(work) != []
    assert found_in(np.concatenate([work, healthy(steps=200)], axis=1)) == []


@pytest.mark.parametrize("noise", [lognormal(0.3), heavy, two_lengths])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_work_that_differs_by_nature_is_no_pause(
    noise: Callable[[np.random.Generator, int, int], Cube], ranks: int
) -> None:
    for seed in range(3):
        assert found_in(work_of(noise, np.random.default_rng(seed), 800, ranks, STEP)) == []


def test_how_many_steps_are_taken_at_once_makes_no_difference() -> None:
    work, stage = in_turns(healthy(), DATA, 5, 1.2), np.zeros(4, dtype=np.int16)
    work[DATA, 20::40] += 12.0
    courses = []
    for size in (1, 7, 500):
        evidence = RankEvidence()
        for first in range(0, work.shape[1], size):
            advance(evidence, window_of(work[:, first : first + size], stage, first))
        courses.append(evidence.buckets.course())
    for history in courses[1:]:
        for name in ("lost_to_one", "lost_to_data", "times"):
            assert np.array_equal(getattr(history, name), getattr(courses[0], name)), name
