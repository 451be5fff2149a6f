"""What became of the allocated device-time of jobs, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.state.job import LiveJob
from stepwatch.signals import names

from .families import Sample, gauge


def spent(jobs: Iterable[tuple[LiveJob, Verdicts]]) -> Iterator[Metric]:
    """Device-seconds of each job by what they went to, and money at the rates of the rate card.

    Neither is exported before a step was accounted for.
    """
    devices: list[Sample] = []
    money: list[Sample] = []
    for job, verdicts in jobs:
        seconds = verdicts.accounts.seconds()
        if not any(seconds.values()):
            continue
        devices += [((job.name, cause), value) for cause, value in seconds.items()]
        cost = verdicts.accounts.cost(verdicts.rates, job.current.job_class)
        if cost is not None and not cost.without_rate:
            money.append(((job.name, cost.currency), cost.money))
    yield gauge(names.DEVICE_SECONDS, devices)
    yield gauge(names.JOB_COST, money)
