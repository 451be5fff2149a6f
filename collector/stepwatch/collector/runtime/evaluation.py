"""One evaluation of a job: slices, SLOs, findings, incidents, and one write."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stepwatch.collector.analysis.class_throughput import ClassThroughput
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.hang import stalled_seconds
from stepwatch.collector.detect.node_fault import present_faults
from stepwatch.collector.detect.registry import (
    Detector,
    Needs,
    discover,
    failure_kinds,
    find,
    find_failures,
    kinds_that_need,
)
from stepwatch.collector.detect.unchanged import FoundNothing
from stepwatch.collector.incidents.inputs import attributed
from stepwatch.collector.incidents.lifecycle import advance
from stepwatch.collector.incidents.model import Held, Incident, Moment, incident_from
from stepwatch.collector.incidents.notices import notices_of
from stepwatch.collector.runtime.accounting import Accounts
from stepwatch.collector.runtime.detector_failures import not_looked_for
from stepwatch.collector.runtime.job_state import has_ended, is_abandoned, job_state
from stepwatch.collector.slo import registry as slis
from stepwatch.collector.slo.asked.burn import burning
from stepwatch.collector.slo.asked.rates import RateCard
from stepwatch.collector.slo.asked.site import Objectives, Planned
from stepwatch.collector.slo.closing import Limits, attempt_steps, close_old
from stepwatch.collector.slo.objectives import SloStatus, evaluate_limit, evaluate_slo
from stepwatch.collector.slo.over_run.registry import readings
from stepwatch.collector.slo.over_run.sli import JobFacts, Reading
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.slo.slices import RunningSlices
from stepwatch.collector.slo.standing import seen_until, standing
from stepwatch.collector.slo.states import SloState
from stepwatch.collector.slo.waste import Tail
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob, RunKey
from stepwatch.collector.store import Store
from stepwatch.collector.store.leases import Lease
from stepwatch.collector.store.slices import Slice
from stepwatch.signals.clock import NANOSECONDS, Clock

ENDED_GRACE_SECONDS = 10.0
"""After its end a job is evaluated a little longer: the last segments may still be on their way."""
_FOREVER_S = 1 << 40
LIMITS_EVERY_SECONDS = 10.0
"""Between two looks at an SLI over the run that an SLO has a limit for."""
CATCH_UP_STEPS = 1 << 17
"""Steps of a job that is read back that may be held beyond what it holds when it is evaluated."""
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


class Evaluator:
    """Evaluates jobs and remembers the results; `verdicts` maps a job to its newest verdicts."""

    def __init__(
        self,
        store: Store,
        objectives: Objectives,
        clock: Clock,
        detectors: Sequence[Detector] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._slis = slis.discover()
        self.verdicts: dict[str, Verdicts] = {}
        self.receivers: tuple[str, ...] = ()
        """For whom transitions of incidents are written to the outbox."""
        self._detectors = discover() if detectors is None else detectors
        self._failure_kinds = failure_kinds(self._detectors)
        self._store = store
        self.objectives = objectives
        """What is asked of jobs; another one may take its place between two evaluations."""
        self._clock = clock
        self._class_throughput = ClassThroughput()
        self._limits = limits or Limits()

    def restore(self, job: LiveJob) -> None:
        """Take up the incidents and slices of an earlier collector, and evaluate from them."""
        self._class_throughput.keep(job)
        verdicts = self.verdicts[job.name] = Verdicts()
        for document in self._store.incidents(job.name):
            incident = incident_from(document)
            verdicts.incidents[incident.id] = incident
        days = self._store.account_days(0, _FOREVER_S, job.name)
        verdicts.accounts.restore(days, self._clock.monotonic_ns() / NANOSECONDS)
        for name, sli in self._slis.items():
            known = SliceLine.of_rows(self._store.slice_rows(job.name, name))
            verdicts.slices[name] = RunningSlices(sli, known)
        verdicts.rates = self.objectives.rates
        verdicts.seen_s = seen_until(job, standing(job, attempt_steps(job)).values())
        verdicts.slo_statuses = self._slo_statuses(job, verdicts)

    def catch_up(self, job: LiveJob) -> None:
        """Let old steps of a job go while it is read back: its log may be longer than its history.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        limits = self._limits
        held = sum(len(each.step_history.rows) for each, _ in job.runs().values())
        if held < limits.incomplete + CATCH_UP_STEPS:
            return
        running = [
            RunningSlices(sli, SliceLine.of_rows(self._store.slice_rows(job.name, name)))
            for name, sli in self._slis.items()
        ]
        close_old(job, running, attempt_steps(job), limits)

    def forget(self, job: str) -> None:
        """Drop the results of a job; the store keeps it."""
        self.verdicts.pop(job, None)
        self._class_throughput.forget(job)

    def of(self, job: str) -> Verdicts:
        """What was found in a job so far."""
        return self.verdicts.setdefault(job, Verdicts())

    def evaluate(self, job: LiveJob, lease: Lease | None = None) -> bool:
        """Evaluate one job now and write what changed, in one transaction.

        Returns whether it was: a job that ended is not, as long as nothing is received of it.

        Raises:
            LeaseLostError: another collector evaluates it by now; nothing was written.
        """
        now = self._clock.wall_ns() / NANOSECONDS
        verdicts = self.of(job.name)
        if verdicts.unconfirmed:
            self._read_incidents(job.name, verdicts)
        attempt = job.current
        abandoned = is_abandoned(attempt, now)
        if verdicts.settled_at == job.received_s and not (abandoned and verdicts.open_incidents()):
            return False
        steps = attempt_steps(job)
        tails = standing(job, steps)
        fresh = self._slices(steps, tails, verdicts)
        ended = has_ended(attempt, now)
        context = DetectionContext(
            job, self._clock.monotonic_ns() / NANOSECONDS, self._class_throughput, wall_s=now
        )
        self._class_throughput.keep(job, context.first_steps)
        verdicts.one_node_speed = self._class_throughput.one_node_speed(job.name, attempt.job_class)
        _follow_clock(verdicts, now, context.now_s)
        failed = [] if abandoned else self._failures(context)
        verdicts.findings = failed or ([] if ended else self._findings(context, verdicts.nothing))
        verdicts.failed_at = _failed_at(verdicts, job) if failed and ended else math.nan
        verdicts.stalled_seconds = verdicts.stalled_seconds if ended else stalled_seconds(context)
        frozen = not context.observes_any and not failed
        verdicts.not_looked_for = not_looked_for(
            job.name, context.failures, verdicts.not_looked_for
        )
        held = Held() if failed else self._held(context)
        rates = verdicts.rates = self.objectives.rates
        moment = replace(_moment(context, rates, frozen=frozen, ended=ended), held=held)
        before, others = self._of_failed_attempt(job, verdicts.incidents.values(), abandoned)
        moved = advance(others, verdicts.findings, moment)
        if before is not None:
            earlier = DetectionContext(
                job, context.now_s, self._class_throughput, wall_s=now, attempt=before
            )
            known = [each for each in verdicts.incidents.values() if each not in others]
            moment = _moment(earlier, rates, frozen=False, ended=False)
            moved += advance(known, self._failures(earlier), moment)
        documents = [item.document() for item in moved]
        notices = notices_of(verdicts.incidents, moved, now, self.receivers)
        coarse = {name: verdicts.slices[name].coarser(parts) for name, parts in fresh.items()}
        rows = itertools.chain(_by_sli(fresh), _by_sli(coarse))
        owners = self.objectives.owners
        days = verdicts.accounts.look(job, steps, tails, context.now_s, ended=ended, owners=owners)
        verdicts.unconfirmed = True
        self._store.save_evaluation(job.name, rows, documents, lease, notices, days)
        verdicts.unconfirmed = False
        # Only now: what could not be written must look changed again the next time.
        for name, parts in fresh.items():
            verdicts.slices[name].accept(parts, coarse[name])
        verdicts.accounts.accept()
        close_old(job, list(verdicts.slices.values()), steps, self._limits)
        verdicts.incidents.update((incident.id, incident) for incident in moved)
        verdicts.seen_s = seen_until(job, tails.values())
        verdicts.slo_statuses = self._slo_statuses(job, verdicts)
        if ended and now - job.received_s > ENDED_GRACE_SECONDS:
            verdicts.settled_at = job.received_s
        return True

    def _read_incidents(self, job: str, verdicts: Verdicts) -> None:
        """Take up what the store holds: a commit of which the answer was lost may have been done,
        and would else be done again, as another incident with another page."""
        for document in self._store.incidents(job):
            stored = incident_from(document)
            known = verdicts.incidents.get(stored.id)
            if known is None or known.timeline != stored.timeline:
                verdicts.incidents[stored.id] = stored

    def _findings(self, context: DetectionContext, nothing: FoundNothing) -> list[Finding]:
        return _attributed(context, find(context, self._detectors, nothing))

    def _failures(self, context: DetectionContext) -> list[Finding]:
        return _attributed(context, find_failures(context, self._detectors))

    def _held(self, context: DetectionContext) -> Held:
        """What stays as it is: nobody observes some of its ranks, or a detector failed."""
        unlooked = frozenset(kind.value for kinds, _ in context.failures for kind in kinds)
        if not context.unobserved:
            return Held(unlooked)
        needed = kinds_that_need(Needs.EVERY_RANK, self._detectors)
        compared = kinds_that_need(Needs.OBSERVED_PEERS, self._detectors)
        every = frozenset(range(context.attempt.world))
        return Held(
            needed | unlooked, context.unobserved, compared, every - context.with_observed_peers
        )

    def _of_failed_attempt(
        self, job: LiveJob, incidents: Iterable[Incident], abandoned: bool
    ) -> tuple[Attempt | None, list[Incident]]:
        """The attempt before the newest while that one makes no progress, None once the job is
        abandoned; and the incidents that are not about why it failed."""
        before = None if abandoned else job.before
        others = [
            incident
            for incident in incidents
            if before is None
            or incident.attempt != before.number
            or incident.kind not in self._failure_kinds
        ]
        return before, others

    def _slo_statuses(self, job: LiveJob, verdicts: Verdicts) -> list[SloStatus]:
        nothing, asked = SliceLine(), self.objectives
        job_class = job.current.job_class
        slos, without = asked.of(job_class), asked.without(job_class)
        verdicts.planned = asked.planned_for(job_class)
        limits = {slo.sli for slo in slos if slo.limit is not None}
        found = self._limit_readings(job, verdicts, limits) if limits else {}
        statuses = []
        for slo in slos:
            if slo.limit is not None:
                statuses.append(evaluate_limit(slo, found[slo.sli]))
                continue
            known = verdicts.slices.get(slo.sli)
            line = nothing if known is None else known.line
            status = evaluate_slo(slo, line, verdicts.seen_s, job.unread, without)
            if status.state not in (SloState.FROZEN, SloState.UNKNOWN):
                status = status._replace(burning=burning(slo, line, verdicts.seen_s, without))
            statuses.append(status)
        return statuses

    def _limit_readings(
        self, job: LiveJob, verdicts: Verdicts, names: set[str]
    ) -> dict[str, Reading]:
        """SLIs over the run by name; those of a job that runs are read now and then."""
        now_s = self._clock.monotonic_ns() / NANOSECONDS
        old = now_s - verdicts.limits_read_s >= LIMITS_EVERY_SECONDS
        if old or not names <= verdicts.limit_readings.keys() or job.current.is_over:
            facts = job_facts(job, verdicts, self._clock.wall_ns() / NANOSECONDS)
            verdicts.limit_readings = readings(facts, sorted(names))
            verdicts.limits_read_s = now_s
        return verdicts.limit_readings

    def _slices(
        self,
        attempts: Mapping[RunKey, slis.AttemptSteps],
        tails: Mapping[RunKey, Sequence[Tail]],
        verdicts: Verdicts,
    ) -> dict[str, list[Slice]]:
        """Slices that changed since they were stored, by SLI."""
        return {
            name: verdicts.slices.setdefault(name, RunningSlices(sli)).changed(attempts, tails)
            for name, sli in self._slis.items()
        }


def _attributed(context: DetectionContext, findings: list[Finding]) -> list[Finding]:
    faults = present_faults(context.attempt, context.now_s) if findings else ()
    return attributed(context.attempt, findings, faults)


def _by_sli(slices: Mapping[str, Sequence[Slice]]) -> Iterator[tuple[str, Slice]]:
    return ((name, part) for name, parts in slices.items() for part in parts)


def _follow_clock(verdicts: Verdicts, wall_s: float, monotonic_s: float) -> None:
    """Where the wall clock was set, open incidents were seen as long ago as before.

    Without it an hour that never passed would cost device-seconds, or keep an incident open.
    """
    before, verdicts.clocks = verdicts.clocks, (wall_s, monotonic_s)
    if before is None:
        return
    jump = (wall_s - before[0]) - (monotonic_s - before[1])
    if abs(jump) < CLOCK_SET_SECONDS:
        return
    for incident in verdicts.open_incidents():
        seen_at = incident.last_seen_at + jump
        verdicts.incidents[incident.id] = replace(incident, last_seen_at=seen_at)


def _failed_at(verdicts: Verdicts, job: LiveJob) -> float:
    """Agents go on for a while after the failure, so the first time it was reported counts."""
    known = verdicts.failed_at
    return job.current.received_s if math.isnan(known) else min(known, job.current.received_s)


def _moment(
    context: DetectionContext, rates: RateCard | None, *, frozen: bool, ended: bool
) -> Moment:
    attempt = context.attempt
    return Moment(
        context.job.name,
        attempt.number,
        context.wall_s,
        attempt.newest_s or context.wall_s,
        attempt.ranks.node_of,
        attempt.world,
        frozen=frozen,
        ended=ended,
        price=rates.price(context.wall_s, attempt.job_class) if rates else None,
    )


def job_facts(job: LiveJob, verdicts: Verdicts, now: float) -> JobFacts:
    """What SLIs over a run read of a job that is evaluated, at Unix time `now`."""
    return JobFacts(
        job=job,
        attempts=attempt_steps(job),
        state=job_state(job.current, verdicts.open_incidents(), now),
        device_seconds=verdicts.accounts.seconds(),
        cost=verdicts.accounts.cost(verdicts.rates, job.current.job_class),
        ratios={name: each.line.sums for name, each in verdicts.slices.items()},
        incidents=Counter(each.kind for each in verdicts.incidents.values()),
        one_node_speed=verdicts.one_node_speed,
        now_s=now,
    )
