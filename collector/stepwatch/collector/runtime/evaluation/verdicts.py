"""Results of a job's newest evaluations, and the facts for run SLIs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.incidents.states import OPEN
from stepwatch.collector.runtime.evaluation.accounting import Accounts
from stepwatch.collector.runtime.evaluation.job_state import job_state
from stepwatch.collector.slo.asked.rates import RateCard
from stepwatch.collector.slo.asked.site import Planned
from stepwatch.collector.slo.objectives import SloStatus
from stepwatch.collector.slo.over_run.sli import JobFacts, Reading
from stepwatch.collector.slo.slices import RunningSlices
from stepwatch.collector.state.job import LiveJob

CLOCK_SET_SECONDS = 1.0
"""Drift between wall and monotonic clock beyond which the wall clock was set."""


class Clocks(NamedTuple):
    """Wall and monotonic seconds at one moment."""

    wall_s: float
    monotonic_s: float


class LimitReadings(NamedTuple):
    """Readings of the run SLIs with a limit, by SLI name, and their time (monotonic seconds)."""

    readings: Mapping[str, Reading]
    read_s: float


class OpenIncidents(NamedTuple):
    """A job's open incidents, and its class."""

    job: str
    job_class: str
    incidents: list[Incident]


NO_READINGS = LimitReadings({}, -math.inf)


@dataclass(frozen=True)
class Verdicts:
    """Results of a job's newest evaluations; each evaluation replaces them.

    The slices inside change in place, once they are stored.
    """

    job_class: str = ""
    """The newest attempt's class; empty before the first evaluation."""
    slo_statuses: Sequence[SloStatus] = ()
    findings: Sequence[Finding] = ()
    incidents: Mapping[str, Incident] = field(default_factory=dict)
    """Stored incidents, by identity."""
    slices: Mapping[str, RunningSlices] = field(default_factory=dict)
    """Slices by SLI name."""
    accounts: Accounts = field(default_factory=Accounts)
    planned: Sequence[Planned] = ()
    """Planned work that does not count for the job's class."""
    rates: RateCard | None = None
    """The price of device time; None without a rate card."""
    seen_s: float = 0.0
    """Time up to which slices are complete, in Unix seconds: SLO windows end here."""
    stalled_seconds: float = math.nan
    one_node_speed: float = math.nan
    """Tokens per second and device in the class's other jobs on one node."""
    clocks: Clocks | None = None
    """The clocks at the newest evaluation."""
    watched_from_s: float = math.nan
    """Monotonic time of this collector's first evaluation; NaN before."""
    failed_at: float = math.nan
    """The first report that the newest attempt failed on all ranks, in Unix seconds.

    NaN if the attempt has not failed, or ended in another way.
    """
    limit_readings: LimitReadings = NO_READINGS
    not_looked_for: Mapping[str, str] = field(default_factory=dict)
    """Kinds of findings whose detector raised in the newest evaluation, with the error."""
    settled_at: float = 0.0
    """`received_s` when the job last settled after its end; 0 before."""

    @property
    def has_trouble(self) -> bool:
        """Whether there is a finding or an open incident."""
        return bool(self.findings or self.open_incidents())

    def open_incidents(self) -> list[Incident]:
        """Return the open incidents."""
        return [incident for incident in self.incidents.values() if incident.state == OPEN]

    def incidents_on(self, clocks: Clocks) -> dict[str, Incident]:
        """Return the incidents by identity, on today's wall clock.

        A wall clock that was set shifts open incidents, so that their age stays the same.
        Otherwise an hour that never passed would cost device-seconds, or keep an incident open.
        """
        incidents = dict(self.incidents)
        previous = clocks if self.clocks is None else self.clocks
        jump = (clocks.wall_s - previous.wall_s) - (clocks.monotonic_s - previous.monotonic_s)
        if abs(jump) >= CLOCK_SET_SECONDS:
            for incident in self.open_incidents():
                seen_at = incident.last_seen_at + jump
                incidents[incident.id] = replace(incident, last_seen_at=seen_at)
        return incidents


def job_facts(job: LiveJob, verdicts: Verdicts, now: float) -> JobFacts:
    """Return the facts that run SLIs read from an evaluated job, at Unix time `now`."""
    return JobFacts(
        job=job,
        state=job_state(job.current, verdicts.open_incidents(), now),
        device_seconds=verdicts.accounts.seconds(),
        cost=verdicts.accounts.cost(verdicts.rates, job.current.job_class),
        ratios={name: slices.line.sums for name, slices in verdicts.slices.items()},
        incidents=Counter(incident.kind for incident in verdicts.incidents.values()),
        one_node_speed=verdicts.one_node_speed,
        now_s=now,
    )
