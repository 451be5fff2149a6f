"""Which SLIs over a run there are, and all of their readings of a job."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module

from stepwatch.collector.slo.over_run import slis
from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown
from stepwatch.collector.state.live import CONTAINED

logger = logging.getLogger(__name__)


@cache
def discover_run_slis() -> Mapping[str, RunSli]:
    """All of them by name: those that the field numbers in its order, then the others.

    Raises:
        LookupError: a file names no SLI, or one that another file names.
    """
    by_name: dict[str, RunSli] = {}
    for module in pkgutil.walk_packages(slis.__path__, f"{slis.__name__}."):
        if module.ispkg:
            continue
        named = getattr(import_module(module.name), "SLIS", ())
        if not named or any(sli.name in by_name for sli in named):
            raise LookupError(f"{module.name} must name SLIS of its own")
        by_name |= {sli.name: sli for sli in named}
    return dict(sorted(by_name.items(), key=lambda item: (_number(item[1]), item[0])))


def _number(sli: RunSli) -> int:
    return int(sli.mission.removeprefix("M")) if sli.mission else 1 << 10


def readings(facts: JobFacts, names: Iterable[str] | None = None) -> dict[str, Reading]:
    """What each SLI is of a job, or those of `names`. One that cannot be computed is unknown."""
    available = discover_run_slis()
    return {
        name: _measured(available[name], facts) for name in (available if names is None else names)
    }


def _measured(sli: RunSli, facts: JobFacts) -> Reading:
    try:
        return sli.measure(facts)
    except CONTAINED as error:  # it is a figure less; the others stand
        logger.error("SLI %s of %s", sli.name, facts.job.name, exc_info=error)
        return unknown(f"it could not be computed: {type(error).__name__}")


def definitions() -> list[dict[str, str]]:
    """What each SLI is: for documentation, and for whoever writes an SLO."""
    return [
        {field: value for field, value in sli._asdict().items() if isinstance(value, str)}
        for sli in discover_run_slis().values()
    ]
