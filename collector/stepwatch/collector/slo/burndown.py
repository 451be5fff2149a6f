"""The course of an SLO's budget over its window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo.objectives import Slo, counted_in
from stepwatch.collector.slo.slice_line import SliceLine

POINTS = 60
"""Points in a course: a curve on a phone shows no more, and an answer has one for each SLO."""


class Course(NamedTuple):
    """The remaining share of the budget at moments in Unix seconds, negative once overspent."""

    at: list[float]
    remaining: list[float]


def course_of(
    slo: Slo,
    line: SliceLine,
    begins: float,
    now_s: float,
    without: Sequence[tuple[float, float]] = (),
) -> Course:
    """Return the course from the window's start `begins` on; empty without a budget.

    The budget is the one that the whole window has by now: the last point is the SLO's remaining
    budget. 100 device-seconds with a target of 90 %, of which 5 were bad halfway: 1, 0.5, 0.5.
    """
    if slo.limit is not None or not begins < now_s:
        return Course([], [])
    moments = np.linspace(begins, now_s, POINTS).tolist()
    counted = [counted_in(slo, line, at, at - begins, without) for at in moments[1:]]
    allowed = (1 - slo.target) * counted[-1].total
    if allowed <= 0:
        return Course([], [])
    spent = [(window.total - window.good) / allowed for window in counted]
    return Course(moments, [1.0, *(round(float(1 - share), 4) for share in spent)])
