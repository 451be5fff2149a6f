"""The stages of an evaluation between the observation and the commit. Nothing is stored here.

observation ──▶ slices
            ──▶ findings, attributed ──▶ incidents, notices
            ──▶ accounts
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import RESUME, Finding
from stepwatch.collector.detect.node_fault import present_faults
from stepwatch.collector.detect.registry import (
    Detector,
    Needs,
    failure_kinds,
    find,
    find_failures,
    find_lasting,
    kinds_that_need,
)
from stepwatch.collector.detect.unchanged import FoundNothing
from stepwatch.collector.incidents.inputs import attributed
from stepwatch.collector.incidents.lifecycle import advance
from stepwatch.collector.incidents.model import Incident, Moment, Retained
from stepwatch.collector.incidents.notices import Recipients, notices_of
from stepwatch.collector.runtime.evaluation.accounting import Accounts
from stepwatch.collector.runtime.evaluation.observation import Observation
from stepwatch.collector.slo import registry as slis
from stepwatch.collector.slo.slices import RunningSlices
from stepwatch.collector.store.accounts import AccountDay
from stepwatch.collector.store.incidents.outbox import Notice
from stepwatch.collector.store.slices import Slice


class ChangedSlices(NamedTuple):
    """All slices of a job by SLI, and the fresh and coarser ones that the store lacks."""

    running: Mapping[str, RunningSlices]
    fresh: Mapping[str, list[Slice]]
    coarse: Mapping[str, list[Slice]]

    def rows(self) -> Iterable[tuple[str, Slice]]:
        """Yield the SLI name and the slice of each row to store."""
        for changed in (self.fresh, self.coarse):
            for name, parts in changed.items():
                yield from ((name, part) for part in parts)


class Findings(NamedTuple):
    """The attributed findings on the newest attempt, and on one that failed before it.

    If the newest attempt `failed`, they say why. `retained` are the incidents that stay unchanged.
    """

    current: list[Finding]
    failed: bool
    retained: Retained
    preceding_run: DetectionContext | None
    preceding_findings: list[Finding]


class Incidents(NamedTuple):
    """All incidents of a job by identity, the ones that moved, and their notices."""

    all: Mapping[str, Incident]
    moved: list[Incident]
    notices: list[Notice]


@dataclass(frozen=True)
class Evaluation:
    """An evaluation that is not stored yet."""

    observation: Observation
    slices: ChangedSlices
    findings: Findings
    incidents: Incidents
    accounts: Accounts
    account_days: list[AccountDay]


def changed_slices(observation: Observation, names: Mapping[str, slis.Sli]) -> ChangedSlices:
    """Return the slices by SLI name, with those that changed since they were stored."""
    known = observation.previous.slices
    running = {name: known.get(name) or RunningSlices(sli) for name, sli in names.items()}
    fresh = {
        name: slices.changed(observation.steps, observation.tails)
        for name, slices in running.items()
    }
    coarse = {name: running[name].coarser(parts) for name, parts in fresh.items()}
    return ChangedSlices(running, fresh, coarse)


def attributed_findings(
    observation: Observation, detectors: Sequence[Detector], nothing: FoundNothing
) -> Findings:
    """Return what the detectors find, each finding with the cause from node and rank facts.

    Detectors known to find `nothing` do not run. A detector's exception is in the context.
    """
    context = observation.context
    failures = [] if observation.abandoned else find_failures(context, detectors)
    if observation.abandoned:
        current = []
    elif observation.ended or failures:
        current = failures + find_lasting(context, detectors)
    else:
        current = find(context, detectors, nothing)
    retained = Retained() if failures else _unchanged_incidents(context, detectors)
    preceding_run = _preceding_run(observation)
    return Findings(
        current=_with_causes(context, current),
        failed=bool(failures),
        retained=retained,
        preceding_run=preceding_run,
        preceding_findings=_failures(preceding_run, detectors),
    )


def advanced_incidents(
    observation: Observation,
    findings: Findings,
    detectors: Sequence[Detector],
    recipients: Recipients,
) -> Incidents:
    """Return the incidents after these findings, and the notices to `recipients`."""
    context, preceding_run = observation.context, findings.preceding_run
    incidents = observation.previous.incidents_on(observation.clocks)
    earlier = _incidents_of_preceding_run(incidents, preceding_run, failure_kinds(detectors))
    earlier = {} if _resume_failed(findings.current) else earlier
    moment = replace(
        _moment(observation, context),
        frozen=not (context.observes_any or findings.failed or observation.ended),
        ended=observation.ended,
        retained=findings.retained,
    )
    current = [incident for incident in incidents.values() if incident.id not in earlier]
    moved = advance(current, findings.current, moment)
    if preceding_run is not None and not _resume_failed(findings.current):
        moved += advance(
            earlier.values(), findings.preceding_findings, _moment(observation, preceding_run)
        )
    notices = notices_of(incidents, moved, observation.clocks.wall_s, *recipients)
    return Incidents({**incidents, **{incident.id: incident for incident in moved}}, moved, notices)


def evaluate_stages(
    observation: Observation,
    names: Mapping[str, slis.Sli],
    detectors: Sequence[Detector],
    nothing: FoundNothing,
    recipients: Recipients,
) -> Evaluation:
    """Return the evaluation of an observed job: every stage before the commit."""
    slices = changed_slices(observation, names)
    findings = attributed_findings(observation, detectors, nothing)
    incidents = advanced_incidents(observation, findings, detectors, recipients)
    accounts, account_days = observation.previous.accounts.updated(
        observation.job,
        observation.steps,
        observation.tails,
        observation.clocks.monotonic_s,
        ended=observation.ended,
        owners=observation.objectives.owners,
    )
    return Evaluation(observation, slices, findings, incidents, accounts, account_days)


def _resume_failed(findings: Iterable[Finding]) -> bool:
    """Return whether the newest attempt failed to resume: that follows earlier tries."""
    return any(finding.subject == RESUME for finding in findings)


def _failures(run: DetectionContext | None, detectors: Sequence[Detector]) -> list[Finding]:
    return [] if run is None else _with_causes(run, find_failures(run, detectors))


def _with_causes(context: DetectionContext, findings: list[Finding]) -> list[Finding]:
    faults = present_faults(context.attempt, context.now_s) if findings else ()
    return attributed(context.attempt, findings, faults)


def _unchanged_incidents(context: DetectionContext, detectors: Sequence[Detector]) -> Retained:
    """Return the kinds and ranks that keep their state: unobserved, or a detector failed."""
    unlooked = frozenset(kind.value for kinds, _ in context.failures for kind in kinds)
    if not context.unobserved:
        return Retained(unlooked)
    needed = kinds_that_need(Needs.EVERY_RANK, detectors)
    compared = kinds_that_need(Needs.OBSERVED_PEERS, detectors)
    every = frozenset(range(context.attempt.world))
    return Retained(
        needed | unlooked, context.unobserved, compared, every - context.with_observed_peers
    )


def _preceding_run(observation: Observation) -> DetectionContext | None:
    """Return the run before a newest attempt without progress; None once the job is abandoned."""
    job, context = observation.job, observation.context
    run = None if observation.abandoned else job.preceding_run
    if run is None:
        return None
    return DetectionContext(
        job,
        context.now_s,
        context.class_throughput,
        wall_s=context.wall_s,
        attempt=run,
        thresholds=observation.objectives.thresholds_for(run.job_class),
    )


def _incidents_of_preceding_run(
    incidents: Mapping[str, Incident], preceding_run: DetectionContext | None, kinds: frozenset[str]
) -> dict[str, Incident]:
    """Return the incidents about the failure of the run before."""
    if preceding_run is None:
        return {}
    return {
        identity: incident
        for identity, incident in incidents.items()
        if incident.attempt == preceding_run.attempt.number and incident.kind in kinds
    }


def _moment(observation: Observation, context: DetectionContext) -> Moment:
    attempt, rates = context.attempt, observation.objectives.rates
    return Moment(
        context.job.name,
        attempt.number,
        context.wall_s,
        attempt.steps.newest_s or context.wall_s,
        attempt.ranks.node_of,
        attempt.world,
        price=rates.price(context.wall_s, attempt.job_class) if rates else None,
        watched_seconds=observation.clocks.monotonic_s - observation.watched_from_s,
    )
