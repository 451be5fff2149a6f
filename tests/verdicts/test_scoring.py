"""Precision, recall and the rest are computed as defined."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verdicts.scoring import Outcome, Score, Truth, Verdict, quantile, score, share, totals

TRUTH = Truth(
    "hang", frozenset({"hang"}), frozenset({2}), frozenset({"forward"}), frozenset({"busy"})
)
RIGHT = Verdict("hang", 2, "forward", "busy", 107.0)


def score_of(*verdicts: Verdict, truth: Truth | None = TRUTH) -> Score:
    return score(Outcome(truth, 100.0, verdicts))


def test_a_right_verdict_is_right_in_all() -> None:
    assert score_of(RIGHT) == Score(1, 0, True, True, True, True, 7.0)


def test_each_part_is_judged_for_itself() -> None:
    assert score_of(RIGHT._replace(rank=3)) == Score(1, 0, True, False, True, True, 7.0)
    assert score_of(RIGHT._replace(phase="data")) == Score(1, 0, True, True, False, True, 7.0)
    assert score_of(RIGHT._replace(cause="unknown")) == Score(1, 0, True, True, True, False, 7.0)


def test_what_the_truth_leaves_open_is_not_judged() -> None:
    open_truth = TRUTH._replace(ranks=frozenset(), phases=frozenset())
    assert score_of(RIGHT, truth=open_truth) == Score(1, 0, True, None, None, True, 7.0)


def test_silence_about_a_fault_is_a_miss_and_about_health_is_right() -> None:
    assert score_of()[:3] == (0, 0, False)
    assert score_of(truth=None)[:3] == (0, 0, None)


def test_another_kind_is_a_miss_and_false() -> None:
    assert score_of(RIGHT._replace(kind="straggler"))[:3] == (0, 1, False)


def test_a_verdict_before_the_fault_is_false() -> None:
    assert score_of(RIGHT._replace(opened_at=99.0))[:3] == (0, 1, False)


def test_a_second_incident_is_false_even_of_the_right_kind() -> None:
    later = RIGHT._replace(rank=3, opened_at=108.0)
    assert score_of(later, RIGHT) == Score(1, 1, True, True, True, True, 7.0)


def test_any_incident_of_a_healthy_run_is_false() -> None:
    assert score_of(RIGHT, RIGHT, truth=None)[:3] == (0, 2, None)


def test_totals_count_runs_that_have_something_to_count() -> None:
    wrong = RIGHT._replace(rank=0, opened_at=103.0)
    sums = totals([score_of(RIGHT), score_of(wrong), score_of(), score_of(RIGHT, truth=None)])
    assert (sums.runs, sums.false) == (4, 1)
    assert sums.precision == pytest.approx(2 / 3)
    assert sums.recall == pytest.approx(2 / 3)
    assert (sums.rank, sums.phase, sums.cause) == (0.5, 1.0, 1.0)
    assert (sums.p50, sums.p90) == (3.0, 7.0)


def test_nothing_said_is_no_precision_and_nothing_broken_no_recall() -> None:
    sums = totals([score_of(truth=None)])
    assert math.isnan(sums.precision)
    assert math.isnan(sums.recall)
    assert math.isnan(share([None]))


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0.01, 1))
def test_a_quantile_is_the_least_value_that_enough_do_not_exceed(
    values: list[float], ratio: float
) -> None:
    result = quantile(sorted(values), ratio)
    assert result in values
    assert sum(value <= result for value in values) >= ratio * len(values) - 1e-9
    assert sum(value < result for value in values) < ratio * len(values)
