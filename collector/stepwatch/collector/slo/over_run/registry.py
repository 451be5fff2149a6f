"""Discovery of SLIs over a run, and a job's readings."""

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
    """Return all run SLIs by name: numbered ones first, in that order, then the others.

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
    """Return each SLI's reading for a job, or only `names`; a failed one is unknown."""
    available = discover_run_slis()
    return {
        name: _measured(available[name], facts) for name in (available if names is None else names)
    }


def _measured(sli: RunSli, facts: JobFacts) -> Reading:
    try:
        return sli.measure(facts)
    except CONTAINED as error:  # one reading is missing; the others remain valid
        logger.error("SLI %s of %s", sli.name, facts.job.name, exc_info=error)
        return unknown(f"it could not be computed: {type(error).__name__}")


def definitions() -> list[dict[str, str]]:
    """Return each SLI's definition, for documentation and for SLO authors."""
    return [
        {field: value for field, value in sli._asdict().items() if isinstance(value, str)}
        for sli in discover_run_slis().values()
    ]
