"""A job's metrics as one JSON object: newest values, and curves over all its attempts."""

from __future__ import annotations

import math
from typing import NamedTuple

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts, job_facts
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.metrics.buckets import Curve
from stepwatch.collector.state.trackers.metrics.metrics import Metrics
from stepwatch.collector.state.trackers.metrics.names import MetricName
from stepwatch.collector.web.schema import recorded as schema
from stepwatch.collector.web.schema.recorded import JobMetrics, Metric
from stepwatch.signals.records import Better

_BETTER = {Better.LOWER: "lower", Better.HIGHER: "higher"}


class _Recorded(NamedTuple):
    """A metric as its newest attempt names it, and its curves from each attempt."""

    metric: MetricName
    curves: dict[str, list[Curve]]


def job_metrics(job: LiveJob, verdicts: Verdicts, now: float) -> JobMetrics:
    """Return each metric with its newest value and its curves, loss and gradient norm first."""
    tracker = job.current.tracker(Metrics)
    return {
        "job": job.name,
        "state": job_facts(job, verdicts, now).state,
        "slos": [],
        "open_incidents": len(verdicts.open_incidents()),
        "attempt": job.current.number,
        "refused_names": tracker.names.refused,
        "unnamed_values": tracker.unnamed,
        "metrics": [_metric(recorded) for recorded in _recorded(job)],
    }


def _recorded(job: LiveJob) -> list[_Recorded]:
    """Return the metrics with a value, by evaluation and name over all attempts and their runs.

    Steps that a later attempt redoes are left out.
    """
    by_name: dict[tuple[str, str], _Recorded] = {}
    for attempt, redone_from in job.runs().values():
        tracker = attempt.tracker(Metrics)
        for index, metric in enumerate(tracker.names.metrics):
            key = metric.evaluation, metric.name
            known = by_name.get(key, _Recorded(metric, {})).curves
            for name, curve in tracker.curves(index).items():
                end = math.inf if redone_from is None else redone_from
                known.setdefault(name, []).append(curve.until(end))
            by_name[key] = _Recorded(metric, known)
    return [recorded for recorded in by_name.values() if _has_values(recorded)]


def _has_values(recorded: _Recorded) -> bool:
    return any(len(curve.key) for curves in recorded.curves.values() for curve in curves)


def _metric(recorded: _Recorded) -> Metric:
    metric = recorded.metric
    curves = {name: _columns(parts) for name, parts in recorded.curves.items()}
    finest = curves.get("steps") or curves["evaluations"]
    return {
        "name": metric.name,
        "evaluation": metric.evaluation,
        "unit": metric.unit,
        "better": _BETTER.get(Better(metric.better), ""),
        "note": metric.note,
        "newest": _newest(finest),
        "curves": curves,
    }


def _newest(curve: schema.Curve) -> schema.NewestValue:
    return {
        "first_step": curve["first_step"][-1],
        "step": curve["step"][-1],
        "at": curve["at"][-1],
        "mean": curve["mean"][-1],
        "min": curve["min"][-1],
        "max": curve["max"][-1],
        "last": curve["last"][-1],
        "values": curve["values"][-1],
        "non_finite": curve["non_finite"][-1],
    }


def _columns(parts: list[Curve]) -> schema.Curve:
    curve = Curve.joined(parts)
    return {
        "first_step": curve.first_step.tolist(),
        "step": curve.step.tolist(),
        "at": [*curve.wall_s.tolist()],
        "mean": [*curve.mean.tolist()],
        "min": [*curve.least.tolist()],
        "max": [*curve.greatest.tolist()],
        "last": [_number(value) for value in curve.last.tolist()],
        "values": curve.finite.tolist(),
        "non_finite": curve.non_finite.tolist(),
    }


def _number(value: float) -> float | str:
    """Return a value that JSON holds: NaN and infinity as words, so that they are not unknown."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
