"""What an SLI over a run is: its definition, and what it reads. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.collector.slo.slice_line import Window
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob, RunKey


class Reading(NamedTuple):
    """The value of an SLI, NaN where it is `unknown`, which then says why.

    `events` is how many events, steps or devices it is made of, NaN where that means nothing;
    `low` and `high` are the ends of its 90 % interval, NaN where it has none; `detail` says more.
    """

    value: float
    events: float = math.nan
    low: float = math.nan
    high: float = math.nan
    detail: str = ""
    unknown: str = ""


def unknown(reason: str) -> Reading:
    """A reading that there is not, and why: never 0, and never left out."""
    return Reading(math.nan, unknown=reason)


class Cost(NamedTuple):
    """Money for a job's device-time, in a currency; the device-seconds of days without a rate, of
    which it is unknown; and the tokens of steps that were kept."""

    money: float
    currency: str
    without_rate: float
    tokens: int


class JobFacts:
    """What SLIs over a run read of a job at a time.

    Args:
        job: all that was received of it, folded.
        attempts: the steps that count, by run.
        state: running, finished, failed, interrupted, or unknown.
        device_seconds: allocated device-seconds by what they went to, empty before the first look.
        cost: of that device-time, None without a rate card.
        ratios: the sums of SLIs in slices, by name.
        incidents: how many incidents were opened, by kind.
        one_node_speed: tokens per second and device of jobs of its class on one node, NaN unknown.
        now_s: Unix seconds.
    """

    def __init__(
        self,
        job: LiveJob,
        attempts: Mapping[RunKey, AttemptSteps],
        state: str,
        device_seconds: Mapping[str, float],
        cost: Cost | None,
        ratios: Mapping[str, Window],
        incidents: Mapping[str, int],
        one_node_speed: float,
        now_s: float,
    ) -> None:
        self.job = job
        self.attempts = attempts
        self.state = state
        self.device_seconds = device_seconds
        self.cost = cost
        self.ratios = ratios
        self.incidents = incidents
        self.one_node_speed = one_node_speed
        self.now_s = now_s

    @cached_property
    def runs(self) -> list[tuple[Attempt, int | None]]:
        """All runs in their order, each with the step that a later one resumed at."""
        return list(self.job.runs().values())

    @property
    def allocated(self) -> float:
        """Allocated device-seconds; 0.0 before the first look at the accounts."""
        return sum(self.device_seconds.values())

    def share(self, *causes: str) -> Reading:
        """The share of the allocated device-time that went to these."""
        if not self.allocated > 0:
            return unknown("no device-time is accounted yet")
        return Reading(
            sum(self.device_seconds.get(cause, 0.0) for cause in causes) / self.allocated
        )


class RunSli(NamedTuple):
    """An SLI over a run.

    `name` as in documents, `mission` the number that the field's list gives it, empty for others;
    `what` is measured, by which `formula`, in `unit`, weighted by `weight`; `expected` is what is
    usual or asked for, `trap` what misleads, `needs` the records that it is computed from.
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
