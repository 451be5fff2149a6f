"""Health as a state of its own: unknown is never healthy, and never zero."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Health(Enum):
    """What is known about a subject at one moment."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    FAILED = "failed"
    UNKNOWN = "unknown"


_WORST_FIRST = (Health.FAILED, Health.DEGRADED, Health.UNKNOWN, Health.HEALTHY)


def worst(states: Iterable[Health]) -> Health:
    """Fold several states into one; no state at all is `UNKNOWN`.

    A known fault outranks missing data, and missing data outranks health.
    """
    seen = set(states)
    return next((state for state in _WORST_FIRST if state in seen), Health.UNKNOWN)
