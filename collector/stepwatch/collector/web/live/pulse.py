"""A followed job in short: its state, its newest points, and a mark for each other answer."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.views import View
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.metrics.metrics import Metrics
from stepwatch.collector.web.history.paces import UNITS, pace_of
from stepwatch.collector.web.job_view import job_line
from stepwatch.collector.web.schema.job import JobLine
from stepwatch.signals.arrays import Integers, Vector

RECORDED = ("loss", "grad_norm", "learning_rate", "lr")
"""Recorded metrics whose newest points a live document carries, beside the collector's own."""
MOST_POINTS = 256
"""Points of a metric in one document, as many as the curve by step holds."""
VIEWS = ("summary", "series", "matrix", "marks", "collectives")
"""Answers about a job that a page may have to ask for again."""

FACTS = ("attempt", "step", "state", "open_incidents")
"""Fields of a list entry that a live document repeats."""
Point = tuple[int, float, float | None]
"""Step, Unix seconds, and value; None for a value that is not finite."""


class Points(NamedTuple):
    """A metric's newest points by step; arrays (points,). `at` is Unix seconds."""

    step: Integers
    at: Vector
    value: Vector

    @classmethod
    def newest(cls, *columns: Any) -> Points:
        """Return the newest points of whole columns."""
        return cls(*(column[-MOST_POINTS:] for column in columns))

    def since(self, before: Points | None) -> list[Point]:
        """Return the points that are new, or changed because more ranks reported.

        Steps 5 and 6 after 4 and 5: step 6, and step 5 if its value changed.
        """
        fresh = np.ones(len(self.step), dtype=np.bool_)
        if before is not None and len(before.step):
            place = np.minimum(np.searchsorted(before.step, self.step), len(before.step) - 1)
            same = (before.step[place] == self.step) & (
                (before.value[place] == self.value)
                | (np.isnan(before.value[place]) & np.isnan(self.value))
            )
            fresh = ~same & (self.step >= before.step[0])
        columns = (column[fresh].tolist() for column in self)
        return [
            (step, round(moment, 3), float(f"{value:.6g}") if math.isfinite(value) else None)
            for step, moment, value in zip(*columns, strict=True)
        ]


class Pulse(NamedTuple):
    """A job at one moment. `marks` by view: a view is to be read again if its mark changed."""

    attempt: int
    facts: dict[str, Any]
    points: dict[str, Points]
    marks: dict[str, object]


def pulse(job: LiveJob, verdicts: Verdicts, now: float) -> Pulse:
    """Return a job's pulse."""
    attempt = job.current
    line = job_line(job, verdicts, now)
    points = {**_own_points(attempt), **_recorded_points(attempt.tracker(Metrics))}
    return Pulse(
        attempt.number,
        {name: value for name, value in line.items() if name in FACTS},
        {name: newest for name, newest in points.items() if len(newest.step)},
        _marks(job, verdicts, line),
    )


def _own_points(attempt: Attempt) -> dict[str, Points]:
    pace = pace_of(attempt)
    curves = {name: pace.points(name) for name in UNITS}
    return {name: Points.newest(curve.step, curve.at, curve.mean) for name, curve in curves.items()}


def _recorded_points(metrics: Metrics) -> dict[str, Points]:
    indices = {name: metrics.names.index(name) for name in RECORDED}
    curves = {
        name: metrics.curves(index)["steps"] for name, index in indices.items() if index is not None
    }
    return {
        name: Points.newest(curve.step, curve.wall_s, curve.mean) for name, curve in curves.items()
    }


def _marks(job: LiveJob, verdicts: Verdicts, line: JobLine) -> dict[str, object]:
    runs = [(run.number, len(run.runs)) for run in job.attempts.values()]
    incidents = [(item.id, item.state, item.summary) for item in verdicts.incidents.values()]
    saves = Counter(
        (item.verified, item.is_damaged, item.is_removed)
        for item in job.current.checkpoints.by_step.values()
    )
    slos = [(slo["name"], slo["state"]) for slo in line["slos"]]
    step = line["attempt"], line["step"]
    more, evaluations = _more_metrics(job.current.tracker(Metrics))
    return {
        "summary": (line["state"], line["reason"], runs, incidents, slos, saves),
        "series": (line["attempt"], evaluations, step if more else None),
        "matrix": step,
        "marks": (runs, incidents, saves, evaluations),
        "collectives": step,
    }


def _more_metrics(metrics: Metrics) -> tuple[bool, list[list[int]]]:
    """Return whether there are metrics of steps beyond `RECORDED`, and the newest evaluations."""
    of_steps = [item for item in metrics.names.metrics if not item.evaluation]
    more = any(item.name not in RECORDED for item in of_steps)
    evaluations = [
        metrics.curves(index)["evaluations"].step[-1:].tolist()
        for index, item in enumerate(metrics.names.metrics)
        if item.evaluation
    ]
    return more, evaluations


PULSE = View("pulse", pulse, often_seconds=10.0)
"""A followed job's pulse; it stays in this process."""
