"""A job that waits more than it did waits for somebody: the rank that waits least is named."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect.finding import NO_RANK, build_finding
from stepwatch.collector.detect.throughput_regression import LIMITS
from stepwatch.collector.detect.throughput_regression.least_wait import (
    LeastWaiting,
    least_waiting,
    with_least_waiting,
)
from stepwatch.signals.names import Cause, FindingKind


def find_least_waiting(
    ranks: int, excess: dict[int, float], noise: float = 0.01
) -> LeastWaiting | None:
    """Of steps of a second in which some ranks arrive later, and all others wait for them."""
    work = 0.6 + np.random.default_rng(ranks).normal(0.0, noise, (64, ranks))
    for rank, seconds in excess.items():
        work[:, rank] += seconds
    waits = work.max(axis=1, keepdims=True) - work + 0.02
    return least_waiting(waits, 1.0, LIMITS)


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_the_rank_that_the_others_wait_for_is_named(ranks: int) -> None:
    least_waiting = find_least_waiting(ranks, {1: 0.38})
    assert least_waiting is not None and least_waiting.ranks == (1,)
    assert least_waiting.other_waits - least_waiting.waits == pytest.approx(0.38, abs=0.03)


def test_noise_does_not_hide_it() -> None:
    least_waiting = find_least_waiting(4, {1: 0.3}, noise=0.12)
    assert least_waiting is not None and least_waiting.ranks == (1,)


def test_of_two_that_wait_alike_it_is_one() -> None:
    least_waiting = find_least_waiting(8, {1: 0.38, 6: 0.38})
    assert least_waiting is not None and least_waiting.ranks == (1, 6)


def test_nobody_is_named_where_all_wait_alike_or_alone() -> None:
    assert find_least_waiting(4, {}) is None
    assert find_least_waiting(1, {}) is None
    assert find_least_waiting(4, {0: 0.3, 1: 0.3, 2: 0.3}) is None, (
        "three of four are not slow, one is fast"
    )


def test_the_words_no_longer_say_that_all_are_slower() -> None:
    finding = build_finding(
        kind=FindingKind.THROUGHPUT_REGRESSION,
        cause=Cause.ALL_RANKS_SLOWER,
        summary="all ranks are slower since step 9: 1.38 s a step, most of it in collective",
        began_step=9,
    )
    with_rank = with_least_waiting(finding, LeastWaiting((3,), 0.02, 0.4))
    assert (with_rank.rank, with_rank.cause) == (3, "unknown")
    assert with_rank.summary.startswith("the job is slower since step 9")
    assert "wait for rank 3, likely: it waits 20 ms a step, they 400 ms" in with_rank.summary
    either = with_least_waiting(finding, LeastWaiting((3, 4), 0.02, 0.4))
    assert either.rank == NO_RANK and "wait for one of ranks 3, 4: " in either.summary
