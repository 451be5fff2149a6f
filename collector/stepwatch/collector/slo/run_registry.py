"""Which SLIs over a run there are, and all of their readings of a job."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from stepwatch.collector.slo import run_slis
from stepwatch.collector.slo.run_sli import JobFacts, Reading, RunSli


@cache
def discover_run_slis() -> Mapping[str, RunSli]:
    """All of them by name: those that the field numbers in its order, then the others.

    Raises:
        LookupError: a file names no SLI, or one that another file names.
    """
    found: dict[str, RunSli] = {}
    for module in pkgutil.walk_packages(run_slis.__path__, f"{run_slis.__name__}."):
        if module.ispkg:
            continue
        named = getattr(import_module(module.name), "SLIS", ())
        if not named or any(sli.name in found for sli in named):
            raise LookupError(f"{module.name} must name SLIS of its own")
        found |= {sli.name: sli for sli in named}
    return dict(sorted(found.items(), key=lambda item: (_number(item[1]), item[0])))


def _number(sli: RunSli) -> int:
    return int(sli.mission.removeprefix("M")) if sli.mission else 1 << 10


def readings(facts: JobFacts) -> dict[str, Reading]:
    """What each SLI is of a job."""
    return {name: sli.measure(facts) for name, sli in discover_run_slis().items()}


def definitions() -> list[dict[str, str]]:
    """What each SLI is: for documentation, and for whoever writes an SLO."""
    return [
        {field: value for field, value in sli._asdict().items() if isinstance(value, str)}
        for sli in discover_run_slis().values()
    ]
