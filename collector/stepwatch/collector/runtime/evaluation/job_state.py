"""A job's state in one word: running and how well, or how it ended."""

from __future__ import annotations

from collections.abc import Iterable

from stepwatch.collector.detect import telemetry
from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.incidents.states import ALERT
from stepwatch.collector.job_states import (
    DEGRADED,
    FAILED,
    FINISHED,
    INTERRUPTED,
    RUNNING,
    STALLED,
    UNKNOWN,
)
from stepwatch.collector.state.attempt import Attempt
from stepwatch.signals.names import Cause

ABANDONED_SECONDS = 24 * 3600.0
"""Time without data after which a job without a reported end counts as abandoned."""


def job_state(attempt: Attempt, open_incidents: Iterable[Incident], now: float) -> str:
    """Return a job's state at Unix time `now`, from `job_states.py`.

    An active job is `running` only without an alerting incident. It is `stalled` if an incident
    takes all its throughput, else `degraded`, and `unknown` while its telemetry is missing.
    """
    if attempt.outcome.finished:
        return FINISHED
    if has_ended(attempt, now):
        ended = INTERRUPTED if attempt.outcome.interrupted else UNKNOWN
        return FAILED if attempt.outcome.failed else ended
    stale = now - attempt.received_s > telemetry.LIMITS.least_seconds
    incidents = list(open_incidents)
    if stale or not attempt.world or any(map(_hides_all, incidents)):
        return UNKNOWN
    if is_stalled(incidents):
        return STALLED
    return DEGRADED if any(incident.severity == ALERT for incident in incidents) else RUNNING


def is_stalled(open_incidents: Iterable[Incident]) -> bool:
    """Return whether an alerting incident takes all throughput."""
    alerts = (incident for incident in open_incidents if incident.severity == ALERT)
    return any(incident.throughput_lost_ratio == 1.0 for incident in alerts)


def _hides_all(incident: Incident) -> bool:
    """Return whether the whole job is unobserved.

    If some nodes report, their ranks are observed.
    """
    partly = (Cause.NODE_STALE, Cause.NOT_WATCHED)
    return incident.kind == "telemetry-lost" and incident.cause not in partly


def has_ended(attempt: Attempt, now: float) -> bool:
    """Return whether the attempt has ended."""
    stopped = attempt.outcome.failed or attempt.outcome.interrupted
    if attempt.outcome.finished or (stopped and _all_gone(attempt)):
        return True
    return is_abandoned(attempt, now)


def is_abandoned(attempt: Attempt, now: float) -> bool:
    """Return whether the attempt has sent nothing for so long that it counts as abandoned."""
    return now - attempt.received_s > ABANDONED_SECONDS


def _all_gone(attempt: Attempt) -> bool:
    return all(
        rank in attempt.lifecycle.ended or attempt.outcome.is_gone(rank)
        for rank in attempt.ranks.views
    )
