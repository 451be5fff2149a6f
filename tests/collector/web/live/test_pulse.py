"""Points of a live document: those that are new, or that more ranks changed."""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.web.live.pulse import MOST_POINTS, Points


def points(values: dict[int, float]) -> Points:
    steps = np.array([*values], dtype=np.int64)
    return Points.newest(steps, steps * 10.0, np.array([*values.values()]))


def test_only_new_and_changed_points_are_told() -> None:
    before = points({4: 1.0, 5: 2.0, 6: math.nan})
    now = points({4: 1.0, 5: 2.5, 6: math.nan, 7: math.inf, 8: 1 / 3})
    assert now.since(before) == [(5, 50.0, 2.5), (7, 70.0, None), (8, 80.0, 0.333333)]
    assert now.since(now) == []
    assert now.since(points({})) == now.since(None) and len(now.since(None)) == 5


def test_a_value_that_was_none_and_a_step_older_than_all() -> None:
    before = points({4: math.nan, 5: 2.0})
    assert points({3: 1.0, 4: 1.5, 5: 2.0}).since(before) == [(4, 40.0, 1.5)]


def test_there_are_at_most_so_many() -> None:
    assert len(points(dict.fromkeys(range(MOST_POINTS + 9), 1.0)).step) == MOST_POINTS
