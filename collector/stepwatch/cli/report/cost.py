"""Cost of jobs in a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwatch.collector.slo.asked.rates import RateCard, cost_of


def job_cost(job: Mapping[str, Any], card: RateCard) -> tuple[float, float]:
    """Return a job's cost in a report, and the device-seconds on days without a rate."""
    by_day = {int(day): seconds for day, seconds in job["allocated_by_day"].items()}
    return cost_of(by_day, job["job_class"], card)
