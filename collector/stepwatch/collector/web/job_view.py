"""A job as one JSON object, for the API, the page, `status` and the demo's report."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import cast

import numpy as np

from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.incidents.states import ALERT
from stepwatch.collector.runtime.evaluation.job_state import job_state
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.slo.objectives import SloStatus, budget_words
from stepwatch.collector.slo.states import TOO_EARLY_WORDS, SloState
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.step_facts import (
    clock_of,
    first_and_last_loss,
    step_lengths,
    tokens_per_second,
)
from stepwatch.collector.state.trackers import shared_name
from stepwatch.collector.state.trackers.communication.links import Links
from stepwatch.collector.state.trackers.devices.device_steps import DeviceSteps
from stepwatch.collector.state.trackers.nodes.agents import Agents
from stepwatch.collector.state.trackers.numerics import Numerics
from stepwatch.collector.web.breakdown.parts import breakdown
from stepwatch.collector.web.breakdown.ranks import rank_summaries, ranks_by_cost
from stepwatch.collector.web.fleet.entry import fleet_fields
from stepwatch.collector.web.recorded.resumes_view import job_resumes
from stepwatch.collector.web.schema.common import Money, as_row
from stepwatch.collector.web.schema.incident import JobIncident
from stepwatch.collector.web.schema.job import (
    Checkpoint,
    Heatmap,
    JobLine,
    JobSummary,
    Pace,
    SharedName,
    TrackerRun,
    Unread,
    WorstIncident,
)
from stepwatch.collector.web.schema.slo import SloLine
from stepwatch.signals.arrays import Vector

RECENT_STEPS = 50
LISTED_RANKS = ("first", "none")
"""Which ranks a job's answer lists: where they are many, they are nearly all of its bytes."""


def job_line(job: LiveJob, verdicts: Verdicts, now: float) -> JobLine:
    """Return the job's list entry.

    `reason` and `since` say why nothing is known about the job yet; else both are null.
    """
    attempt = job.current
    why = attempt.waiting.reason(attempt.claims) or None
    return {
        "job": job.name,
        "attempt": attempt.number,
        "state": job_state(attempt, verdicts.open_incidents(), now),
        "reason": why,
        "since": job.first_s if why else None,
        "world_size": attempt.world,
        "step": _newest_step(attempt),
        "newest_record_at": attempt.received_s,
        "open_incidents": len(verdicts.open_incidents()),
        "worst": _worst(verdicts),
        "slos": [
            slo_line(status, clock_of(job.totals.steps_on)) for status in verdicts.slo_statuses
        ],
        **fleet_fields(job, verdicts, now),
    }


def cost_so_far(job: LiveJob, verdicts: Verdicts) -> Money | None:
    """Return the price of a job's device time; None without a rate card."""
    cost = verdicts.accounts.cost(verdicts.rates, job.current.job_class)
    return None if cost is None else as_row(Money, cost)


def _newest_step(attempt: Attempt) -> int | None:
    """Return the newest step that every rank reported; None before the first."""
    history = attempt.steps.history
    newest = attempt.attendance.complete_until if attempt.world and len(history) else -1
    return newest if newest >= history.first and len(history) else None


def _worst(verdicts: Verdicts) -> WorstIncident | None:
    """Return the open alert with the highest cost, else such an incident; None without any."""
    worst = max(verdicts.open_incidents(), key=_badness, default=None)
    if worst is None:
        return None
    lost = worst.throughput_lost_ratio
    return {
        "id": worst.id,
        "kind": worst.kind,
        "summary": worst.summary,
        "severity": worst.severity,
        "began_at": worst.began_at,
        "throughput_lost_ratio": None if lost is None or math.isnan(lost) else round(lost, 2),
    }


def _badness(incident: Incident) -> tuple[bool, float, float, str]:
    ratio = incident.throughput_lost_ratio
    cost = -1.0 if ratio is None or math.isnan(ratio) else ratio
    return incident.severity == ALERT, cost, -incident.opened_at, incident.id


def job_summary(
    job: LiveJob, verdicts: Verdicts, now: float, lists_ranks: bool = True
) -> JobSummary:
    """Return all data about a job except its heatmap."""
    attempt = job.current
    resumes, unknown = job_resumes(job), job.redone_unknown
    incidents = sorted(verdicts.incidents.values(), key=lambda item: (item.opened_at, item.id))
    return {
        **job_line(job, verdicts, now),
        **pace(job),
        **breakdown(attempt),
        "links": [as_row(TrackerRun, link) for link in attempt.tracker(Links).links()],
        "ranks": rank_summaries(attempt) if lists_ranks else [],
        "ranks_by_cost": ranks_by_cost(attempt),
        "checkpoints": [as_row(Checkpoint, item) for _, item in job.checkpoints()],
        "incidents": [cast(JobIncident, incident.document()) for incident in incidents],
        "attempts": [
            {
                "attempt": run.number,
                "began_at": run.lifecycle.began_s,
                "first_step": run.steps.history.first,
                "steps": len(run.steps.history),
                "resume": resumes.get(run.number),
                "redone_from": None if (run.number, len(run.runs)) in unknown else lost,
            }
            for run, lost in job.ordered()
        ],
        "device_seconds": verdicts.accounts.seconds(),
        "cost": cost_so_far(job, verdicts),
        "shared_name": _shared_name(attempt, now),
        "averaging": [
            {"ranks": item.members, "period_steps": item.known_period, "newest_step": item.step}
            for item in attempt.tracker(Numerics).replicas.averaging.values()
        ],
        "lost_records": attempt.tracker(Agents).lost_records,
        "refused_records": attempt.refused_records,
        "late_records": _late_records(attempt),
        "unread": [as_row(Unread, part) for part in job.unread],
        "not_looked_for": {**verdicts.not_looked_for},
    }


def _late_records(attempt: Attempt) -> int:
    """Return the number of records for steps no longer in the history; they have no effect."""
    return attempt.steps.history.dropped.late_rows + attempt.tracker(DeviceSteps).lengths.late_rows


def _shared_name(attempt: Attempt, now: float) -> SharedName | None:
    """Return the first rank that two nodes report at the same time, with the nodes.

    None without one.
    """
    nodes_by_rank = attempt.tracker(shared_name.SharedName).sharing(now)
    if not nodes_by_rank:
        return None
    rank = min(nodes_by_rank)
    return {"ranks": len(nodes_by_rank), "rank": rank, "nodes": sorted(nodes_by_rank[rank])}


def pace(job: LiveJob) -> Pace:
    """Return loss over all attempts, and the newest attempt's speed and step time; null if unknown.

    Step times cover the newest steps in the history, on the clock that timed most of them;
    `steps_on` counts steps by clock.
    """
    attempt = job.current
    losses = first_and_last_loss([run for run, _ in job.ordered()])
    lengths, recent = step_lengths(attempt), step_lengths(attempt, RECENT_STEPS)
    longest = lengths.seconds
    return {
        "loss_first": losses[0] if losses else None,
        "loss_last": losses[1] if losses else None,
        "tokens_per_second": tokens_per_second(attempt),
        "step_seconds": {
            "p50": _percentile(longest, 50),
            "p95": _percentile(longest, 95),
            "p99": _percentile(longest, 99),
        },
        "step_seconds_clock": lengths.clock,
        "steps_on": {str(clock): count for clock, count in lengths.steps_on.items()},
        "recent_step_seconds": float(np.median(recent.seconds)) if len(recent.seconds) else None,
        "recent_step_seconds_clock": recent.clock,
    }


def _percentile(values: Vector, percent: int) -> float | None:
    return float(np.percentile(values, percent)) if len(values) else None


def slo_line(status: SloStatus, clock: str | None) -> SloLine:
    slo = status.slo
    return {
        "name": slo.name,
        "sli": slo.sli,
        "state": status.state.value,
        "clock": clock,
        "target": None if slo.limit is not None else float(slo.target),
        "limit": None if slo.limit is None else slo.limit.words,
        "time_slices": None if slo.time_slices is None else slo.time_slices.words,
        "window": slo.window.words,
        "revision": slo.revision,
        "generation": slo.generation or None,
        "since": None if math.isnan(slo.since_s) else slo.since_s,
        "ratio": _rounded(status.ratio, 6),
        "budget_remaining": _rounded(status.budget_remaining, 6),
        "budget": _budget_words(status),
        "burn_rate": _rounded(status.burn_rate, 4),
        "burning": [
            {
                "severity": alert.pair.severity,
                "budget_share": float(alert.pair.budget_share),
                "seconds": alert.pair.long_seconds,
                "rate": _rounded(alert.rate, 4),
                "limit": _rounded(alert.limit, 4),
            }
            for alert in status.burning
        ],
        "coverage": _rounded(status.coverage, 6),
        "lost_device_seconds": _rounded(status.lost_seconds, 3),
        "allowed_device_seconds": _rounded(status.allowed_seconds, 3),
        "reason": status.reason,
    }


def _rounded(value: Decimal | None, digits: int) -> float | None:
    return None if value is None else float(round(value, digits))


def _budget_words(status: SloStatus) -> str:
    """Return the remaining budget, or a limit's state: a limit has no budget."""
    burns_early = status.state is SloState.BURNING and status.budget_remaining is None
    if status.state is SloState.TOO_EARLY or burns_early:
        return TOO_EARLY_WORDS
    if status.slo.limit is None:
        return budget_words(status.budget_remaining)
    return {SloState.OK: "within", SloState.EXHAUSTED: "missed"}.get(status.state, "unknown")


HEATMAP_METRICS: dict[str, tuple[str, ...]] = {
    "self_time": WORK,
    "step": ("duration",),
    "data": ("data",),
    "forward": ("forward",),
    "backward": ("backward",),
    "optimizer": ("optimizer",),
    "collective_wait": ("collective",),
    "pipeline_wait": ("pipeline_wait",),
    "device_idle": tuple(f"{name}_idle" for name in WORK),
}
"""Heatmap metrics, and the phases or waits that each one sums."""
MAX_RANK_BINS, MAX_STEP_BINS = 64, 160


def heatmap(attempt: Attempt, metric: str) -> Heatmap:
    """Return seconds over (rank bin, step bin): the maximum per bin, null if unknown.

    Raises:
        KeyError: the metric does not exist.
    """
    parts = HEATMAP_METRICS[metric]
    window = attempt.window(512)
    values = np.sum([window.planes[name] for name in parts], axis=0).astype(np.float64)
    rank_edges = _edges(attempt.world, MAX_RANK_BINS)
    step_edges = _edges(len(window.steps), MAX_STEP_BINS)
    cells = [
        [_known_max(values[low:high, first:last]) for low, high in itertools.pairwise(step_edges)]
        for first, last in itertools.pairwise(rank_edges)
    ]
    return {
        "metric": metric,
        "clock": window.clock,
        "attempt": attempt.number,
        "ranks": [(first, last - 1) for first, last in itertools.pairwise(rank_edges)],
        "steps": [
            (int(window.steps[low]), int(window.steps[high - 1]))
            for low, high in itertools.pairwise(step_edges)
        ],
        "seconds": cells,
    }


def _edges(count: int, bins: int) -> list[int]:
    return (
        [round(index * count / min(count, bins)) for index in range(min(count, bins) + 1)]
        if (count)
        else []
    )


def _known_max(cell: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float | None:
    finite = cell[~np.isnan(cell)]
    value = float(finite.max()) if finite.size else math.nan
    return round(value, 6) if math.isfinite(value) else None
