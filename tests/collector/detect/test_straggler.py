"""The slow rank is named with its phase and first step, and nobody else ever is."""

from __future__ import annotations

import time

import numpy as np
import pytest

from stepwatch.collector.detect import straggler
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.straggler import WORK_PHASES, RankFacts, detect
from stepwatch.collector.window import Window
from stepwatch.signals.records import StepFlag

from .windows import settle, slow, unknown_facts, window

LIMITS = straggler.LIMITS


def found(made: Window, facts: RankFacts | None = None) -> list[Finding]:
    return detect(made, facts or unknown_facts(len(made.stage)), LIMITS)


@pytest.mark.parametrize("phase", WORK_PHASES)
@pytest.mark.parametrize("rank", range(4))
def test_each_phase_of_each_rank(phase: str, rank: int) -> None:
    made = window(64, 4, stages=2, noise=0.02)
    slow(made, rank, phase, 0.6, since=40)
    (finding,) = found(made)
    assert (finding.rank, finding.phase, finding.began_step) == (rank, phase, 140)
    assert finding.cause == ("slow-data" if phase == "data" else "slow-compute")
    assert f"rank {rank} is slow in {phase} since step 140" in finding.summary
    assert finding.lost_ratio == pytest.approx(0.6 / 1.4, abs=0.06)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("ranks", [4, 8, 16, 64])
def test_sizes_and_stages(ranks: int, stages: int) -> None:
    for rank in {0, ranks // 2, ranks - 1}:
        made = window(64, ranks, stages, noise=0.05, seed=ranks + rank)
        slow(made, rank, "backward", 0.8, since=50)
        assert [(item.rank, item.phase) for item in found(made)] == [(rank, "backward")]


def test_two_ranks() -> None:
    made = window(64, 2)
    slow(made, 1, "forward", 0.5, since=50)
    assert [item.rank for item in found(made)] == [1]


def test_two_at_once_worst_first() -> None:
    made = window(64, 16, stages=2, noise=0.02)
    slow(made, 3, "forward", 0.5, since=50)
    slow(made, 12, "data", 0.9, since=52)
    assert [(item.rank, item.phase) for item in found(made)] == [(12, "data"), (3, "forward")]


def test_a_slow_rank_is_named_once_by_its_worst_phase() -> None:
    made = window(64, 8)
    slow(made, 5, "forward", 0.4, since=50)
    slow(made, 5, "backward", 0.9, since=50)
    assert [(item.rank, item.phase) for item in found(made)] == [(5, "backward")]


def test_certain_trouble_is_named_after_five_steps_and_doubt_after_six() -> None:
    def count(seconds: float) -> int:
        for steps in range(1, 12):
            made = window(40 + steps, 8)
            slow(made, 2, "forward", seconds, since=40)
            if found(made):
                return steps
        return 99

    assert count(0.8) == LIMITS.certain_steps
    assert count(0.3) == LIMITS.least_steps


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_single_ranks_per_stage_against_their_own_past(ranks: int) -> None:
    for rank in range(ranks):
        made = window(64, ranks, stages=ranks, noise=0.03, seed=rank)
        slow(made, rank, "forward", 0.6, since=50)
        assert [(item.rank, item.began_step) for item in found(made)] == [(rank, 150)]


def test_stages_may_differ_in_work() -> None:
    made = window(64, 8, stages=4, noise=0.03)
    for stage in range(4):
        for phase in WORK_PHASES:
            made.planes[phase][:, made.stage == stage] *= 1 + 2 * stage
    settle(made)
    assert found(made) == []


@pytest.mark.parametrize(("ranks", "stages"), [(4, 2), (8, 4), (64, 1), (4, 4)])
def test_noise_is_silent(ranks: int, stages: int) -> None:
    """A thousand windows of work with 20 % noise in every phase."""
    named = [
        finding
        for seed in range(250)
        for finding in found(window(32, ranks, stages, noise=0.2, seed=seed))
    ]
    assert named == []


@pytest.mark.parametrize(("ranks", "stages"), [(4, 1), (8, 2), (4, 4), (2, 2)])
@pytest.mark.parametrize("factor", [2.0, 10.0])
def test_a_slow_down_that_all_share_names_nobody(ranks: int, stages: int, factor: float) -> None:
    made = window(64, ranks, stages, noise=0.05)
    for phase in WORK_PHASES:
        made.planes[phase][40:] *= factor
    settle(made)
    assert found(made) == []


def test_first_steps_are_not_judged() -> None:
    made = window(20, 4, first_step=0)
    made.flags[0] = StepFlag.FIRST
    made.planes["forward"][: LIMITS.warmup_steps, 1] += 20.0
    settle(made)
    assert found(made) == []
    restarted = window(64, 4)
    restarted.planes["forward"][50:53, 1] += 20.0
    restarted.flags[50] = StepFlag.FIRST
    settle(restarted)
    assert found(restarted) == []


@pytest.mark.parametrize("phase", ["checkpoint", "eval"])
def test_checkpoint_and_evaluation_are_not_work(phase: str) -> None:
    made = window(64, 4)
    made.planes[phase][40:, 0] += 5.0
    made.flags[40:] = StepFlag.AFTER_PAUSE
    settle(made)
    assert found(made) == []


def test_three_noisy_steps_are_not_a_straggler() -> None:
    made = window(64, 4)
    made.planes["forward"][60:63, 1] += 3.0
    settle(made)
    assert found(made) == []


def test_a_straggler_that_has_recovered_is_not_named() -> None:
    made = window(64, 4)
    made.planes["forward"][40:60, 1] += 1.0
    settle(made)
    assert found(made) == []


@pytest.mark.parametrize("since", [8, 20, 33, 50, 58])
def test_the_first_step_is_exact_despite_noise_before_it(since: int) -> None:
    made = window(64, 8, noise=0.1, seed=since)
    made.planes["forward"][since - 4, 3] += 0.3
    slow(made, 3, "forward", 0.9, since=since)
    assert [item.began_step for item in found(made)] == [100 + since]


def test_a_step_that_one_rank_has_not_reported_is_not_judged() -> None:
    made = window(64, 4)
    slow(made, 1, "forward", 0.9, since=40)
    for plane in made.planes.values():
        plane[30:, 3] = np.nan
    assert found(made) == [], "rank 3 may be the slowest of all"


def test_times_of_zero_name_nobody() -> None:
    made = window(64, 4)
    for plane in made.planes.values():
        plane[:] = 0.0
    assert found(made) == []


def test_peers_without_any_work_give_no_silly_ratio() -> None:
    made = window(64, 4)
    made.planes["data"][:] = 0.0
    slow(made, 2, "data", 0.9, since=40)
    (finding,) = found(made)
    assert (finding.rank, finding.phase) == (2, "data")
    assert "inf" not in finding.summary


def test_the_run_queue_is_blamed_only_when_it_holds_the_excess() -> None:
    made = window(64, 4)
    slow(made, 1, "forward", 0.9, since=40)
    queue = np.array([0.0, 0.6, 0.0, 0.0])
    (finding,) = found(made, RankFacts(np.ones(4), queue))
    assert finding.cause == "cpu-contention"
    (finding,) = found(made, RankFacts(np.ones(4), np.full(4, 0.6)))
    assert finding.cause == "slow-compute", "all ranks queue alike"
    (finding,) = found(made, unknown_facts(4))
    assert finding.cause == "slow-compute"


def test_too_few_steps_say_nothing() -> None:
    for steps in range(LIMITS.certain_steps):
        made = window(steps, 4)
        if steps:
            slow(made, 1, "forward", 0.9, since=0)
        assert found(made) == []


def test_cost_of_a_large_window(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed, not asserted: `make bench` holds the budget."""
    made = window(128, 1024, stages=4, noise=0.05)
    slow(made, 700, "forward", 0.9, since=100)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        assert [item.rank for item in found(made)] == [700]
        seconds.append(time.perf_counter() - began)
    with capsys.disabled():
        print(f"\nstraggler, 1,024 ranks x 128 steps: median {np.median(seconds) * 1e3:.0f} ms")
