"""Results of a job's newest evaluations, and the facts for run SLIs."""

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
"""Drift between wall and monotonic clock beyond which the wall clock was set."""


@dataclass
class Verdicts:
    """Results of a job's newest evaluations."""

    slo_statuses: list[SloStatus] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    incidents: dict[str, Incident] = field(default_factory=dict)
    slices: dict[str, RunningSlices] = field(default_factory=dict)
    """Slices by SLI name."""
    accounts: Accounts = field(default_factory=Accounts)
    planned: list[Planned] = field(default_factory=list)
    """Planned work that does not count for the job's class."""
    rates: RateCard | None = None
    """The price of device time; None without a rate card."""
    seen_s: float = 0.0
    """Time up to which slices are complete, in Unix seconds: SLO windows end here."""
    stalled_seconds: float = math.nan
    one_node_speed: float = math.nan
    """Tokens per second and device in the class's other jobs on one node."""
    clocks: tuple[float, float] | None = None
    """Wall and monotonic seconds at the newest evaluation."""
    failed_at: float = math.nan
    """The first report that the newest attempt failed on all ranks, in Unix seconds.

    NaN if the attempt has not failed, or ended in another way.
    """
    limit_readings: dict[str, Reading] = field(default_factory=dict)
    """Run SLIs with a limit, and their reading time (monotonic)."""
    limits_read_s: float = -math.inf
    not_looked_for: dict[str, str] = field(default_factory=dict)
    """Kinds of findings whose detector raised in the newest evaluation, with the error."""
    unconfirmed: bool = False
    """Whether the newest write failed; the store may hold it all the same."""
    nothing: FoundNothing = field(default_factory=FoundNothing)
    """Detectors without findings, skipped until steps change."""
    settled_at: float = 0.0
    """`received_s` at the job's last evaluation; 0 while it runs."""

    def open_incidents(self) -> list[Incident]:
        """Return the open incidents."""
        return [incident for incident in self.incidents.values() if incident.state == "open"]

    def follow_clock(self, wall_s: float, monotonic_s: float) -> None:
        """Shift open incidents after a wall clock change, so that their age stays the same.

        Otherwise an hour that never passed would cost device-seconds, or keep an incident open.
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
    """Return the facts that run SLIs read from an evaluated job, at Unix time `now`."""
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
