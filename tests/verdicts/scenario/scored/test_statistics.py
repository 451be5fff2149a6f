from __future__ import annotations

import math

import pytest

from .statistics import poisson, quantile, wilson


def test_intervals_are_those_of_the_tables() -> None:
    assert wilson(8, 10) == pytest.approx((0.490, 0.943), abs=0.001)
    assert wilson(0, 0) == (0.0, 1.0)
    assert poisson(0) == pytest.approx((0.0, 3.689), abs=0.001)
    assert poisson(3) == pytest.approx((0.619, 8.767), abs=0.001)
    assert poisson(60) == pytest.approx((45.79, 77.23), abs=0.02)


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert math.isnan(quantile([], 0.9))
