"""Discovery of SLIs: one file in `slis` each."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from enum import Enum
from importlib import import_module
from typing import NamedTuple

from stepwatch.collector.slo import slis
from stepwatch.collector.state.trackers.steps.dropped_steps import DroppedSteps
from stepwatch.collector.state.trackers.steps.step_history import StepFacts
from stepwatch.signals.arrays import Vector


class AttemptSteps(NamedTuple):
    """Input for an SLI: one attempt's steps in memory, and its baseline step time.

    `baseline_seconds` (steps,) is on each step's clock, NaN while too few steps are known.
    `dropped` is the summary of earlier steps, None without any. `first_step` is the first step in
    memory. A later attempt redoes steps from `redone_from` on, if set.
    """

    steps: StepFacts
    baseline_seconds: Vector
    dropped: DroppedSteps | None = None
    first_step: int = 0
    redone_from: int | None = None


class Standing(Enum):
    """Device-time outside steps that an SLI counts: none, stalls, or all.

    Running evaluations and saves are not included in all: they count once their step ends.
    """

    NONE = "none"
    STALLS = "stalls"
    ALL = "all"


class Sli(NamedTuple):
    """One SLI: its name in documents and metrics, and good and total device-seconds per step.

    `good_and_total` returns two arrays (steps,) in the attempt's step order. `counts` is the
    device-time outside steps that counts as bad.
    """

    name: str
    good_and_total: Callable[[AttemptSteps], tuple[Vector, Vector]]
    counts: Standing = Standing.NONE


def discover() -> Mapping[str, Sli]:
    """Return all SLIs by name, sorted.

    Raises:
        LookupError: a file names no SLI, or one that another file names.
    """
    by_name: dict[str, Sli] = {}
    for module in pkgutil.iter_modules(slis.__path__):
        sli = getattr(import_module(f"{slis.__name__}.{module.name}"), "SLI", None)
        if not isinstance(sli, Sli) or sli.name in by_name:
            raise LookupError(f"slo/slis/{module.name}.py must name one SLI of its own")
        by_name[sli.name] = sli
    return dict(sorted(by_name.items()))
