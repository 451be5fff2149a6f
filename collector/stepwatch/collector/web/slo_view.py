"""A job's SLOs in full: window, budget, burn rate, causes, and audit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stepwatch.collector.runtime.evaluation.job_state import job_state
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.slo.asked.site import Planned, apart
from stepwatch.collector.slo.asked.windows import RollingWindow
from stepwatch.collector.slo.burndown import course_of
from stepwatch.collector.slo.closing import attempt_steps
from stepwatch.collector.slo.objectives import Slo, SloStatus, counted_in
from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.collector.slo.slices import RunningSlices
from stepwatch.collector.slo.waste import CAUSES
from stepwatch.collector.state.job import LiveJob, RunKey
from stepwatch.collector.state.step_facts import clock_of
from stepwatch.collector.store.accounts import Generation
from stepwatch.collector.web.job_view import slo_line
from stepwatch.collector.web.schema.common import as_row
from stepwatch.collector.web.schema.slo import (
    AuditEntry,
    Burndown,
    CostlyIncident,
    JobSlos,
    Price,
    SloDetail,
)

_AMENDED_BY_RESUMES = ("goodput",)
"""SLIs for which a later attempt turns good steps bad."""
_MOST_INCIDENTS = 10
_HOUR = 3600.0


def job_slos(job: LiveJob, verdicts: Verdicts, now: float) -> JobSlos:
    """Return each SLO with its window, device time by cause, incidents, and audit.

    The audit lists planned time, repeated steps, and unreadable parts of the log.
    """
    attempts, clock = attempt_steps(job), clock_of(job.totals.steps_on)
    return {
        "job": job.name,
        "state": job_state(job.current, verdicts.open_incidents(), now),
        "slos": [
            _in_full(status, job, verdicts, attempts, clock) for status in verdicts.slo_statuses
        ],
        "open_incidents": len(verdicts.open_incidents()),
        "device_seconds": verdicts.accounts.seconds(),
        "causes": [str(cause) for cause in CAUSES],
    }


def _in_full(
    status: SloStatus,
    job: LiveJob,
    verdicts: Verdicts,
    attempts: Mapping[RunKey, AttemptSteps],
    clock: str | None,
) -> SloDetail:
    slo, slices = status.slo, verdicts.slices.get(status.slo.sli)
    first_s = slices.line.first_s if slices is not None else math.inf
    begins = slo.window.begins(verdicts.seen_s, first_s) if slices is not None else math.nan
    begins = max(begins, first_s) if math.isfinite(first_s) else begins
    return {
        **slo_line(status, clock),
        "window_begins_at": begins,
        "window_ends_at": verdicts.seen_s,
        "window_is_full": isinstance(slo.window, RollingWindow) and first_s < begins,
        "burn_rate_hour": _burn_in_last_hour(slo, slices, verdicts),
        "burndown": _burndown(status, slices, verdicts, begins),
        "price": _price(job, verdicts),
        "incidents": _incidents(verdicts, begins),
        "audit": sorted(
            (
                *_planned(verdicts.planned, begins, verdicts.seen_s),
                *_redone(slo.sli, attempts, begins),
                *_unread(job, begins),
            ),
            key=lambda entry: float(entry["from"]),
        ),
    }


def _burndown(
    status: SloStatus, slices: RunningSlices | None, verdicts: Verdicts, begins: float
) -> Burndown:
    """Return the course of the budget; empty while the budget is not evaluated."""
    if slices is None or status.budget_remaining is None:
        return {"at": [], "remaining": []}
    return as_row(
        Burndown,
        course_of(status.slo, slices.line, begins, verdicts.seen_s, _without(verdicts)),
    )


def _without(verdicts: Verdicts) -> list[tuple[float, float]]:
    return apart([(span.from_s, span.until_s) for span in verdicts.planned])


def _burn_in_last_hour(slo: Slo, slices: RunningSlices | None, verdicts: Verdicts) -> float | None:
    """Return the last hour's burn rate; None without data or without a budget."""
    if slices is None or slo.limit is not None:
        return None
    counted = counted_in(slo, slices.line, verdicts.seen_s, _HOUR, _without(verdicts))
    if not counted.total:
        return None
    return round(float((1 - counted.good / counted.total) / (1 - slo.target)), 4)


def _price(job: LiveJob, verdicts: Verdicts) -> Price | None:
    """Return the current price per device-second; None without a rate card."""
    rates = verdicts.rates
    price = rates.price(verdicts.seen_s, job.current.job_class) if rates else None
    return None if price is None else as_row(Price, price)


def _incidents(verdicts: Verdicts, begins: float) -> list[CostlyIncident]:
    """Return incidents that cost device time since the window began, costliest first."""
    incidents = [
        incident
        for incident in verdicts.incidents.values()
        if incident.device_seconds_lost > 0 and not incident.last_seen_at < begins
    ]
    incidents.sort(key=lambda incident: -incident.device_seconds_lost)
    return [
        {
            "id": incident.id,
            "kind": incident.kind,
            "cause": incident.cause,
            "rank": incident.rank,
            "node": incident.node,
            "device_seconds_lost": incident.device_seconds_lost,
            "cost": incident.cost,
            "currency": incident.currency,
        }
        for incident in incidents[:_MOST_INCIDENTS]
    ]


def _planned(planned: Iterable[Planned], begins: float, ends: float) -> Iterator[AuditEntry]:
    for span in planned:
        if span.until_s > begins and span.from_s < ends:
            text = f"planned, counts for nothing: {span.why}"
            yield {"from": span.from_s, "until": span.until_s, "what": "planned", "text": text}


def _redone(
    sli: str, attempts: Mapping[RunKey, AttemptSteps], begins: float
) -> Iterator[AuditEntry]:
    """Yield steps that were good until a later attempt repeated them."""
    if sli not in _AMENDED_BY_RESUMES:
        return
    for number, attempt in enumerate(attempts.values()):
        steps = attempt.steps
        if not steps.lost.any():
            continue
        ends = steps.end_s[steps.lost]
        if float(ends[-1]) <= begins:
            continue
        first, last = int(steps.lost.argmax()), len(steps.lost) - 1
        first, last = first + attempt.first_step, last + attempt.first_step
        text = (
            f"steps {first} to {last} of run {number} were done again after a restart: "
            "their device-time no longer is good"
        )
        began = float(ends[0] - steps.allocated[steps.lost][0])
        yield {"from": began, "until": float(ends[-1]), "what": "amended", "text": text}


def _unread(job: LiveJob, begins: float) -> Iterator[AuditEntry]:
    for part in job.unread:
        if part.until_s > begins:
            text = f"{part.segments} segments of the log cannot be read: coverage is lower"
            yield {"from": part.from_s, "until": part.until_s, "what": "unread", "text": text}


def with_generations(
    document: dict[str, Any], generations: Mapping[str, Iterable[Generation]]
) -> dict[str, Any]:
    """Return the document, each SLO with its former objectives and their dates."""
    slos = [
        {
            **slo,
            "generations": [
                generation._asdict() for generation in generations.get(slo["name"], ())
            ],
        }
        for slo in document["slos"]
    ]
    return {**document, "slos": slos}
