"""Job outcomes, durations, incidents and owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric

from stepwatch.collector.job_states import ENDED
from stepwatch.collector.runtime.evaluation.job_state import job_state
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts, job_facts
from stepwatch.collector.slo.over_run.registry import readings
from stepwatch.collector.state.job import LiveJob
from stepwatch.signals import names
from stepwatch.signals.names import PROJECT, TEAM

from .families import Sample, gauge

_NOBODY = "unknown"
_OF_SLI = {"time-to-complete": names.JOB_DURATION, "recovery-time": names.JOB_RECOVERY}
"""Metrics whose value is an SLI over the run."""


def outcomes(jobs: Iterable[tuple[LiveJob, Verdicts]], now: float) -> Iterator[Metric]:
    """Yield each job's outcome, duration, recovery, incidents, and owner.

    A job that neither ended nor restarted has no duration and no recovery.
    """
    ends: list[Sample] = []
    incidents: list[Sample] = []
    owners: list[Sample] = []
    measured: dict[str, list[Sample]] = {name: [] for name in _OF_SLI}
    for job, verdicts in jobs:
        state = job_state(job.current, verdicts.open_incidents(), now)
        if state in ENDED:
            ends.append(((job.name, state), 1.0))
        counts = Counter(incident.kind for incident in verdicts.incidents.values())
        incidents += [((job.name, kind), float(count)) for kind, count in sorted(counts.items())]
        owner = verdicts.accounts.owner
        owners.append(((job.name, owner.get(PROJECT, _NOBODY), owner.get(TEAM, _NOBODY)), 1.0))
        if state in ENDED or len(job.attempts) > 1:
            sli_readings = readings(job_facts(job, verdicts, now), _OF_SLI)
            for name, reading in sli_readings.items():
                measured[name].append(((job.name,), reading.value))
    yield gauge(names.JOB_OUTCOME, ends)
    yield gauge(names.JOB_INCIDENTS, incidents)
    yield gauge(names.JOB_OWNER, owners)
    for name, metric in _OF_SLI.items():
        yield gauge(metric, measured[name])
