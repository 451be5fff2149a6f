"""Whether a job runs, has ended and how, or nobody knows."""

from __future__ import annotations

from collections.abc import Iterable

from stepwatch.collector.detect import telemetry
from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.state.attempt import Attempt
from stepwatch.signals.names import Cause

ABANDONED_SECONDS = 24 * 3600.0
"""Silence after which a job that never said its end is no longer expected to run."""


def job_state(attempt: Attempt, open_incidents: Iterable[Incident], now: float) -> str:
    """running, finished, interrupted, failed, or unknown while its telemetry is lost."""
    if attempt.finished:
        return "finished"
    if has_ended(attempt, now):
        ended = "interrupted" if attempt.interrupted else "unknown"
        return "failed" if attempt.failed else ended
    stale = now - attempt.received_s > telemetry.LIMITS.least_seconds
    if stale or not attempt.world:
        return "unknown"
    if any(_hides_all(incident) for incident in open_incidents):
        return "unknown"
    return "running"


def _hides_all(incident: Incident) -> bool:
    """Whether nothing of the job is observed: where some of its nodes report, their ranks tell."""
    return incident.kind == "telemetry-lost" and incident.cause != Cause.NODE_STALE


def has_ended(attempt: Attempt, now: float) -> bool:
    """Whether nothing more is expected of the attempt."""
    stopped = attempt.failed or attempt.interrupted
    if attempt.finished or (stopped and _all_gone(attempt)):
        return True
    return is_abandoned(attempt, now)


def is_abandoned(attempt: Attempt, now: float) -> bool:
    """Whether nothing was received for so long that nobody will come back to it."""
    return now - attempt.received_s > ABANDONED_SECONDS


def _all_gone(attempt: Attempt) -> bool:
    return all(rank in attempt.ended or attempt.is_gone(rank) for rank in attempt.states)
