"""The slow rank is named with its phase and first step, and nobody else ever is."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.detect import straggler
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.peers import FEW, peer_seconds, peers_of
from stepwatch.collector.detect.steps import FEWEST_CERTAIN
from stepwatch.collector.detect.straggler import RankFacts, detect
from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.collector.state.trackers.steps.step_history import WARMUP_STEPS
from stepwatch.collector.statistics.tails import at_least
from stepwatch.signals.records import StepFlag

from .healthy import KINDS, healthy
from .windows import settle, slow, unknown_facts, window

LIMITS = straggler.LIMITS


def findings_of(step_window: Window, facts: RankFacts | None = None) -> list[Finding]:
    return detect(step_window, facts or unknown_facts(len(step_window.stage)), LIMITS)


@pytest.mark.parametrize("phase", WORK)
@pytest.mark.parametrize("rank", range(4))
def test_each_phase_of_each_rank(phase: str, rank: int) -> None:
    step_window = window(64, 4, stages=2, noise=0.02)
    slow(step_window, rank, phase, 0.6, since=40)
    (finding,) = findings_of(step_window)
    assert (finding.rank, finding.phase, finding.began_step) == (rank, phase, 140)
    assert finding.cause == ("slow-data" if phase == "data" else "slow-compute")
    assert f"rank {rank} is slow in {phase} since step 140" in finding.summary
    assert finding.lost_ratio == pytest.approx(0.6 / 1.4, abs=0.06)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("ranks", [4, 8, 16, 64])
def test_sizes_and_stages(ranks: int, stages: int) -> None:
    for rank in {0, ranks // 2, ranks - 1}:
        step_window = window(64, ranks, stages, noise=0.05, seed=ranks + rank)
        slow(step_window, rank, "backward", 0.8, since=50)
        assert [(item.rank, item.phase) for item in findings_of(step_window)] == [
            (rank, "backward")
        ]


def test_two_ranks() -> None:
    step_window = window(64, 2)
    slow(step_window, 1, "forward", 0.5, since=50)
    assert [item.rank for item in findings_of(step_window)] == [1]


def test_two_at_once_worst_first() -> None:
    step_window = window(64, 16, stages=2, noise=0.02)
    slow(step_window, 3, "forward", 0.5, since=50)
    slow(step_window, 12, "data", 0.9, since=52)
    assert [(item.rank, item.phase) for item in findings_of(step_window)] == [
        (12, "data"),
        (3, "forward"),
    ]


def test_a_slow_rank_is_named_once_by_its_worst_phase() -> None:
    step_window = window(64, 8)
    slow(step_window, 5, "forward", 0.4, since=50)
    slow(step_window, 5, "backward", 0.9, since=50)
    assert [(item.rank, item.phase) for item in findings_of(step_window)] == [(5, "backward")]


def test_certain_trouble_is_named_after_five_seconds_and_doubt_after_six_steps() -> None:
    """A usual step takes one second."""

    def count(seconds: float, phase: str = "forward") -> int:
        for steps in range(1, 12):
            step_window = window(40 + steps, 8)
            slow(step_window, 2, phase, seconds, since=40)
            if findings_of(step_window):
                return steps
        return 99

    assert count(0.8) == FEWEST_CERTAIN + 1
    assert count(20.0) == FEWEST_CERTAIN
    assert count(20.0, "data") == FEWEST_CERTAIN + 1
    assert count(0.2) == LIMITS.least_steps


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_single_ranks_per_stage_against_their_own_past(ranks: int) -> None:
    for rank in range(ranks):
        step_window = window(64, ranks, stages=ranks, noise=0.03, seed=rank)
        slow(step_window, rank, "forward", 0.6, since=50)
        assert [(item.rank, item.began_step) for item in findings_of(step_window)] == [(rank, 150)]


def test_stages_may_differ_in_work() -> None:
    step_window = window(64, 8, stages=4, noise=0.03)
    for stage in range(4):
        for phase in WORK:
            step_window.planes[phase][:, step_window.stage == stage] *= 1 + 2 * stage
    settle(step_window)
    assert findings_of(step_window) == []


@pytest.mark.parametrize(("ranks", "stages"), [(4, 2), (8, 4), (64, 1), (4, 4)])
def test_noise_is_silent(ranks: int, stages: int) -> None:
    """A thousand windows of work with 20 % noise in every phase."""
    named = [
        finding
        for seed in range(250)
        for finding in findings_of(window(32, ranks, stages, noise=0.2, seed=seed))
    ]
    assert named == []


@pytest.mark.parametrize(("ranks", "stages"), [(4, 1), (8, 2), (4, 4), (2, 2)])
@pytest.mark.parametrize("factor", [2.0, 10.0])
def test_a_slow_down_that_all_share_names_nobody(ranks: int, stages: int, factor: float) -> None:
    step_window = window(64, ranks, stages, noise=0.05)
    for phase in WORK:
        step_window.planes[phase][40:] *= factor
    settle(step_window)
    assert findings_of(step_window) == []


def test_first_steps_are_not_judged() -> None:
    step_window = window(20, 4, first_step=0)
    step_window.flags[0] = StepFlag.FIRST
    step_window.planes["forward"][:WARMUP_STEPS, 1] += 20.0
    settle(step_window)
    assert findings_of(step_window) == []
    restarted = window(64, 4)
    restarted.planes["forward"][50:53, 1] += 20.0
    restarted.flags[50] = StepFlag.FIRST
    settle(restarted)
    assert findings_of(restarted) == []


@pytest.mark.parametrize("phase", ["checkpoint", "eval"])
def test_checkpoint_and_evaluation_are_not_work(phase: str) -> None:
    step_window = window(64, 4)
    step_window.planes[phase][40:, 0] += 5.0
    step_window.flags[40:] = StepFlag.AFTER_PAUSE
    settle(step_window)
    assert findings_of(step_window) == []


def test_three_noisy_steps_are_not_a_straggler() -> None:
    step_window = window(64, 4)
    step_window.planes["forward"][60:63, 1] += 3.0
    settle(step_window)
    assert findings_of(step_window) == []


def test_a_straggler_that_has_recovered_is_not_named() -> None:
    step_window = window(64, 4)
    step_window.planes["forward"][40:60, 1] += 1.0
    settle(step_window)
    assert findings_of(step_window) == []


@pytest.mark.parametrize("since", [8, 20, 33, 50, 58])
def test_the_first_step_is_exact_despite_noise_before_it(since: int) -> None:
    step_window = window(64, 8, noise=0.1, seed=since)
    step_window.planes["forward"][since - 4, 3] += 0.3
    slow(step_window, 3, "forward", 0.9, since=since)
    assert [item.began_step for item in findings_of(step_window)] == [100 + since]


def test_the_first_step_is_found_though_the_peer_had_a_long_one_too() -> None:
    step_window = window(64, 4, stages=2, noise=0.05)
    slow(step_window, 1, "forward", 0.8, since=50)
    step_window.planes["forward"][50, 0] += 0.6
    step_window.planes["forward"][47, :2] += 0.6  # a long step of both before it began
    settle(step_window)
    assert [(item.rank, item.began_step) for item in findings_of(step_window)] == [(1, 150)]


def test_a_step_that_one_rank_has_not_reported_is_not_judged() -> None:
    step_window = window(64, 4)
    slow(step_window, 1, "forward", 0.9, since=40)
    for plane in step_window.planes.values():
        plane[30:, 3] = np.nan
    assert findings_of(step_window) == [], "rank 3 may be the slowest of all"


def test_times_of_zero_name_nobody() -> None:
    step_window = window(64, 4)
    for plane in step_window.planes.values():
        plane[:] = 0.0
    assert findings_of(step_window) == []


def test_peers_without_any_work_give_no_silly_ratio() -> None:
    step_window = window(64, 4)
    step_window.planes["data"][:] = 0.0
    slow(step_window, 2, "data", 0.9, since=40)
    (finding,) = findings_of(step_window)
    assert (finding.rank, finding.phase) == (2, "data")
    assert "inf" not in finding.summary


def test_on_a_node_under_pressure_a_part_of_the_excess_on_the_run_queue_is_the_cause() -> None:
    step_window = window(30, 4)
    slow(step_window, 1, "forward", 0.6, since=10)
    queue, cpu = np.array([0.25, 0.4, 0.26, 0.24]), np.full(4, 0.5)
    (finding,) = findings_of(step_window, RankFacts(cpu, queue))
    assert finding.cause == "cpu-contention"
    (finding,) = findings_of(step_window, RankFacts(cpu, queue - 0.2))
    assert finding.cause == "slow-compute", "a few percent are usual"
    (finding,) = findings_of(step_window, RankFacts(np.array([0.4, 0.8, 0.4, 0.4]), queue))
    assert finding.cause == "slow-compute", "it has more to do"
    (finding,) = findings_of(step_window, RankFacts(cpu, np.full(4, 0.4)))
    assert finding.cause == "slow-compute", "its peers wait for CPUs as long"


def test_a_single_process_is_compared_with_itself_and_has_no_peers() -> None:
    step_window = window(64, 1)
    slow(step_window, 0, "forward", 0.9, since=40)
    (finding,) = findings_of(step_window)
    assert finding.rank == 0
    assert "its baseline 250 ms" in finding.summary
    texts = " ".join((finding.summary, *(f"{row.name} {row.against}" for row in finding.evidence)))
    assert "peer" not in texts and "median rank" not in texts


def test_the_run_queue_is_blamed_only_when_it_holds_the_excess() -> None:
    step_window = window(64, 4)
    slow(step_window, 1, "forward", 0.9, since=40)
    queue = np.array([0.0, 0.6, 0.0, 0.0])
    (finding,) = findings_of(step_window, RankFacts(np.ones(4), queue))
    assert finding.cause == "cpu-contention"
    (finding,) = findings_of(step_window, RankFacts(np.ones(4), np.full(4, 0.6)))
    assert finding.cause == "slow-compute", "all ranks queue alike"
    (finding,) = findings_of(step_window, unknown_facts(4))
    assert finding.cause == "slow-compute"


def test_one_long_pause_of_a_rank_is_no_slow_rank() -> None:
    step_window = window(64, 4, noise=0.1)
    step_window.planes["forward"][50:57, 2] += 0.9
    settle(step_window)
    assert findings_of(step_window) == []


def test_occasional_slowness_that_stopped_is_not_named() -> None:
    step_window = window(80, 4, noise=0.1)
    step_window.planes["forward"][20:60:3, 2] += 0.9
    settle(step_window)
    assert findings_of(step_window) == []


@given(st.integers(0, 40), st.floats(0.0, 1.0), st.integers(1, 40))
def test_the_tail_of_the_binomial(count: int, rate: float, trials: int) -> None:
    tail = at_least(count, trials, rate)
    assert 0.0 <= tail <= 1.0 + 1e-9
    assert at_least(0, trials, rate) == pytest.approx(1.0)
    assert tail >= at_least(count + 1, trials, rate)


@pytest.mark.parametrize(("ranks", "stages"), [(2, 2), (4, 1), (4, 2), (4, 4), (8, 2), (64, 4)])
@pytest.mark.parametrize("kind", KINDS)
def test_healthy_runs_that_look_troubled_name_nobody(kind: str, ranks: int, stages: int) -> None:
    named = [
        (seed, item.summary)
        for seed in range(100)
        for item in findings_of(healthy(kind, ranks, stages, seed))
    ]
    assert named == []


def test_the_past_of_a_rank_alone_is_not_its_trouble() -> None:
    step_window = window(128, 4, stages=4, noise=0.05)
    past = {phase: np.median(step_window.planes[phase], axis=0).astype(float) for phase in WORK}
    slow(step_window, 2, "forward", 0.6, since=0)
    assert findings_of(step_window) == [], "without its baseline, it has always been like this"
    (finding,) = detect(step_window, unknown_facts(4), LIMITS, past)
    assert (finding.rank, finding.phase, finding.began_step) == (2, "forward", 100)
    unknown = {phase: np.where(np.arange(4) == 2, np.nan, past[phase]) for phase in WORK}
    assert detect(step_window, unknown_facts(4), LIMITS, unknown) == []


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_change_that_all_share_long_after_the_past_names_nobody(ranks: int) -> None:
    step_window = window(64, ranks, stages=ranks, noise=0.1)
    past = {phase: step_window.planes[phase].mean(axis=0).astype(float) for phase in WORK}
    for phase in WORK:
        step_window.planes[phase][:] *= 3.0
    settle(step_window)
    assert detect(step_window, unknown_facts(ranks), LIMITS, past) == []


def test_more_stages_than_a_pipeline_has_say_nothing() -> None:
    step_window = window(30, 1000)
    slow(step_window, 3, "forward", 0.9, since=0)
    assert [item.rank for item in findings_of(step_window)] == [3]
    step_window.stage[:] = np.arange(1000)
    assert findings_of(step_window) == []


@given(
    st.lists(st.integers(-1, 4), min_size=2, max_size=24),
    st.integers(0, 2**32 - 1),
)
def test_peers_are_the_others_of_the_stage(stages: list[int], seed: int) -> None:
    self_seconds = np.random.default_rng(seed).integers(0, 5, (3, len(stages))).astype(float)
    stage = np.array(stages, dtype=np.int16)
    peers = peers_of(stage)
    assert peers is not None
    seconds = peer_seconds(self_seconds, peers, np.ones(len(stages)))
    for rank, number in enumerate(stages):
        members = np.flatnonzero(stage == number)
        peer_ranks = np.delete(np.arange(len(stages)), rank)
        if len(members) == 1:
            ordered = np.sort(self_seconds[:, peer_ranks], axis=1)
            expected = np.maximum(ordered[:, (len(peer_ranks) - 1) // 2], 1.0)
        elif len(members) > FEW:
            expected = np.median(self_seconds[:, members], axis=1)
        else:
            expected = np.median(self_seconds[:, members[members != rank]], axis=1)
        np.testing.assert_allclose(seconds[:, rank], expected)


def test_too_few_steps_say_nothing() -> None:
    """Steps of 1.9 s: three take 5 s."""
    for steps in range(3):
        step_window = window(steps, 4)
        if steps:
            slow(step_window, 1, "forward", 0.9, since=0)
        assert findings_of(step_window) == []


def test_cost_of_a_large_window(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed, not asserted: `make bench` holds the budget."""
    step_window = window(128, 1024, stages=4, noise=0.05)
    slow(step_window, 700, "forward", 0.9, since=100)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        assert [item.rank for item in findings_of(step_window)] == [700]
        seconds.append(time.perf_counter() - began)
    with capsys.disabled():
        print(f"\nstraggler, 1,024 ranks x 128 steps: median {np.median(seconds) * 1e3:.0f} ms")
