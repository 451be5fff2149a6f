"""When the reported cause of slowness changes. Pure.

A detector evaluates a few seconds, and on a busy machine their result alternates. Each change is a
notice that a person reads, so an incident changes its cause only if the other one was found for
clearly longer, lately.
"""

from __future__ import annotations

import math

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.incidents.attribution import OPEN_CAUSES
from stepwatch.collector.incidents.model import Incident
from stepwatch.signals.names import Cause, FindingKind

FORGETS_SECONDS = 120.0
"""Decay time: a finding this old counts for a third; a real change takes about two minutes."""
TIMES_LONGER = 2.0
LEAST_SECONDS = 15.0
"""Another cause must have been found this much longer than the reported one, and this long."""
_OPEN = frozenset(cause.value for cause in OPEN_CAUSES)
_REASONS = (Cause.LEARNING_RATE.value, Cause.DATA_SHARD.value)


def causes_seen(incident: Incident, finding: Finding, elapsed: float) -> dict[str, float]:
    """Return for how long each cause in a phase was found, in seconds.

    The cause in `finding` gains `elapsed` seconds if it shows now.
    """
    decay = math.exp(-elapsed / FORGETS_SECONDS)
    cause_seconds = {name: seconds * decay for name, seconds in incident.cause_seconds.items()}
    if finding.shows_now:
        name = _name(finding.cause.value, finding.phase)
        cause_seconds[name] = cause_seconds.get(name, 0.0) + min(
            elapsed, LEAST_SECONDS
        )  # it may have been absent
    return {name: round(seconds, 3) for name, seconds in cause_seconds.items() if seconds >= 0.5}


def replaces_cause(incident: Incident, finding: Finding, cause_seconds: dict[str, float]) -> bool:
    """Return whether the cause and phase of `finding` replace the reported ones.

    A fact that explains an unexplained cause replaces it at once, and never the reverse.
    """
    if not finding.shows_now:
        return False
    previous, now = _specificity(incident.cause), _specificity(finding.cause.value)
    if previous != now:
        return now > previous
    new_seconds = cause_seconds.get(_name(finding.cause.value, finding.phase), 0.0)
    current_seconds = cause_seconds.get(_name(incident.cause, incident.phase), 0.0)
    return new_seconds >= max(LEAST_SECONDS, TIMES_LONGER * current_seconds)


def keeps_reason(incident: Incident, finding: Finding) -> bool:
    """Return whether the reason for a loss stays as named: its records have become too old."""
    of_loss = finding.kind is FindingKind.LOSS_ANOMALY
    return of_loss and incident.cause in _REASONS and finding.cause.value not in _REASONS


def _specificity(cause: str) -> int:
    """Return how specific a cause is: nothing, the effect, or the reason."""
    return 0 if cause == Cause.UNKNOWN.value else 1 if cause in _OPEN else 2


def _name(cause: str, phase: str) -> str:
    return f"{cause} in {phase}"
