"""Definition and input of an SLI over a run. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

from stepwatch.collector.slo.closing import attempt_steps
from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.collector.slo.slice_line import Window
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob, RunKey


class Reading(NamedTuple):
    """An SLI's value; NaN with the reason in `unknown`.

    `events` counts events, steps or devices, NaN if undefined. `low` and `high` are its 90 %
    interval, NaN without one. `detail` adds a note.
    """

    value: float
    events: float = math.nan
    low: float = math.nan
    high: float = math.nan
    detail: str = ""
    unknown: str = ""


def unknown(reason: str) -> Reading:
    """Return a missing reading with its reason: never 0, and never left out."""
    return Reading(math.nan, unknown=reason)


class Cost(NamedTuple):
    """A job's device-time cost in a currency.

    `without_rate` is the device-seconds on days without a rate, whose cost is unknown, `tokens` the
    tokens of kept steps.
    """

    money: float
    currency: str
    without_rate: float
    tokens: int


class JobFacts:
    """Input for SLIs over a run, at one time.

    Args:
        job: the job, with all received segments folded in.
        state: running, finished, failed, interrupted, or unknown.
        device_seconds: allocated device-seconds by cause, empty before the first accounting.
        cost: cost for that device-time, None without a rate card.
        ratios: SLI sums over slices, by name.
        incidents: opened incidents by kind.
        one_node_speed: tokens per second and device for jobs in its class on one node, NaN unknown.
        now_s: Unix seconds.
    """

    def __init__(
        self,
        job: LiveJob,
        state: str,
        device_seconds: Mapping[str, float],
        cost: Cost | None,
        ratios: Mapping[str, Window],
        incidents: Mapping[str, int],
        one_node_speed: float,
        now_s: float,
    ) -> None:
        self.job = job
        self.state = state
        self.device_seconds = device_seconds
        self.cost = cost
        self.ratios = ratios
        self.incidents = incidents
        self.one_node_speed = one_node_speed
        self.now_s = now_s

    @cached_property
    def attempts(self) -> Mapping[RunKey, AttemptSteps]:
        """The counted steps, by run; most SLIs need none."""
        return attempt_steps(self.job)

    @cached_property
    def runs(self) -> list[tuple[Attempt, int | None]]:
        """All runs in order, each with the step at which a later one resumed."""
        return list(self.job.runs().values())

    @property
    def allocated(self) -> float:
        """Allocated device-seconds; 0.0 before the first accounting."""
        return sum(self.device_seconds.values())

    def share(self, *causes: str) -> Reading:
        """Return the share of the allocated device-time that went to these causes."""
        if not self.allocated > 0:
            return unknown("no device-time is accounted yet")
        return Reading(
            sum(self.device_seconds.get(cause, 0.0) for cause in causes) / self.allocated
        )


class RunSli(NamedTuple):
    """An SLI over a run.

    `name` is the name in documents, `mission` its number in the field's list, empty without one.
    `what` is measured by `formula` in `unit`, weighted by `weight`. `expected` is the usual or
    required value, `trap` a pitfall, `needs` the input records.
    """

    name: str
    mission: str
    what: str
    formula: str
    unit: str
    weight: str
    expected: str
    trap: str
    needs: str
    measure: Callable[[JobFacts], Reading]
