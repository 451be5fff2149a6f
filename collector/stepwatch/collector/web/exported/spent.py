"""Allocated device time by cause, and its cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.state.job import LiveJob
from stepwatch.signals import names

from .families import Sample, gauge


def spent(jobs: Iterable[tuple[LiveJob, Verdicts]]) -> Iterator[Metric]:
    """Yield each job's device-seconds by cause, and its cost at the rate card's rates.

    Neither is exported before the first step is accounted for.
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
