"""Exact intervals: against tables, and against counting."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.statistics.intervals import poisson_interval, share_interval


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [(0, 0.0, 2.996), (1, 0.0513, 4.744), (3, 0.8177, 7.754), (10, 5.425, 16.962)],
)
def test_garwoods_table(count: int, low: float, high: float) -> None:
    """Garwood, Biometrika 28 (1936), 90 %."""
    assert poisson_interval(count) == pytest.approx((low, high), rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_of_a_rate_holds_it_as_often_as_it_says(seed: int) -> None:
    import numpy as np

    draws = np.random.default_rng(seed).poisson(4.0, 4000)
    inside = [low <= 4.0 <= high for low, high in map(poisson_interval, draws.tolist())]
    assert sum(inside) / len(inside) >= 0.89  # of whole numbers it holds more often


def test_shares_of_few_trials() -> None:
    assert share_interval(0, 0) == (0.0, 1.0)
    assert share_interval(3, 3) == pytest.approx((0.5559, 1.0), abs=1e-3)
    assert share_interval(5, 10) == pytest.approx((0.2626, 0.7374), abs=2e-3)
    assert share_interval(98, 100) == pytest.approx((0.9457, 0.9943), abs=1e-3)


@given(st.integers(1, 60), st.data())
def test_a_share_lies_in_its_interval_and_the_other_side_mirrors_it(
    trials: int, data: st.DataObject
) -> None:
    good = data.draw(st.integers(0, trials))
    low, high = share_interval(good, trials)
    assert 0.0 <= low <= good / trials <= high <= 1.0
    other_low, other_high = share_interval(trials - good, trials)
    assert (1 - other_high, 1 - other_low) == pytest.approx((low, high), abs=1e-4)
    assert not math.isnan(low + high)
