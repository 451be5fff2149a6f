"""A job's curves over all its runs, as one object that answers many questions.

The object is copied under the job's lock, and read without the lock. Another collector gets
the points of every metric, packed as bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.runtime.evaluation.job_state import job_state
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.views import View
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.metrics.buckets import Curve
from stepwatch.collector.state.trackers.metrics.metrics import Metrics
from stepwatch.collector.state.trackers.metrics.names import MetricName
from stepwatch.signals.records import Better

from .asked import MOST_POINTS
from .paces import BETTER, UNITS, Pace, pace_of
from .packing import packed, unpacked
from .points import Points, few, finest_first

MOST_RUNS = 64
"""The newest runs with values whose curves are answered: each takes up to ten megabytes."""
RECORDED = "recorded/"
"""Before the name of a metric that a trainer records under one of the collector's own names."""
_BETTER = {Better.LOWER: "lower", Better.HIGHER: "higher"}


class _Source(NamedTuple):
    """How a metric's points are made, those of repeated steps apart, and whether there are any."""

    make: Callable[[], Points]
    make_redone: Callable[[], Points]
    is_known: Callable[[], bool]


class Name(NamedTuple):
    """A metric as answers name it; `evaluation` is empty for a metric of steps."""

    name: str
    evaluation: str = ""
    unit: str = ""
    better: str = ""
    note: str = ""


class Curves:
    """A job's curves by metric; `points` and `redone` make each once."""

    def __init__(self, about: dict[str, Any], names: Iterable[tuple[Name, _Source]]):
        self.about = about
        """The answer's fields about the job: `job`, `state`, `attempt`."""
        self._made: dict[tuple[str, str], Points] = {}
        self._redone: dict[tuple[str, str], Points] = {}
        self._sources = {(name.evaluation, name.name): (name, source) for name, source in names}

    def points(self, name: Name) -> Points:
        """Return a metric's points over all runs, in their order."""
        key = name.evaluation, name.name
        if key not in self._made:
            self._made[key] = self._sources[key][1].make()
        return self._made[key]

    def redone(self, name: Name) -> Points:
        """Return a metric's points of steps that a later run repeats, which `points` leaves out."""
        key = name.evaluation, name.name
        if key not in self._redone:
            self._redone[key] = self._sources[key][1].make_redone()
        return self._redone[key]

    def of_attempt(self, name: Name, attempt: int) -> Points:
        """Return one run's points, with the steps that a later run repeats."""
        parts = self.points(name), self.redone(name)
        return Points.joined([part.chosen(part.attempt == attempt) for part in parts])

    @property
    def names(self) -> list[Name]:
        """The metrics with a value, the collector's own and the loss first; no points are made."""
        return [name for name, source in self._sources.values() if source.is_known()]

    def named(self, wanted: str) -> list[Name]:
        """Return the metrics with a name: of steps, and of each evaluation."""
        return [name for name in self.names if name.name == wanted]


class Run(NamedTuple):
    """One run's curves: of recorded metrics, and of its pace."""

    attempt: int
    redone_from: float
    metrics: Metrics
    pace: Pace


class _Unmade(NamedTuple):
    """The runs as copied under the lock."""

    about: dict[str, Any]
    runs: list[Run]


def _copied(job: LiveJob, verdicts: Verdicts, now: float) -> _Unmade:
    """Copy what the curves need: the tables of the newest runs with steps or values."""
    runs = [
        (run, math.inf if redone is None else redone)
        for run, redone in job.runs().values()
        if len(run.steps.history) or run.tracker(Metrics).cells
    ]
    return _Unmade(
        about_job(job, verdicts, now),
        [
            Run(run.number, redone, run.tracker(Metrics).copied(), pace_of(run))
            for run, redone in runs[-MOST_RUNS:]
        ],
    )


def about_job(job: LiveJob, verdicts: Verdicts, now: float) -> dict[str, Any]:
    """Return the fields about the job that every answer has."""
    state = job_state(job.current, verdicts.open_incidents(), now)
    return {"job": job.name, "state": state, "attempt": job.current.number}


def curves_of(about: dict[str, Any], runs: list[Run]) -> Curves:
    """Return the curves over all runs."""
    return Curves(about, [*_own(runs), *_recorded(runs)])


def _curves(unmade: _Unmade) -> Curves:
    return curves_of(*unmade)


def _own(runs: list[Run]) -> list[tuple[Name, _Source]]:
    paces = [run.pace.until(run.redone_from) for run in runs]
    return [
        (Name(name, "", unit, BETTER[name]), _of_own(runs, paces, name))
        for name, unit in UNITS.items()
    ]


def _of_own(runs: list[Run], paces: list[Pace], name: str) -> _Source:
    return _Source(
        partial(_of_paces, paces, name),
        lambda: Points.joined([_repeated(run, partial(run.pace.points, name)) for run in runs]),
        lambda: any(pace.has(name) for pace in paces),
    )


def _of_paces(paces: list[Pace], name: str) -> Points:
    return Points.joined([pace.points(name) for pace in paces])


def _repeated(run: Run, make: Callable[[], Points]) -> Points:
    """Return those of a run's points whose newest step a later run repeats."""
    if math.isinf(run.redone_from):
        return Points.nothing()
    points = make()
    return points.chosen(points.step >= run.redone_from)


def _recorded(runs: list[Run]) -> list[tuple[Name, _Source]]:
    """Return each recorded metric as its newest run names it."""
    by_key: dict[tuple[str, str], tuple[MetricName, list[tuple[Run, int]]]] = {}
    for run in runs:
        for index, metric in enumerate(run.metrics.names.metrics):
            places = by_key.get((metric.evaluation, metric.name), (metric, []))[1]
            by_key[metric.evaluation, metric.name] = metric, [*places, (run, index)]
    return [
        (
            name_of(metric),
            _Source(
                partial(_of_runs, places),
                partial(_redone_of_runs, places),
                partial(_is_known, places),
            ),
        )
        for metric, places in by_key.values()
    ]


def _is_known(places: list[tuple[Run, int]]) -> bool:
    return any(run.metrics.has(index) for run, index in places)


def _of_runs(places: list[tuple[Run, int]]) -> Points:
    return Points.joined([_of_run(run, index, run.redone_from) for run, index in places])


def _redone_of_runs(places: list[tuple[Run, int]]) -> Points:
    return Points.joined(
        [_repeated(run, partial(_of_run, run, index, math.inf)) for run, index in places]
    )


def name_of(metric: MetricName) -> Name:
    """Return a recorded metric's name; the collector's own metrics keep theirs."""
    prefix = RECORDED if metric.name in UNITS and not metric.evaluation else ""
    better = _BETTER.get(Better(metric.better), "")
    return Name(prefix + metric.name, metric.evaluation, metric.unit, better, metric.note)


def _of_run(run: Run, index: int, until: float) -> Points:
    levels = run.metrics.levels(index).items()
    return finest_first(
        [points_of(curve.until(until), run.attempt, seconds) for seconds, curve in levels]
    )


def points_of(curve: Curve, attempt: int, seconds: int) -> Points:
    """Return a curve's buckets, whose length is 0 for single steps."""
    whole = np.zeros(len(curve.key), dtype=np.int64)
    return Points(
        attempt=whole + attempt,
        first_step=curve.first_step,
        step=curve.step,
        seconds=whole + seconds,
        begin=(curve.key * seconds).astype(np.float64) if seconds else curve.wall_s,
        at=curve.wall_s,
        mean=curve.mean,
        least=curve.least,
        greatest=curve.greatest,
        last=curve.last,
        weight=curve.finite.astype(np.float64),
        non_finite=curve.non_finite,
    )


def _packed(unmade: _Unmade) -> bytes:
    curves = curves_of(*unmade)
    names = curves.names
    parts = [
        few(made(name), MOST_POINTS) for made in (curves.points, curves.redone) for name in names
    ]
    arrays = [column for part in parts for column in part]
    return packed({"about": curves.about, "names": [[*name] for name in names]}, arrays)


def read_curves(value: Any) -> Curves:
    """Return the curves in an answer of either view."""
    if isinstance(value, Curves):
        return value
    header, arrays = unpacked(value)
    width = len(Points._fields)
    names = [Name(*name) for name in header["names"]]
    parts = [Points(*arrays[first : first + width]) for first in range(0, len(arrays), width)]
    # A collector of an older version packs no repeated steps.
    redone = parts[len(names) :] or [Points.nothing() for _ in names]
    made = [
        (name, _Source(partial(Points, *part), partial(Points, *repeated), partial(bool, True)))
        for name, part, repeated in zip(names, parts[: len(names)], redone, strict=True)
    ]
    return Curves(header["about"], made)


CURVES = View("curves", _copied, _curves)
SHARED_CURVES = View("curves-packed", _copied, _packed)
"""The same as bytes, for collectors that do not hold the job."""
