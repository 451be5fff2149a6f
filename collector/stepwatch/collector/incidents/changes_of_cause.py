"""When what makes a job slow is said to have another cause. Pure.

A detector looks at a few seconds, and on a busy machine what they show goes to and fro. Each change
is a notice that a person reads, so an incident changes its cause where the other one was found for
clearly longer, lately.
"""

from __future__ import annotations

import math

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.incidents.attribution import OPEN_CAUSES
from stepwatch.collector.incidents.model import Incident
from stepwatch.signals.names import Cause

FORGETS_SECONDS = 120.0
"""What was found so long ago counts for a third: a cause that really changes, changes in about two
minutes."""
TIMES_LONGER = 2.0
LEAST_SECONDS = 15.0
"""Another cause must have been found so much longer than the one that is said, and for so long."""
_OPEN = frozenset(cause.value for cause in OPEN_CAUSES)


def causes_seen(incident: Incident, finding: Finding, elapsed: float) -> dict[str, float]:
    """For how long each cause in a phase was found, as of now: `elapsed` more seconds of the one
    that `finding` names, if it shows now."""
    decay = math.exp(-elapsed / FORGETS_SECONDS)
    cause_seconds = {name: seconds * decay for name, seconds in incident.cause_seconds.items()}
    if finding.shows_now:
        name = _name(finding.cause.value, finding.phase)
        cause_seconds[name] = cause_seconds.get(name, 0.0) + min(
            elapsed, LEAST_SECONDS
        )  # it may have been away
    return {name: round(seconds, 3) for name, seconds in cause_seconds.items() if seconds >= 0.5}


def replaces_cause(incident: Incident, finding: Finding, cause_seconds: dict[str, float]) -> bool:
    """Whether the cause and phase of `finding` are said from now on.

    At once where a fact explains what had no reason before, and never the other way round.
    """
    if not finding.shows_now:
        return False
    previous, now = _specificity(incident.cause), _specificity(finding.cause.value)
    if previous != now:
        return now > previous
    new_seconds = cause_seconds.get(_name(finding.cause.value, finding.phase), 0.0)
    current_seconds = cause_seconds.get(_name(incident.cause, incident.phase), 0.0)
    return new_seconds >= max(LEAST_SECONDS, TIMES_LONGER * current_seconds)


def _specificity(cause: str) -> int:
    """How much a cause says: nothing, what happens, or why."""
    return 0 if cause == Cause.UNKNOWN.value else 1 if cause in _OPEN else 2


def _name(cause: str, phase: str) -> str:
    return f"{cause} in {phase}"
