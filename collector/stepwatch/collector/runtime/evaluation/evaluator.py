"""One job evaluation: slices, SLOs, findings, incidents, and one write."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

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
from stepwatch.collector.runtime.evaluation.detector_failures import not_looked_for
from stepwatch.collector.runtime.evaluation.job_state import has_ended, is_abandoned, is_stalled
from stepwatch.collector.runtime.evaluation.objective_statuses import objective_statuses
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.slo import registry as slis
from stepwatch.collector.slo.asked.rates import RateCard
from stepwatch.collector.slo.asked.site import Objectives
from stepwatch.collector.slo.closing import Limits, attempt_steps, close_old
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.slo.slices import RunningSlices
from stepwatch.collector.slo.standing import seen_until, standing
from stepwatch.collector.slo.waste import Tail
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob, RunKey
from stepwatch.collector.store import Store
from stepwatch.collector.store.leases import Lease
from stepwatch.collector.store.slices import Slice
from stepwatch.signals.clock import NANOSECONDS, Clock

ENDED_GRACE_SECONDS = 10.0
"""Evaluation continues this long after a job's end: its last segments may be in transit."""
_FOREVER_S = 1 << 40
CATCH_UP_STEPS = 1 << 17
"""Number of extra steps that a job may hold during a restore."""


class Evaluator:
    """Evaluates jobs and stores the results; `verdicts` maps a job to its newest verdicts."""

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
        """Receivers for whom incident transitions are written to the outbox."""
        self._detectors = discover() if detectors is None else detectors
        self._failure_kinds = failure_kinds(self._detectors)
        self._store = store
        self.objectives = objectives
        """The jobs' objectives; they may be replaced between two evaluations."""
        self._clock = clock
        self._class_throughput = ClassThroughput()
        self._limits = limits or Limits()

    def restore(self, job: LiveJob) -> None:
        """Load an earlier collector's incidents and slices, and evaluate from them."""
        self._class_throughput.keep(job)
        verdicts = self.verdicts[job.name] = Verdicts()
        for document in self._store.incidents(job.name):
            incident = incident_from(document)
            verdicts.incidents[incident.id] = incident
        days = self._store.account_days(0, _FOREVER_S, job.name)
        verdicts.accounts.restore(days, self._clock.monotonic_ns() / NANOSECONDS)
        for name, sli in self._slis.items():
            line = SliceLine.of_rows(self._store.slice_rows(job.name, name))
            verdicts.slices[name] = RunningSlices(sli, line)
        verdicts.rates = self.objectives.rates
        hangs = is_stalled(verdicts.open_incidents())
        tails = standing(job, attempt_steps(job), hangs=hangs)
        verdicts.seen_s = seen_until(job, tails.values())
        verdicts.slo_statuses = objective_statuses(self.objectives, job, verdicts, self._clock)

    def catch_up(self, job: LiveJob) -> None:
        """Drop a job's old steps during a restore: its log may be longer than its history.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        limits = self._limits
        held_rows = sum(len(attempt.step_history.rows) for attempt, _ in job.runs().values())
        if held_rows < limits.incomplete + CATCH_UP_STEPS:
            return
        running = [
            RunningSlices(sli, SliceLine.of_rows(self._store.slice_rows(job.name, name)))
            for name, sli in self._slis.items()
        ]
        close_old(job, running, attempt_steps(job), limits)

    def forget(self, job: str) -> None:
        """Drop a job's results; the store keeps them."""
        self.verdicts.pop(job, None)
        self._class_throughput.forget(job)

    def verdicts_of(self, job: str) -> Verdicts:
        """Return a job's verdicts so far."""
        return self.verdicts.setdefault(job, Verdicts())

    def evaluate(self, job: LiveJob, lease: Lease | None = None) -> bool:
        """Evaluate one job now and write the changes in one transaction.

        Returns whether an evaluation took place: an ended job is skipped until new data arrives.

        Raises:
            LeaseLostError: another collector holds the job's lease; nothing was written.
        """
        now = self._clock.wall_ns() / NANOSECONDS
        verdicts = self.verdicts_of(job.name)
        if verdicts.unconfirmed:
            self._read_incidents(job.name, verdicts)
        attempt = job.current
        abandoned = is_abandoned(attempt, now)
        if verdicts.settled_at == job.received_s and not (abandoned and verdicts.open_incidents()):
            return False
        steps = attempt_steps(job)
        tails = standing(job, steps, hangs=is_stalled(verdicts.open_incidents()))
        fresh = self._slices(steps, tails, verdicts)
        ended = has_ended(attempt, now)
        context = DetectionContext(
            job, self._clock.monotonic_ns() / NANOSECONDS, self._class_throughput, wall_s=now
        )
        self._class_throughput.keep(job, context.first_steps)
        verdicts.one_node_speed = self._class_throughput.one_node_speed(job.name, attempt.job_class)
        verdicts.follow_clock(now, context.now_s)
        failed = [] if abandoned else self._failures(context)
        verdicts.findings = failed or ([] if ended else self._findings(context, verdicts.nothing))
        verdicts.failed_at = _failed_at(verdicts, job) if failed and ended else math.nan
        verdicts.stalled_seconds = verdicts.stalled_seconds if ended else stalled_seconds(context)
        frozen = not context.observes_any and not failed
        verdicts.not_looked_for = not_looked_for(
            job.name, context.failures, verdicts.not_looked_for
        )
        retained = Held() if failed else self._retained(context)
        rates = verdicts.rates = self.objectives.rates
        moment = replace(_moment(context, rates, frozen=frozen, ended=ended), held=retained)
        failed_attempt, current_incidents = self._of_failed_attempt(
            job, verdicts.incidents.values(), abandoned
        )
        moved = advance(current_incidents, verdicts.findings, moment)
        if failed_attempt is not None:
            earlier = DetectionContext(
                job, context.now_s, self._class_throughput, wall_s=now, attempt=failed_attempt
            )
            earlier_incidents = [
                incident
                for incident in verdicts.incidents.values()
                if incident not in current_incidents
            ]
            moment = _moment(earlier, rates, frozen=False, ended=False)
            moved += advance(earlier_incidents, self._failures(earlier), moment)
        documents = [item.document() for item in moved]
        notices = notices_of(verdicts.incidents, moved, now, self.receivers)
        coarse = {name: verdicts.slices[name].coarser(parts) for name, parts in fresh.items()}
        rows = itertools.chain(_by_sli(fresh), _by_sli(coarse))
        owners = self.objectives.owners
        days = verdicts.accounts.look(job, steps, tails, context.now_s, ended=ended, owners=owners)
        verdicts.unconfirmed = True
        self._store.save_evaluation(job.name, rows, documents, lease, notices, days)
        verdicts.unconfirmed = False
        # Only now: unwritten changes must appear as changed in the next evaluation.
        for name, parts in fresh.items():
            verdicts.slices[name].accept(parts, coarse[name])
        verdicts.accounts.accept()
        close_old(job, list(verdicts.slices.values()), steps, self._limits)
        verdicts.incidents.update((incident.id, incident) for incident in moved)
        verdicts.seen_s = seen_until(job, tails.values())
        verdicts.slo_statuses = objective_statuses(self.objectives, job, verdicts, self._clock)
        if ended and now - job.received_s > ENDED_GRACE_SECONDS:
            verdicts.settled_at = job.received_s
        return True

    def _read_incidents(self, job: str, verdicts: Verdicts) -> None:
        """Load the stored incidents after a commit with a lost answer.

        The commit may have succeeded; repeating it would create another incident with another page.
        """
        for document in self._store.incidents(job):
            stored = incident_from(document)
            incident = verdicts.incidents.get(stored.id)
            if incident is None or incident.timeline != stored.timeline:
                verdicts.incidents[stored.id] = stored

    def _findings(self, context: DetectionContext, nothing: FoundNothing) -> list[Finding]:
        return _attributed(context, find(context, self._detectors, nothing))

    def _failures(self, context: DetectionContext) -> list[Finding]:
        return _attributed(context, find_failures(context, self._detectors))

    def _retained(self, context: DetectionContext) -> Held:
        """Return the kinds and ranks that keep their state: unobserved, or a detector failed."""
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
        """Return the attempt before a newest one without progress, and the unrelated incidents.

        The attempt is None once the job is abandoned. The list excludes incidents about the
        attempt's failure.
        """
        failed_attempt = None if abandoned else job.before
        current_incidents = [
            incident
            for incident in incidents
            if failed_attempt is None
            or incident.attempt != failed_attempt.number
            or incident.kind not in self._failure_kinds
        ]
        return failed_attempt, current_incidents

    def _slices(
        self,
        attempts: Mapping[RunKey, slis.AttemptSteps],
        tails: Mapping[RunKey, Sequence[Tail]],
        verdicts: Verdicts,
    ) -> dict[str, list[Slice]]:
        """Return the slices that changed since they were stored, by SLI."""
        return {
            name: verdicts.slices.setdefault(name, RunningSlices(sli)).changed(attempts, tails)
            for name, sli in self._slis.items()
        }


def _attributed(context: DetectionContext, findings: list[Finding]) -> list[Finding]:
    faults = present_faults(context.attempt, context.now_s) if findings else ()
    return attributed(context.attempt, findings, faults)


def _by_sli(slices: Mapping[str, Sequence[Slice]]) -> Iterator[tuple[str, Slice]]:
    return ((name, part) for name, parts in slices.items() for part in parts)


def _failed_at(verdicts: Verdicts, job: LiveJob) -> float:
    """Return the first report of the failure, because agents continue for a while after it."""
    failed_at = verdicts.failed_at
    return (
        job.current.received_s if math.isnan(failed_at) else min(failed_at, job.current.received_s)
    )


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
