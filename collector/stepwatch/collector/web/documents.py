"""Answers about a job as JSON, each with its date; old ones are marked stale."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from stepwatch.collector.job_states import ENDED, STALE
from stepwatch.collector.quantities import json_value
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.views import Published, View
from stepwatch.collector.slo.states import SloState
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.web import job_view, run_view, sli_view, slo_view
from stepwatch.collector.web.breakdown import parts
from stepwatch.collector.web.recorded import checkpoints_view, metrics_view
from stepwatch.collector.web.schema.breakdown import Collectives
from stepwatch.collector.web.schema.job import Heatmap, JobSummary

OLD_SECONDS = 10.0
"""An older answer is stale: a job's collector renews it every few seconds."""


def encoded(document: Any) -> bytes:
    """Return a document as JSON; NaN becomes null."""
    return json.dumps(json_value(document), allow_nan=False).encode()


def dated(published: Published, now: float) -> bytes:
    """Return an answer with `as_of`, its date in Unix seconds, read at `now`.

    An old answer also has `stale`: its age in `seconds`, the job's last `state`, and the `reason`.
    A stale answer never claims that the job is healthy.
    """
    if abs(now - published.as_of) > OLD_SECONDS:
        return encoded(stale(json.loads(published.value), published.as_of, now))
    return bytes(published.value[:-1]) + f', "as_of": {json.dumps(published.as_of)}}}'.encode()


class Texts(NamedTuple):
    """An answer without its date, and with it."""

    content: bytes
    answer: bytes


def texts_of(published: Published, now: float) -> Texts:
    """Return an answer read at `now`; the content of a stale one changes with its age."""
    text, answer = bytes(published.value), dated(published, now)
    return Texts(text if answer.startswith(text[:-1]) else answer, answer)


def stale(document: dict[str, Any], as_of: float, now: float) -> dict[str, Any]:
    """Return an old document with the state `STALE`.

    SLO states become unknown, and so does an empty count of open incidents. An ended job keeps its
    state.
    """
    about = {"seconds": now - as_of, "state": document.get("state"), "reason": _why(now - as_of)}
    changed: dict[str, Any] = {"as_of": as_of, "stale": about}
    if document.get("state") not in (None, *ENDED):
        slos = [{**slo, "state": SloState.UNKNOWN.value} for slo in document["slos"]]
        open_incidents = document["open_incidents"] or None
        changed |= {"state": STALE, "slos": slos, "open_incidents": open_incidents}
    return {**document, **changed}


def _why(seconds: float) -> str:
    if seconds < 0:
        return f"the clock of the collector that evaluates this job is {-seconds:.0f} s ahead"
    return f"as of {seconds:.0f} s ago; the collector that evaluates this job does not answer"


def _heatmap(metric: str) -> View:
    def make(job: LiveJob, verdicts: Verdicts, now: float) -> Heatmap:
        return job_view.heatmap(job.current, metric)

    return View(f"heatmap:{metric}", make, encoded)


def _collectives(job: LiveJob, verdicts: Verdicts, now: float) -> Collectives:
    return parts.collectives(job.current)


def _without_ranks(job: LiveJob, verdicts: Verdicts, now: float) -> JobSummary:
    return job_view.job_summary(job, verdicts, now, lists_ranks=False)


LINE = View("line", job_view.job_line, encoded, kept_seconds=600.0, often_seconds=10.0)
"""A job in the job list."""
SUMMARY = View("job", job_view.job_summary, encoded)
WITHOUT_RANKS = View("job-without-ranks", _without_ranks, encoded)
"""The same without the first ranks: of a large job they are nearly all bytes."""
COLLECTIVES = View("collectives", _collectives, encoded)
SLIS = View("slis", sli_view.job_slis, encoded)
"""A job's SLIs over its run."""
SLOS = View("slos", slo_view.job_slos, encoded)
"""A job's SLOs in full."""
METRICS = View("metrics", metrics_view.job_metrics, encoded)
"""A job's metrics with their curves."""
CHECKPOINTS = View("checkpoints", checkpoints_view.job_checkpoints, encoded)
"""A job's checkpoints and its recovery point."""
RUN = View("run", run_view.job_run, encoded)
"""A run's data for comparison with other runs."""
HEATMAPS = {metric: _heatmap(metric) for metric in job_view.HEATMAP_METRICS}
