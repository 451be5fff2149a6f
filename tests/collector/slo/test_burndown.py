"""The course of a budget over its window."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from stepwatch.collector.slo.asked.windows import RollingWindow
from stepwatch.collector.slo.burndown import POINTS, course_of
from stepwatch.collector.slo.objectives import Limit, Slo, evaluate_slo
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.slo.slices import Shares, summed
from tests.collector.made import EPOCH

WINDOW = 7200
GOODPUT = Slo("goodput", "Goodput", "goodput", Decimal("0.9"), RollingWindow(WINDOW))


def line_of(bad_from: int, bad_until: int) -> SliceLine:
    """A job of one device for two hours, of which a part is bad."""
    ends = EPOCH + np.arange(10.0, WINDOW, 10.0)
    bad = (ends > EPOCH + bad_from) & (ends <= EPOCH + bad_until)
    total, count = np.full(len(ends), 10.0), np.ones(len(ends), dtype=np.int64)
    return SliceLine(summed([Shares(ends, np.where(bad, 0.0, 10.0), total, count, count)]))


def test_it_falls_while_time_is_lost_and_ends_at_the_budget() -> None:
    line, now = line_of(3600, 3960), EPOCH + WINDOW
    course = course_of(GOODPUT, line, EPOCH, now)
    assert len(course.at) == len(course.remaining) == POINTS
    assert (course.at[0], course.at[-1], course.remaining[0]) == (EPOCH, now, 1.0)
    assert course.remaining[POINTS // 2 - 2] == 1.0, "nothing was lost in the first half"
    assert course.remaining[-1] == pytest.approx(0.5, abs=0.01), "half of 720 s was lost"
    assert course.remaining == sorted(course.remaining, reverse=True)
    evaluated = evaluate_slo(GOODPUT, line, now)
    assert evaluated.budget_remaining is not None
    assert course.remaining[-1] == pytest.approx(float(evaluated.budget_remaining), abs=1e-4)


def test_planned_time_costs_nothing() -> None:
    line, now = line_of(3600, 3960), EPOCH + WINDOW
    course = course_of(GOODPUT, line, EPOCH, now, [(EPOCH + 3600, EPOCH + 3970)])
    assert set(course.remaining) == {1.0}


def test_without_a_budget_there_is_no_course() -> None:
    limit = GOODPUT._replace(limit=Limit("lte", Decimal(1)), target=Decimal(1))
    line = line_of(0, 0)
    assert course_of(limit, line, EPOCH, EPOCH + WINDOW).at == []
    assert course_of(GOODPUT, SliceLine(), EPOCH, EPOCH + WINDOW).at == []
