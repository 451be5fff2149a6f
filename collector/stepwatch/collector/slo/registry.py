"""Discovery of SLIs: one file in `slis` each."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property
from importlib import import_module
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo import slis
from stepwatch.collector.state.trackers.steps.dropped_steps import DroppedSteps
from stepwatch.collector.state.trackers.steps.step_history import StepFacts
from stepwatch.signals.arrays import Vector

STALL_TIMES, STALL_SECONDS = 8.0, 5.0
"""Above this many usual steps and seconds, a step is a stall: the hang detector's own limits."""


class _Input(NamedTuple):
    steps: StepFacts
    baseline_seconds: Vector
    dropped: DroppedSteps | None = None
    first_step: int = 0
    redone_from: int | None = None


class AttemptSteps(_Input):
    """Input for an SLI: one attempt's steps in memory, and its baseline step time.

    `baseline_seconds` (steps,) is on each step's clock, NaN while too few steps are known.
    `dropped` is the summary of earlier steps, None without any. `first_step` is the first step in
    memory. A later attempt redoes steps from `redone_from` on, if set. All are fixed: what several
    readers derive from them is derived once.
    """

    @cached_property
    def paused_seconds(self) -> Vector:
        """The seconds in each step (steps,) that ranks may wait for evaluations and saves.

        A rank that evaluates at the end of a step enters the next one late: all ranks' pauses in a
        step count in it and in the next one.
        """
        dropped = 0.0 if self.dropped is None else self.dropped.paused
        pauses = np.concatenate([[dropped], self.steps.pauses])
        return np.asarray(pauses[1:] + pauses[:-1])

    @cached_property
    def held_up_share(self) -> Vector:
        """The stalled share of each step (steps,); 0 while the usual step is unknown.

        It is the time beyond a usual step, if that is far more. Worked example: with a usual step
        of 0.5 s, a step of 25 s is 0.98 stalled, a step of 4 s not at all, and neither is a step of
        25 s in which a rank evaluates for 24 s.
        """
        baseline = self.baseline_seconds
        usual = np.where(np.isnan(baseline), np.inf, baseline)
        longest = self.steps.longest - self.paused_seconds
        stands = longest > np.maximum(STALL_TIMES * usual, usual + STALL_SECONDS)
        if not stands.any():  # nearly always
            return np.zeros(len(longest))
        share = np.divide(
            longest - usual, self.steps.longest, out=np.zeros_like(longest), where=stands
        )
        return np.where(stands, share, 0.0)


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
