"""A save far slower than usual is named while it lasts; healthy saves are not, nor the first."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.detect import checkpoint_stall
from stepwatch.collector.detect.checkpoint_stall import Run, Saving, detect
from stepwatch.collector.detect.finding import NO_RANK, Finding

LIMITS = checkpoint_stall.LIMITS
HEALTHY = Run([0.9, 0.3, 0.4, 0.3], 2.0, 300.0, 0.5)


def saving(
    elapsed: float,
    ended_ago: float = math.nan,
    rank_seconds: list[float] | None = None,
    failed: int = 0,
    reason: str = "",
) -> Saving:
    ago = elapsed + (0.0 if math.isnan(ended_ago) else ended_ago)
    ranks = np.array(rank_seconds or [elapsed] * 4)
    return Saving(200, elapsed, ago, ended_ago, ranks, failed, reason)


def findings_of(checkpoint: Saving, run: Run = HEALTHY) -> list[Finding]:
    return detect(checkpoint, run, LIMITS)


@pytest.mark.parametrize("rank", range(4))
def test_a_save_that_lasts_names_the_rank_that_the_others_wait_for(rank: int) -> None:
    rank_seconds = [0.3] * 4
    rank_seconds[rank] = 4.0
    (finding,) = findings_of(saving(4.0, rank_seconds=rank_seconds))
    assert (finding.rank, finding.phase, finding.cause) == (rank, "checkpoint", "slow-storage")
    assert finding.summary == (
        "the checkpoint of step 200 has held the job up for 4.0 s (usual 0.30 s); "
        f"rank {rank} is slowest"
    )
    assert (finding.lost_ratio, finding.began_ago_seconds) == (1.0, 4.0)


def test_when_all_are_slow_nobody_is_named() -> None:
    (finding,) = findings_of(saving(4.0, rank_seconds=[4.0, 3.8, 4.0, 3.9]))
    assert finding.rank == NO_RANK
    (finding,) = findings_of(saving(4.0, rank_seconds=[4.0, math.nan, math.nan, math.nan]))
    assert finding.rank == NO_RANK, "most are not known"
    (finding,) = findings_of(saving(4.0, rank_seconds=[4.0, math.nan]))
    assert finding.rank == NO_RANK, "there is nothing to hold it against"


def test_it_is_told_for_a_while_after_it_is_over() -> None:
    (finding,) = findings_of(saving(4.0, ended_ago=5.0))
    assert "held the job up" in finding.summary and finding.lost_ratio == 0.0
    assert findings_of(saving(4.0, ended_ago=LIMITS.shown_seconds)) == []


def test_it_is_said_within_seconds_of_what_is_usual() -> None:
    seconds = [tenth / 10 for tenth in range(100) if findings_of(saving(tenth / 10))]
    assert seconds[0] == pytest.approx(0.3 + LIMITS.least_excess_seconds, abs=0.11)


def test_the_first_save_may_take_its_time() -> None:
    new = Run([], 40.0, 60.0, 0.5)
    assert findings_of(saving(40.0), new) == []
    assert len(findings_of(saving(LIMITS.first_seconds + 1), new)) == 1


def test_a_slow_first_save_is_no_measure_where_there_are_others() -> None:
    assert checkpoint_stall.usual_seconds(Run([60.0, 0.4], 60.4, 300.0, 0.5), LIMITS) == 0.4
    assert checkpoint_stall.usual_seconds(Run([60.0], 60.0, 300.0, 0.5), LIMITS) == 60.0


def test_stalls_do_not_become_usual() -> None:
    run = Run([0.4] * 4 + [4.0] * 8, 33.6, 300.0, 0.5)
    assert len(findings_of(saving(4.0), run)) == 1


def test_where_steps_are_long_two_seconds_are_nothing() -> None:
    assert findings_of(saving(20.0), Run([0.5] * 4, 2.0, 6000.0, 30.0)) == []
    assert len(findings_of(saving(40.0), Run([0.5] * 4, 2.0, 6000.0, 30.0))) == 1


def test_large_models_save_for_long() -> None:
    run = Run([90.0, 80.0, 85.0], 255.0, 100_000.0, 5.0)
    assert findings_of(saving(200.0), run) == []
    assert len(findings_of(saving(260.0), run)) == 1


def test_a_failed_save_is_told_with_its_reason() -> None:
    (finding,) = findings_of(saving(0.3, 1.0, failed=1, reason="No space left on device"))
    assert (finding.rank, finding.subject, finding.cause) == (NO_RANK, "failed", "disk-full")
    assert finding.summary == (
        "the checkpoint of step 200 failed on 1 of 4 ranks: No space left on device"
    )
    (failure_finding,) = findings_of(saving(0.3, 1.0, failed=1, reason="ValueError: no such layer"))
    assert failure_finding.cause == "exception"


def test_saves_that_take_half_of_the_run_from_the_first_on_are_a_finding_after_a_minute() -> None:
    slow, counts = saving(6.0, ended_ago=5.0), range(1, 12)
    runs = [Run([6.0] * (count - 1), 6.0 * count, 12.0 * count, 0.1) for count in counts]
    shares = [count for count, run in zip(counts, runs, strict=True) if findings_of(slow, run)]
    assert shares == list(range(7, 12)), "six saves beside the first one cost half a minute"
    (finding,) = findings_of(slow, runs[-1])
    assert (finding.subject, finding.lost_ratio) == ("share", 0.5)
    assert findings_of(slow, runs[-1]._replace(age=11 * 6.0 / 0.02)) == [], (
        "two percent are not too much"
    )


def test_a_slow_first_save_alone_is_no_share_of_the_run() -> None:
    run = Run([60.0, 0.4, 0.4], 61.2, 120.0, 0.5)
    assert findings_of(saving(0.4, ended_ago=1.0), run) == []


def test_slow_saves_never_become_usual_and_last_until_a_good_one() -> None:
    run = Run([0.9, 0.4, 0.4, *[6.0] * 100], 601.7, 1e6, 0.5)
    (finding,) = findings_of(saving(6.0, ended_ago=10 * LIMITS.shown_seconds), run)
    assert "(usual 0.40 s)" in finding.summary
    assert findings_of(saving(0.4, ended_ago=1.0), run) == []


def test_too_many_saves_are_a_finding_once_they_cost_enough() -> None:
    ended = saving(0.6, ended_ago=5.0)
    old = Run([0.6] * 200, 120.0, 1000.0, 0.5)
    (finding,) = findings_of(ended, old)
    assert finding.subject == "share" and "12.0% of its time" in finding.summary
    assert findings_of(ended, old._replace(total=LIMITS.share_seconds)) == []
    assert findings_of(ended, old._replace(earlier=[0.6])) == []
    assert findings_of(ended, old._replace(total=30.0)) == []


@settings(max_examples=200)
@given(
    seed=st.integers(0, 2**32 - 1),
    usual=st.floats(0.01, 120.0),
    noise=st.floats(0.0, 0.2),  # of 0.3 one save in 10,000 takes three times as long
    count=st.integers(1, 50),
)
def test_noise_is_silent(seed: int, usual: float, noise: float, count: int) -> None:
    stalls = usual * np.random.default_rng(seed).lognormal(0.0, noise, count + 1)
    stalls[0] *= 3
    run = Run(stalls[:count].tolist(), float(stalls.sum()), 1e6, 0.5)
    assert findings_of(saving(float(stalls[-1])), run) == []


def test_a_rank_that_always_saves_longer_than_its_peers_is_named() -> None:
    run = Run([5.1, 5.2, 5.1], 20.5, 300.0, 0.5)
    slow = np.array([0.15, 0.16, 5.15, 0.15])
    checkpoint = saving(5.15, ended_ago=100.0, rank_seconds=slow.tolist())
    (finding,) = findings_of(checkpoint._replace(saves=(slow, slow + 0.01)), run)
    assert (finding.rank, finding.cause) == (2, "slow-storage")
    assert finding.lost_ratio == pytest.approx(5.0 * 4 / 300.0, rel=0.01)
    assert "rank 2 takes 5.2 s" in finding.summary and "the others take 0.1" in finding.summary


@pytest.mark.parametrize(
    "saves",
    [
        ([0.15, 0.16, 5.15, 0.15],),
        ([0.15, 0.16, 5.15, 0.15], [5.15, 0.16, 0.15, 0.15]),
        ([5.15, 5.15, 5.15, 5.1], [5.15, 5.15, 5.15, 5.1]),
        ([0.1, 0.1, 1.2, 0.1], [0.1, 0.1, 1.2, 0.1]),
        ([0.15, math.nan, math.nan, math.nan], [0.15, math.nan, math.nan, math.nan]),
    ],
)
def test_one_slow_save_or_two_of_different_ranks_name_nobody(saves: list[list[float]]) -> None:
    run = Run([5.1, 5.2, 5.1], 20.5, 300.0, 0.5)
    rows = tuple(np.array(save) for save in saves)
    assert findings_of(saving(5.15, ended_ago=100.0)._replace(saves=rows), run) == []


@given(st.lists(st.floats(10.0, 12.0), min_size=1, max_size=40))
def test_what_is_usual_is_the_lower_quartile_of_numpy(stalls: list[float]) -> None:
    run = Run([1e6, *stalls], 0.0, 0.0, 1.0)
    expected = float(np.quantile(stalls, 0.25, method="lower"))
    assert checkpoint_stall.usual_seconds(run, LIMITS) == expected
    unknown = run._replace(earlier=[*run.earlier, math.nan])
    assert math.isnan(checkpoint_stall.usual_seconds(unknown, LIMITS))


def test_a_rank_that_saves_for_all_others_is_not() -> None:
    """Under data parallelism rank 0 writes, and the others wait at a barrier."""
    run = Run([10.4, 10.5], 31.4, 300.0, 0.1)
    rank_seconds = np.array([10.5, 0.0007, 0.0006, 0.0007])
    checkpoint = saving(10.5, ended_ago=100.0, rank_seconds=rank_seconds.tolist())
    assert findings_of(checkpoint._replace(saves=(rank_seconds, rank_seconds)), run) == []


def test_of_the_ranks_that_write_one_may_be_slow_where_most_write_nothing() -> None:
    """Tensor parallel ranks of one replica write, all other replicas hold the same."""
    run = Run([60.2, 60.1], 180.0, 3000.0, 5.0)
    rank_seconds = np.array([10.0, 60.0, *[0.0007] * 6])
    checkpoint = saving(60.0, ended_ago=100.0, rank_seconds=rank_seconds.tolist())
    (finding,) = findings_of(checkpoint._replace(saves=(rank_seconds, rank_seconds)), run)
    assert finding.rank == 1 and "the others take 10.00 s" in finding.summary
