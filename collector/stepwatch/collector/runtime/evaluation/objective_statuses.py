"""A job's status for each objective."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from stepwatch.collector.runtime.evaluation.accounting import late_seconds
from stepwatch.collector.runtime.evaluation.job_state import is_stalled
from stepwatch.collector.runtime.evaluation.verdicts import LimitReadings, Verdicts, job_facts
from stepwatch.collector.slo.asked.burn import burning
from stepwatch.collector.slo.asked.site import Objectives
from stepwatch.collector.slo.burning import Burning
from stepwatch.collector.slo.objectives import SloStatus, evaluate_limit, evaluate_slo
from stepwatch.collector.slo.over_run.registry import readings
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.slo.states import SloState
from stepwatch.collector.state.job import LiveJob
from stepwatch.signals.clock import NANOSECONDS, Clock

LIMITS_EVERY_SECONDS = 10.0
"""Shortest interval between readings of run SLIs with a limit; see `late_seconds`."""


def with_objectives(
    verdicts: Verdicts, objectives: Objectives, job: LiveJob, clock: Clock
) -> Verdicts:
    """Return the verdicts with the status of each SLO for the job."""
    nothing = SliceLine()
    job_class = job.current.job_class
    slos, without = objectives.slos_for(job_class), objectives.without(job_class)
    limits = {slo.sli for slo in slos if slo.limit is not None}
    run_readings = _limit_readings(job, verdicts, limits, clock)
    stalled, statuses = is_stalled(verdicts.open_incidents()), []
    for slo in slos:
        if slo.limit is not None:
            statuses.append(evaluate_limit(slo, run_readings.readings[slo.sli]))
            continue
        slices = verdicts.slices.get(slo.sli)
        line = nothing if slices is None else slices.line
        status = evaluate_slo(slo, line, verdicts.seen_s, job.unread, without, stalled=stalled)
        if status.state not in (SloState.FROZEN, SloState.UNKNOWN):
            status = _with_burning(status, burning(slo, line, verdicts.seen_s, without))
        statuses.append(status)
    return replace(
        verdicts,
        slo_statuses=statuses,
        planned=objectives.planned_for(job_class),
        limit_readings=run_readings,
    )


def _with_burning(status: SloStatus, pairs: tuple[Burning, ...]) -> SloStatus:
    """Return the status with its burn alerts; with an alert it is no longer too early to tell."""
    too_early = bool(pairs) and status.state is SloState.TOO_EARLY
    return status._replace(burning=pairs, state=SloState.BURNING if too_early else status.state)


def _limit_readings(
    job: LiveJob, verdicts: Verdicts, names: Set[str], clock: Clock
) -> LimitReadings:
    """Return run SLIs by name; a running job's are read periodically."""
    newest, now_s = verdicts.limit_readings, clock.monotonic_ns() / NANOSECONDS
    every_seconds = late_seconds(job, LIMITS_EVERY_SECONDS)
    is_recent = now_s - newest.read_s < every_seconds and not job.current.outcome.is_over
    if not names or (is_recent and newest.readings.keys() >= names):
        return newest
    facts = job_facts(job, verdicts, clock.wall_ns() / NANOSECONDS)
    return LimitReadings(readings(facts, sorted(names)), now_s)
