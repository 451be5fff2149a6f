"""A job's evaluation: observe, evaluate in stages, commit in one transaction, and accept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from stepwatch.collector.analysis.class_throughput import ClassThroughput
from stepwatch.collector.detect.hang import stalled_seconds
from stepwatch.collector.detect.registry import Detector, discover
from stepwatch.collector.detect.unchanged import FoundNothing
from stepwatch.collector.incidents.model import incident_from
from stepwatch.collector.incidents.notices import Recipients
from stepwatch.collector.runtime.evaluation.accounting import Accounts
from stepwatch.collector.runtime.evaluation.detector_failures import not_looked_for
from stepwatch.collector.runtime.evaluation.job_state import is_stalled
from stepwatch.collector.runtime.evaluation.objective_statuses import with_objectives
from stepwatch.collector.runtime.evaluation.observation import observe
from stepwatch.collector.runtime.evaluation.stages import Evaluation, evaluate_stages
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.slo import registry as slis
from stepwatch.collector.slo.asked.site import Objectives
from stepwatch.collector.slo.closing import Limits, attempt_steps, close_old
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.slo.slices import RunningSlices
from stepwatch.collector.slo.standing import seen_until, standing
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.store import Store
from stepwatch.collector.store.leases import Lease
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
        self.recipients = Recipients()
        """Receivers for whom incident transitions are written to the outbox."""
        self._detectors = discover() if detectors is None else detectors
        self._without_findings: dict[str, FoundNothing] = {}
        """Each job's detectors without findings, skipped until its steps change."""
        self._unconfirmed: set[str] = set()
        """Jobs whose newest write failed; the store may hold it all the same."""
        self._store = store
        self.objectives = objectives
        """The jobs' objectives; they may be replaced between two evaluations."""
        self._clock = clock
        self._class_throughput = ClassThroughput()
        self._limits = limits or Limits()

    def restore(self, job: LiveJob) -> None:
        """Load an earlier collector's incidents and slices, and evaluate from them."""
        self.forget(job.name)
        self._class_throughput.keep(job)
        incidents = map(incident_from, self._store.incidents.newest(job.name))
        days = self._store.account_days(0, _FOREVER_S, job.name)
        verdicts = Verdicts(
            incidents={incident.id: incident for incident in incidents},
            slices={slices.sli.name: slices for slices in self._stored_slices(job.name)},
            accounts=Accounts.restored(days, self._clock.monotonic_ns() / NANOSECONDS),
            rates=self.objectives.rates,
        )
        hangs = is_stalled(verdicts.open_incidents())
        tails = standing(job, attempt_steps(job), hangs=hangs)
        verdicts = replace(verdicts, seen_s=seen_until(job, tails.values()))
        self.verdicts[job.name] = with_objectives(verdicts, self.objectives, job, self._clock)

    def catch_up(self, job: LiveJob) -> None:
        """Drop a job's old steps during a restore: its log may be longer than its history.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        limits = self._limits
        held_rows = sum(len(attempt.steps.history.rows) for attempt, _ in job.runs().values())
        if held_rows >= limits.incomplete + CATCH_UP_STEPS:
            close_old(job, self._stored_slices(job.name), attempt_steps(job), limits)

    def _stored_slices(self, job: str) -> list[RunningSlices]:
        return [
            RunningSlices(sli, SliceLine.of_rows(self._store.slice_rows(job, name)))
            for name, sli in self._slis.items()
        ]

    def forget(self, job: str) -> None:
        """Drop a job's results; the store keeps them."""
        self.verdicts.pop(job, None)
        self._without_findings.pop(job, None)
        self._unconfirmed.discard(job)
        self._class_throughput.forget(job)

    def verdicts_of(self, job: str) -> Verdicts:
        """Return a job's verdicts so far."""
        return self.verdicts.setdefault(job, Verdicts())

    def evaluate(self, job: LiveJob, lease: Lease | None = None) -> Verdicts | None:
        """Evaluate one job now, write the changes in one transaction, and return the verdicts.

        Returns None without an evaluation: an ended job is skipped until new data arrives.

        Raises:
            LeaseLostError: another collector holds the job's lease; nothing was written.
        """
        observation = observe(
            job, self._confirmed(job.name), self.objectives, self._clock, self._class_throughput
        )
        if observation is None:
            return None
        self._class_throughput.keep(job, observation.context.first_steps)
        nothing = self._without_findings.setdefault(job.name, FoundNothing())
        evaluation = evaluate_stages(
            observation, self._slis, self._detectors, nothing, self.recipients
        )
        # Findings are true now, and new incidents once they are stored.
        self.verdicts[job.name] = _with_findings(evaluation)
        self._commit(evaluation, lease)
        verdicts = self.verdicts[job.name] = self._accepted(evaluation)
        return verdicts

    def _confirmed(self, job: str) -> Verdicts:
        """Return the verdicts so far, with the stored incidents after a commit without an answer.

        The commit may have succeeded; repeating it would create another incident with another page.
        """
        verdicts = self.verdicts_of(job)
        if job not in self._unconfirmed:
            return verdicts
        incidents = dict(verdicts.incidents)
        for stored in map(incident_from, self._store.incidents.newest(job)):
            incident = incidents.get(stored.id)
            if incident is None or incident.timeline != stored.timeline:
                incidents[stored.id] = stored
        confirmed = self.verdicts[job] = replace(verdicts, incidents=incidents)
        self._unconfirmed.discard(job)
        return confirmed

    def _commit(self, evaluation: Evaluation, lease: Lease | None) -> None:
        """Write everything that changed in one transaction."""
        job = evaluation.observation.job.name
        self._unconfirmed.add(job)
        self._store.save_evaluation(
            job,
            evaluation.slices.rows(),
            [incident.document() for incident in evaluation.incidents.moved],
            lease,
            evaluation.incidents.notices,
            evaluation.account_days,
        )
        self._unconfirmed.discard(job)

    def _accepted(self, evaluation: Evaluation) -> Verdicts:
        """Return the verdicts of a stored evaluation, and close its old slices."""
        observation, slices = evaluation.observation, evaluation.slices
        job, clocks = observation.job, observation.clocks
        for name, parts in slices.fresh.items():
            slices.running[name].accept(parts, slices.coarse[name])
        close_old(job, [*slices.running.values()], observation.steps, self._limits)
        settled = observation.ended and clocks.wall_s - job.received_s > ENDED_GRACE_SECONDS
        verdicts = replace(
            self.verdicts[job.name],
            incidents=evaluation.incidents.all,
            slices=slices.running,
            accounts=evaluation.accounts,
            rates=observation.objectives.rates,
            job_class=job.current.job_class,
            one_node_speed=self._class_throughput.one_node_speed(job.name, job.current.job_class),
            seen_s=seen_until(job, observation.tails.values()),
            settled_at=job.received_s if settled else observation.previous.settled_at,
        )
        return with_objectives(verdicts, observation.objectives, job, self._clock)


def _with_findings(evaluation: Evaluation) -> Verdicts:
    """Return the previous verdicts on the current clocks, with the current findings."""
    observation, findings = evaluation.observation, evaluation.findings
    previous, context = observation.previous, observation.context
    return replace(
        previous,
        incidents=previous.incidents_on(observation.clocks),
        clocks=observation.clocks,
        watched_from_s=observation.watched_from_s,
        findings=findings.current,
        failed_at=_failed_at(evaluation),
        stalled_seconds=(
            previous.stalled_seconds if observation.ended else stalled_seconds(context)
        ),
        not_looked_for=not_looked_for(
            observation.job.name, context.failures, previous.not_looked_for
        ),
    )


def _failed_at(evaluation: Evaluation) -> float:
    """Return the first report of the failure, because agents continue for a while after it.

    NaN if the attempt has not failed on all ranks.
    """
    observation = evaluation.observation
    if not (evaluation.findings.failed and observation.ended):
        return math.nan
    previous, received_s = observation.previous.failed_at, observation.job.current.received_s
    return received_s if math.isnan(previous) else min(previous, received_s)
