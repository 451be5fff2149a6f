"""Kinds of findings missing because a detector raised; other detectors continue."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from stepwatch.signals.names import FindingKind

logger = logging.getLogger(__name__)


def not_looked_for(
    job: str,
    failures: Iterable[tuple[frozenset[FindingKind], BaseException]],
    previous: Collection[str],
) -> dict[str, str]:
    """Return the errors that detectors raised, by kind of finding.

    An error is logged unless it occurred in the `previous` evaluation.
    """
    reasons: dict[str, str] = {}
    for kinds, error in failures:
        names = sorted(kind.value for kind in kinds)
        reasons |= dict.fromkeys(names, f"{type(error).__name__}: {error}")
        if not set(names) <= set(previous):
            logger.error("cannot look for %s in job %s", ", ".join(names), job, exc_info=error)
    return reasons
