"""Which SLIs there are: a file in `slis` each."""

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
    """What an SLI is computed from: the steps held of one attempt, and its baseline step time.

    `baseline_seconds` (steps,) is that on the clock of each step, NaN while too few are known.
    `dropped` is what is left of earlier steps, None where there are none; the first of the steps is
    `first_step`. A later attempt redoes those from `redone_from` on, if any.
    """

    steps: StepFacts
    baseline_seconds: Vector
    dropped: DroppedSteps | None = None
    first_step: int = 0
    redone_from: int | None = None


class Standing(Enum):
    """Which device-time in no step an SLI counts: none, that of stalls, or all but evaluations and
    saves that go on: these count once their step ends."""

    NONE = "none"
    STALLS = "stalls"
    ALL = "all"


class Sli(NamedTuple):
    """One SLI: its name in documents and metrics, and good and total device-seconds per step.

    `good_and_total` returns two arrays (steps,) in the order of the attempt's steps. Device-time in
    no step is bad as far as it `counts`.
    """

    name: str
    good_and_total: Callable[[AttemptSteps], tuple[Vector, Vector]]
    counts: Standing = Standing.NONE


def discover() -> Mapping[str, Sli]:
    """All SLIs by name, in the order of their names.

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
