"""Reads a report's data from the store."""

from __future__ import annotations

from functools import cache

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.report_slos import slo_lines
from stepwatch.collector.web.report_view import report_document
from stepwatch.collector.web.schema.report import ReportAnswer

_REPORTED = 10_000
"""Maximum number of newest incidents per report."""


def report_of(
    service: Service, first: int, until: int, job: str | None, job_class: str | None
) -> ReportAnswer:
    """Return the report on whole days in [`first`, `until`) (Unix seconds).

    It covers one job, a job class, or all jobs.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the store does not answer.
    """
    store = service.store
    days = store.account_days(first, until, job)
    days = [day for day in days if job_class in (None, day.job_class)]
    classes: dict[str, list[str]] = {}
    for name, newest in {day.job: day.job_class for day in days}.items():
        classes.setdefault(newest, []).append(name)
    lines = slo_lines(
        service.objectives,
        classes,
        first,
        until,
        cache(lambda sli, moments: store.slice_sums(sli, moments, first, job)),
    )
    incidents = store.incidents.newest(job, limit=_REPORTED)
    nodes = [*service.nodes.fleet().nodes.values()]
    if job is not None or job_class is not None:
        named = {incident.get("node") for incident in incidents}
        nodes = [node for node in nodes if node.name in named]
    return report_document(days, incidents, first, until, lines, nodes, service.objectives.rates)
