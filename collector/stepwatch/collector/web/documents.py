"""The answers about a job as JSON, each with the moment that it is about."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stepwatch.collector.quantities import json_value
from stepwatch.collector.runtime.evaluation import Verdicts
from stepwatch.collector.runtime.views import View
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.web import breakdown_view, job_view

Make = Callable[[LiveJob, Verdicts, float], dict[str, Any]]


def encoded(document: Any) -> bytes:
    """A document as JSON; NaN is null."""
    return json.dumps(json_value(document), allow_nan=False).encode()


def _dated(make: Make) -> Make:
    """With `as_of`, the moment that the answer is about, in Unix seconds."""

    def made(job: LiveJob, verdicts: Verdicts, now: float) -> dict[str, Any]:
        return {**make(job, verdicts, now), "as_of": now}

    return made


def _heatmap(metric: str) -> View:
    make = _dated(lambda job, verdicts, now: job_view.heatmap(job.current, metric))
    return View(f"heatmap:{metric}", make, encoded)


def _collectives(job: LiveJob, verdicts: Verdicts, now: float) -> dict[str, Any]:
    return breakdown_view.collectives(job.current)


LINE = View("line", _dated(job_view.job_line), encoded, kept_seconds=600.0)
"""A job in the list of jobs."""
SUMMARY = View("job", _dated(job_view.job_summary), encoded)
COLLECTIVES = View("collectives", _dated(_collectives), encoded)
HEATMAPS = {metric: _heatmap(metric) for metric in job_view.HEATMAP_METRICS}
