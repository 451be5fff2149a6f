"""Marks on a job's time axis: checkpoints, evaluations, restarts, and incidents."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from stepwatch.collector.analysis.resumes.earlier import Resume, resumes_of
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.views import View
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.step_facts import step_facts
from stepwatch.collector.state.trackers.metrics.metrics import Metrics
from stepwatch.collector.web.documents import encoded
from stepwatch.collector.web.recorded.checkpoints_view import checkpoint_state
from stepwatch.signals.clock import NANOSECONDS

from .asked import Range
from .curves import about_job

MOST_MARKS = 500
"""Marks of one kind per answer: the newest."""
CHECKPOINT, EVALUATION, RESTART, INCIDENT = "checkpoint", "evaluation", "restart", "incident"


def _job_marks(job: LiveJob, verdicts: Verdicts, now: float) -> dict[str, Any]:
    kinds = [
        [*_checkpoints(job)],
        [*_evaluations(job)],
        [*_restarts(job)],
        [*_incidents(verdicts)],
    ]
    newest = [sorted(marks, key=_moment)[-MOST_MARKS:] for marks in kinds]
    return {
        **about_job(job, verdicts, now),
        "marks": sorted((mark for marks in newest for mark in marks), key=_moment),
    }


def _moment(mark: dict[str, Any]) -> float:
    return float(mark["at"])


def _mark(kind: str, at_s: float, words: str, **fields: Any) -> dict[str, Any]:
    """Return a mark; a field without a value is null."""
    empty = {"until": None, "step": None, "attempt": None, "id": None, "state": None}
    return {"kind": kind, "at": at_s, "words": words, **empty, **fields}


def _checkpoints(job: LiveJob) -> Iterator[dict[str, Any]]:
    for attempt, item in job.checkpoints()[-MOST_MARKS:]:
        if item.saved_s is None:
            continue
        state, reason = checkpoint_state(attempt, item)
        durable = item.durable_seconds
        yield _mark(
            CHECKPOINT,
            item.saved_s,
            f"checkpoint of step {item.step}: {state}{reason and f' ({reason})'}",
            until=None if durable is None else item.saved_s + durable,
            step=item.step,
            attempt=attempt.number,
            state=state,
        )


def _evaluations(job: LiveJob) -> Iterator[dict[str, Any]]:
    """Yield the evaluations with a value, and the steps in memory with an evaluation phase."""
    for run, redone_from in [*job.runs().values()][-MOST_MARKS:]:
        marks = _recorded(run) | _in_steps(run)
        names = _names(run)
        for step, (begins_s, ends_s) in marks.items():
            if redone_from is None or step < redone_from:
                words = f"evaluation {names.get(step, '')}".rstrip() + f" in step {step}"
                yield _mark(
                    EVALUATION, begins_s, words, until=ends_s, step=step, attempt=run.number
                )


_Times = dict[int, tuple[float, float | None]]
"""Begin and end of evaluations by step, Unix seconds; None without an end."""


def _recorded(run: Attempt) -> _Times:
    tracker, times = run.tracker(Metrics), _Times()
    for index, metric in enumerate(tracker.names.metrics):
        if metric.evaluation:
            curve = tracker.curves(index)["evaluations"]
            moments = zip(curve.step.tolist(), curve.wall_s.tolist(), strict=True)
            times |= {step: (at_s, None) for step, at_s in moments}
    return times


def _names(run: Attempt) -> dict[int, str]:
    """Return the names of the evaluations with a value by step."""
    tracker = run.tracker(Metrics)
    names: dict[int, set[str]] = {}
    for index, metric in enumerate(tracker.names.metrics):
        if metric.evaluation:
            for step in tracker.curves(index)["evaluations"].step.tolist():
                names.setdefault(step, set()).add(metric.evaluation)
    return {step: ", ".join(sorted(known)) for step, known in names.items()}


def _in_steps(run: Attempt) -> _Times:
    """Return the evaluations that ranks marked; ranks evaluate side by side."""
    facts, first = step_facts(run, None), run.steps.history.held_from
    seconds = np.nan_to_num(facts.parts["eval"].astype(np.float64))
    places = np.flatnonzero(seconds > 0)[-MOST_MARKS:]
    lengths = seconds[places] / np.maximum(facts.observed[places], 1)
    ends = facts.end_s[places]
    return {
        first + place: (end_s - length, end_s)
        for place, end_s, length in zip(
            places.tolist(), ends.tolist(), lengths.tolist(), strict=True
        )
    }


def _restarts(job: LiveJob) -> Iterator[dict[str, Any]]:
    resumes = resumes_of(job)
    for place, (_, run, restart) in enumerate(job.restarts()):
        at_s = _began_s(run)
        if place and at_s is not None:
            resume = resumes.get(run.number)
            is_it = resume is not None and resume.attempt is run
            yield _mark(
                RESTART,
                at_s,
                f"attempt {run.number} {_how(resume if is_it else None, restart.step)}",
                step=restart.step,
                attempt=run.number,
            )


def _began_s(run: Attempt) -> float | None:
    """Return a run's start, else its first step's end; None before both."""
    if run.lifecycle.began_s:
        return float(run.lifecycle.began_s)
    _, rows = run.steps.history.part(slice(1))
    return float(rows["end_wall_ns"][0]) / NANOSECONDS if len(rows) else None


def _how(resume: Resume | None, step: int | None) -> str:
    if resume is not None:
        return f"resumed from step {resume.step}" + (f" ({resume.path})" if resume.path else "")
    return "began, and made no step yet" if step is None else f"began at step {step}"


def _incidents(verdicts: Verdicts) -> Iterator[dict[str, Any]]:
    for incident in verdicts.incidents.values():
        if not incident.merged_into:
            yield _mark(
                INCIDENT,
                incident.began_at if math.isfinite(incident.began_at) else incident.opened_at,
                incident.summary_now or incident.summary,
                until=incident.resolved_at,
                step=incident.since_step if incident.since_step >= 0 else None,
                attempt=incident.attempt,
                id=incident.id,
                state=incident.state,
            )


def marks_document(published: bytes, asked: Range) -> dict[str, Any]:
    """Return the marks that begin in a range, or last into it."""
    document: dict[str, Any] = json.loads(published)
    document["marks"] = [
        mark
        for mark in document["marks"]
        if mark["at"] <= asked.to_s and _end(mark) >= asked.from_s
    ]
    return document


def _end(mark: dict[str, Any]) -> float:
    if mark["kind"] == INCIDENT and mark["until"] is None:
        return math.inf
    return float(mark["at"] if mark["until"] is None else mark["until"])


MARKS = View("marks", _job_marks, encoded)
