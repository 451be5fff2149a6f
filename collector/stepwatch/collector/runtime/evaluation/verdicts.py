"""What the newest evaluations found in one job, and what SLIs over a run read of it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.unchanged import FoundNothing
from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.runtime.evaluation.accounting import Accounts
from stepwatch.collector.runtime.evaluation.job_state import job_state
from stepwatch.collector.slo.asked.rates import RateCard
from stepwatch.collector.slo.asked.site import Planned
from stepwatch.collector.slo.closing import attempt_steps
from stepwatch.collector.slo.objectives import SloStatus
from stepwatch.collector.slo.over_run.sli import JobFacts, Reading
from stepwatch.collector.slo.slices import RunningSlices
from stepwatch.collector.state.job import LiveJob

CLOCK_SET_SECONDS = 1.0
"""A wall clock that runs so far from the monotonic one between two evaluations was set."""


@dataclass
class Verdicts:
    """What the newest evaluations found in one job."""

    slo_statuses: list[SloStatus] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    incidents: dict[str, Incident] = field(default_factory=dict)
    slices: dict[str, RunningSlices] = field(default_factory=dict)
    """Those of each SLI, by its name."""
    accounts: Accounts = field(default_factory=Accounts)
    planned: list[Planned] = field(default_factory=list)
    """When work was planned that jobs of its class do not pay for."""
    rates: RateCard | None = None
    """What device-time costs, None where nobody said."""
    seen_s: float = 0.0
    """Up to when slices are known, Unix seconds: what windows of SLOs end with."""
    stalled_seconds: float = math.nan
    one_node_speed: float = math.nan
    """Tokens per second and device of other jobs of its class on one node."""
    clocks: tuple[float, float] | None = None
    """Wall and monotonic seconds of the newest evaluation."""
    failed_at: float = math.nan
    """When the newest attempt was first reported to have failed on all ranks, Unix seconds; NaN
    while it has not, or ended in another way."""
    limit_readings: dict[str, Reading] = field(default_factory=dict)
    """The SLIs over the run that SLOs have limits for, and when they were read (monotonic)."""
    limits_read_s: float = -math.inf
    not_looked_for: dict[str, str] = field(default_factory=dict)
    """Kinds of findings whose detector raised in the newest evaluation, and what."""
    unconfirmed: bool = False
    """Whether the newest write failed: the store may hold it all the same."""
    nothing: FoundNothing = field(default_factory=FoundNothing)
    """Detectors that need not be asked until steps change."""
    settled_at: float = 0.0
    """`received_s` of the attempt when the job was evaluated for the last time; 0 while it runs."""

    def open_incidents(self) -> list[Incident]:
        """Incidents that are open."""
        return [incident for incident in self.incidents.values() if incident.state == "open"]

    def follow_clock(self, wall_s: float, monotonic_s: float) -> None:
        """Where the wall clock was set, open incidents were seen as long ago as before.

        Without it an hour that never passed would cost device-seconds, or keep an incident open.
        """
        previous, self.clocks = self.clocks, (wall_s, monotonic_s)
        if previous is None:
            return
        jump = (wall_s - previous[0]) - (monotonic_s - previous[1])
        if abs(jump) < CLOCK_SET_SECONDS:
            return
        for incident in self.open_incidents():
            seen_at = incident.last_seen_at + jump
            self.incidents[incident.id] = replace(incident, last_seen_at=seen_at)


def job_facts(job: LiveJob, verdicts: Verdicts, now: float) -> JobFacts:
    """What SLIs over a run read of a job that is evaluated, at Unix time `now`."""
    return JobFacts(
        job=job,
        attempts=attempt_steps(job),
        state=job_state(job.current, verdicts.open_incidents(), now),
        device_seconds=verdicts.accounts.seconds(),
        cost=verdicts.accounts.cost(verdicts.rates, job.current.job_class),
        ratios={name: slices.line.sums for name, slices in verdicts.slices.items()},
        incidents=Counter(incident.kind for incident in verdicts.incidents.values()),
        one_node_speed=verdicts.one_node_speed,
        now_s=now,
    )
