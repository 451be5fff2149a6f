"""What is not looked for in a job, since a detector raised: the others go on."""

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
    """What detectors raised, by the kinds that they look for.

    It is logged unless it was so in the evaluation `previous`.
    """
    reasons: dict[str, str] = {}
    for kinds, error in failures:
        names = sorted(kind.value for kind in kinds)
        reasons |= dict.fromkeys(names, f"{type(error).__name__}: {error}")
        if not set(names) <= set(previous):
            logger.error("cannot look for %s in job %s", ", ".join(names), job, exc_info=error)
    return reasons
