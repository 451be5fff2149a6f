"""The collector's `/metrics`: job verdicts with bounded cardinality, and its own state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from prometheus_client.core import (
    HistogramMetricFamily,
    Metric,
)

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.incidents.states import INFO
from stepwatch.collector.job_states import QUARANTINED, RESTORING
from stepwatch.collector.nodes.fleet import Fleet
from stepwatch.collector.runtime.evaluation.job_state import has_ended, is_abandoned
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.notifier import Notifiers
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.runtime.views import View
from stepwatch.collector.slo.over_run.slis.pace.throughput import peak_tokens_per_second
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.checkpoints import failures_in_a_row
from stepwatch.collector.state.trackers.shared_name import SharedName
from stepwatch.collector.store.profiles import DayOfProfiles
from stepwatch.collector.store.upkeep.counts import Upkeep
from stepwatch.collector.web.exported.families import Sample, Value, counter, gauge
from stepwatch.collector.web.exported.newest_steps import newest_steps
from stepwatch.collector.web.exported.outcomes import outcomes
from stepwatch.collector.web.exported.spent import spent
from stepwatch.signals import names
from stepwatch.signals.names import FindingKind
from stepwatch.signals.records import PHASE_NAMES

MAX_JOBS = 500
"""Maximum number of exported jobs, latest written first; about 95 series each, 48,000 in total."""
STRAGGLER_SLOTS = 4


class JobExporter:
    """A prometheus-client collector over a running collector."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Yield every metric. An unknown value is absent, never zero."""
        shown = [published.value for published in self._service.answers(JOB_METRICS, MAX_JOBS)]
        more = max(len(self._service.shown_jobs) - MAX_JOBS, 0)
        yield gauge(names.COLLECTOR_JOBS, [((), len(shown) + more)])
        yield gauge(names.COLLECTOR_REPLICAS, [((), self._service.tenancy.replicas)])
        yield from _nodes(self._service.nodes.if_known())
        yield counter(names.COLLECTOR_WRITES_REFUSED, [((), self._service.tenancy.refused)])
        capped = more + self._service.state.forgotten
        yield gauge(names.COLLECTOR_JOBS_CAPPED, [((), capped)])
        withheld = [job.state for job in self._service.withheld().values()]
        yield gauge(names.COLLECTOR_JOBS_QUARANTINED, [((), withheld.count(QUARANTINED))])
        yield gauge(names.COLLECTOR_JOBS_RESTORING, [((), withheld.count(RESTORING))])
        unreadable = float(self._service.site_objectives.are_unreadable)
        yield gauge(names.COLLECTOR_OBJECTIVES_UNREADABLE, [((), unreadable)])
        yield gauge(names.COLLECTOR_EVALUATION_SECONDS, [((), self._service.evaluation_seconds)])
        yield gauge(names.COLLECTOR_INGEST_SECONDS, [((), self._service.ingest_seconds)])
        yield gauge(names.COLLECTOR_ASKED_FLUSH_SECONDS, [((), self._service.asked_pace.seconds)])
        failures = self._service.evaluation_failures
        yield counter(names.COLLECTOR_EVALUATION_FAILURES, [((), failures)])
        counts = self._service.ingest.counts.copy()
        yield counter(names.COLLECTOR_SEGMENTS, [((k,), v) for k, v in sorted(counts.items())])
        unknown = self._service.ingest.unknown_records.copy().items()
        yield counter(names.COLLECTOR_UNKNOWN_RECORDS, [((str(k),), v) for k, v in unknown])
        yield counter(names.COLLECTOR_UNREADABLE, [((), self._service.restorer.unreadable)])
        damaged = len(self._service.store.incidents.unreadable)
        yield counter(names.COLLECTOR_UNREADABLE_INCIDENTS, [((), damaged)])
        saves = self._service.snapshotter.counts.items()
        yield counter(names.COLLECTOR_SNAPSHOTS, [((outcome,), count) for outcome, count in saves])
        yield gauge(names.COLLECTOR_UNDECODED, [((), self._service.ingest.undecoded)])
        yield from _notices(self._service.notifier)
        yield from _upkeep(self._service.store.upkeep)
        yield from _profiles(self._service.profiles_of_day)
        for families in zip(_families([], 0.0), *shown, strict=True):
            families[0].samples = [sample for family in families for sample in family.samples]
            yield families[0]


def _notices(notifier: Notifiers | None) -> Iterator[Metric]:
    """Yield notice metrics; none without a notifier, or while the store is down."""
    values_by_metric: dict[names.Metric, Mapping[str, float]] = {
        names.COLLECTOR_NOTICES: notifier.counts if notifier else {},
        names.COLLECTOR_NOTICES_GIVEN_UP: notifier.given_up if notifier else {},
        names.COLLECTOR_NOTICES_OLDEST: notifier.oldest_seconds if notifier else {},
    }
    for metric, values in values_by_metric.items():
        yield gauge(metric, [((label,), value) for label, value in values.items()])
    yield counter(names.COLLECTOR_NOTICES_SENT, [*notifier.sent.items()] if notifier else [])
    silence = notifier.silence_seconds if notifier else None
    yield gauge(names.COLLECTOR_SILENCE_OLDEST, [((), silence)])


Jobs = list[tuple[LiveJob, Verdicts]]


def _families(jobs: Jobs, now: float) -> list[Metric]:
    """Return all job metrics, in the same order for any jobs."""
    return [
        *_progress(jobs, now),
        *_time(jobs),
        *newest_steps(jobs),
        *_slo_statuses(jobs),
        *spent(jobs),
        *outcomes(jobs, now),
        *_trouble(jobs),
        *_checkpoints(jobs),
    ]


def _metrics_of(job: LiveJob, verdicts: Verdicts, now: float) -> list[Metric]:
    return _families([(job, verdicts)], now)


JOB_METRICS = View("metrics", _metrics_of, kept_seconds=600.0)
"""One job's metrics; Prometheus scrapes again within ten minutes."""


def _nodes(fleet: Fleet | None) -> Iterator[Metric]:
    """Yield metrics over all nodes: a few series for any fleet size."""
    counts = {} if fleet is None else fleet.counts()
    yield gauge(names.COLLECTOR_NODES, [((str(health),), n) for health, n in counts.items()])
    fleets = [] if fleet is None else [fleet]
    offending = [
        ((), sum(node.is_offender() for node in known_fleet.nodes.values()))
        for known_fleet in fleets
    ]
    yield gauge(names.COLLECTOR_NODES_OFFENDING, offending)
    yield gauge(
        names.COLLECTOR_NODES_TOGETHER, [((), len(known_fleet.shared)) for known_fleet in fleets]
    )


def _upkeep(upkeep: Upkeep) -> Iterator[Metric]:
    yield gauge(names.COLLECTOR_RETENTION_TIME, [((), upkeep.retention_s)])
    yield counter(names.COLLECTOR_OBJECT_FAILURES, [((), upkeep.object_failures)])


def _profiles(day: DayOfProfiles | None) -> Iterator[Metric]:
    outcomes = {} if day is None else day.outcomes
    yield gauge(names.COLLECTOR_PROFILES, [((name,), n) for name, n in outcomes.items()])
    yield gauge(names.COLLECTOR_PROFILED_SECONDS, [((), None if day is None else day.seconds)])


def _progress(jobs: Jobs, now: float) -> Iterator[Metric]:
    current = [(job.name, job.current, verdicts) for job, verdicts in jobs]
    yield gauge(
        names.JOB_INFO,
        [((name, str(a.number), _job_class(a), str(a.world)), 1.0) for name, a, _ in current],
    )
    running = [((name,), float(not has_ended(a, now))) for name, a, _ in current]
    yield gauge(names.JOB_RUNNING, running)
    yield gauge(names.JOB_STEP, [((name,), _newest_step(a)) for name, a, _ in current])
    yield gauge(names.JOB_LOSS, [((name,), _newest_loss(a)) for name, a, _ in current])
    yield counter(
        names.JOB_TOKENS,
        [((job.name,), float(job.totals.tokens)) for job, _ in jobs if job.totals.tokens],
    )
    going = [(name, a) for name, a, _ in current if not has_ended(a, now)]
    peaks = [((name,), peak_tokens_per_second(a)) for name, a in going]
    yield gauge(names.JOB_PEAK_TOKENS, peaks)
    still = [((name,), v.stalled_seconds) for name, a, v in current if not has_ended(a, now)]
    yield gauge(names.SECONDS_WITHOUT_PROGRESS, still)
    failed = [((name,), _since_failure(a, v, now)) for name, a, v in current]
    yield gauge(names.SECONDS_SINCE_FAILURE, failed)
    yield gauge(names.LAST_RECORD, [((name,), a.received_s) for name, a, _ in current])
    shared = [((name,), float(len(a.tracker(SharedName).sharing(now)))) for name, a, _ in current]
    yield gauge(names.RANKS_ON_TWO_NODES, shared)
    unread = [((j.name,), float(sum(part.segments for part in j.unread))) for j, _ in jobs]
    yield gauge(names.JOB_UNREAD_SEGMENTS, unread)


def _time(jobs: Jobs) -> Iterator[Metric]:
    histogram = HistogramMetricFamily(
        names.STEP_DURATION.name, names.STEP_DURATION.help, labels=names.STEP_DURATION.labels
    )
    phases: list[Sample] = []
    exposed: list[Sample] = []
    waits: list[Sample] = []
    steps: list[Sample] = []
    for job, _ in jobs:
        totals = job.totals
        histogram.add_metric([job.name], totals.buckets(), totals.step_seconds)
        steps.extend(((job.name, clock), float(n)) for clock, n in totals.steps_on.items() if n)
        if not totals.rows:
            continue
        phases.extend(((job.name, phase), totals.seconds[phase]) for phase in PHASE_NAMES)
        exposed.append(((job.name,), totals.seconds["collective"]))
        waits.append(((job.name,), totals.seconds["pipeline_wait"]))
    yield histogram
    yield counter(names.STEPS, steps)
    yield counter(names.PHASE_SECONDS, phases)
    yield counter(names.COLLECTIVE_EXPOSED_SECONDS, exposed)
    yield counter(names.PIPELINE_WAIT_SECONDS, waits)


def _slo_statuses(jobs: Jobs) -> Iterator[Metric]:
    good: list[Sample] = []
    total: list[Sample] = []
    budget: list[Sample] = []
    states: list[Sample] = []
    burn: list[Sample] = []
    coverage: list[Sample] = []
    for job, verdicts in jobs:
        for name, slices in verdicts.slices.items():
            if (last := slices.line.last) is not None:
                good.append(((job.name, name), last.cumulative_good))
                total.append(((job.name, name), last.cumulative_total))
        for item in verdicts.slo_statuses:
            remaining = item.budget_remaining
            budget.append(((job.name, item.name), None if remaining is None else float(remaining)))
            states.append(((job.name, item.name, item.state.value), 1.0))
            fastest = {alert.pair.severity: alert.rate for alert in reversed(item.burning)}
            burn += [((job.name, item.name, name), float(rate)) for name, rate in fastest.items()]
        coverages = [item.coverage for item in verdicts.slo_statuses if item.coverage is not None]
        coverage.append(((job.name,), float(min(coverages)) if coverages else None))
    yield gauge(names.SLI_GOOD, good)
    yield gauge(names.SLI_TOTAL, total)
    yield gauge(names.SLO_BUDGET_REMAINING, budget)
    yield gauge(names.SLO_STATE, states)
    yield gauge(names.SLO_BURN_RATE, burn)
    yield gauge(names.TELEMETRY_COVERAGE, coverage)


def _trouble(jobs: Jobs) -> Iterator[Metric]:
    ranks: list[Sample] = []
    ratios: list[Sample] = []
    open_incidents: list[Sample] = []
    for job, verdicts in jobs:
        for slot, finding in enumerate(_stragglers(verdicts)):
            labels = (job.name, str(slot), finding.phase, finding.cause)
            ranks.append((labels, float(finding.rank)))
            ratios.append((labels, finding.ratio))
        kinds = [incident.kind for incident in _alerting(verdicts)]
        open_incidents.extend(
            ((job.name, kind.value), float(kinds.count(kind.value))) for kind in FindingKind
        )
    yield gauge(names.STRAGGLER_RANK, ranks)
    yield gauge(names.STRAGGLER_SLOWDOWN, ratios)
    yield gauge(names.INCIDENT_OPEN, open_incidents)


def _checkpoints(jobs: Jobs) -> Iterator[Metric]:
    outcomes: list[Sample] = []
    unverified: list[Sample] = []
    newest: list[Sample] = []
    bad: list[Sample] = []
    for job, _ in jobs:
        checkpoints = [item for _, item in job.checkpoints()]
        outcomes.extend(
            ((job.name, outcome), float(count)) for outcome, count in job.totals.checkpoints.items()
        )
        undecided = sum(checkpoint.verified is None for checkpoint in checkpoints)
        unverified.append(((job.name,), float(undecided)))
        good = [checkpoint.step for checkpoint in checkpoints if checkpoint.is_good]
        newest.append(((job.name,), float(good[-1]) if good else None))
        bad.append(((job.name,), _failures_in_a_row(job)))
    yield counter(names.CHECKPOINTS, outcomes)
    yield gauge(names.CHECKPOINTS_UNVERIFIED, unverified)
    yield gauge(names.CHECKPOINT_VERIFIED_STEP, newest)
    yield gauge(names.CHECKPOINT_FAILURES_IN_A_ROW, bad)


def _alerting(verdicts: Verdicts) -> list[Incident]:
    """Return open incidents that raise alerts: not those with negligible cost."""
    return [incident for incident in verdicts.open_incidents() if incident.severity != INFO]


def _stragglers(verdicts: Verdicts) -> list[Finding]:
    """Return stragglers that are root causes: an explained one has no open incident."""
    open_now = {(incident.kind, incident.rank) for incident in _alerting(verdicts)}
    stragglers = [
        item
        for item in verdicts.findings
        if item.kind is FindingKind.STRAGGLER and (item.kind.value, item.rank) in open_now
    ]
    return stragglers[:STRAGGLER_SLOTS]


def _failures_in_a_row(job: LiveJob) -> Value:
    return failures_in_a_row(run.checkpoints.by_step for run, _ in job.runs().values())


def _since_failure(attempt: Attempt, verdicts: Verdicts, now: float) -> Value:
    """Return seconds since the failure; a job abandoned for a day has none."""
    if is_abandoned(attempt, now) or math.isnan(verdicts.failed_at):
        return None
    return max(0.0, now - verdicts.failed_at)


def _job_class(attempt: Attempt) -> str:
    return attempt.job_class or "unknown"


def _newest_step(attempt: Attempt) -> Value:
    newest = attempt.attendance.complete_until if attempt.world else -1
    return (
        float(newest)
        if newest >= attempt.steps.history.first and len(attempt.steps.history)
        else None
    )


def _newest_loss(attempt: Attempt) -> Value:
    losses = attempt.steps.history.rows["loss"]
    finite = losses[~np.isnan(losses)]
    return float(finite[-1]) if len(finite) else attempt.steps.history.dropped.loss_last
