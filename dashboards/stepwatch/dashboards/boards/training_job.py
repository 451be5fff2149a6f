"""Dashboard "Training: job" for the on-call: one job, from what is wrong to its telemetry."""

from __future__ import annotations

from stepwatch.dashboards import queries
from stepwatch.dashboards.layout import place
from stepwatch.dashboards.panels import SOURCE
from stepwatch.dashboards.sdk import builders, dashboard
from stepwatch.dashboards.sections import (
    checkpoints,
    numbers,
    pace,
    runbook,
    telemetry,
    where_time_goes,
    wrong,
)
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.signals.names import JOB

UID = "stepwatch-training-job"
"""Stable id, and so address, of the dashboard."""

FILE = "training-job.json"
TITLE = "Training: job"


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    sections = [
        wrong(thresholds),
        pace(),
        numbers(thresholds),
        where_time_goes(),
        checkpoints(),
        telemetry(thresholds),
    ]
    return place(_frame(thresholds), sections)


def _frame(thresholds: Thresholds) -> builders.Dashboard:
    page = (
        builders.Dashboard(TITLE)
        .uid(UID)
        .description("One training job for the on-call: is it healthy, and if not, what to do.")
        .tags(["training", "stepwatch"])
        .readonly()
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .with_variable(_source())
        .with_variable(_job())
        .annotation(_attempts())
    )
    # One line of links for the alerts that page; the table of incidents links the others.
    for alert in sorted(thresholds.paging):
        page = page.link(runbook(thresholds, alert))
    return page


def _source() -> builders.DatasourceVariable:
    return builders.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _job() -> builders.QueryVariable:
    return (
        builders.QueryVariable(queries.JOB_VARIABLE)
        .label("Job")
        .datasource(SOURCE)
        .query({"query": queries.JOBS, "refId": JOB})
        .definition(queries.JOBS)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(False)
        .include_all(False)
    )


def _attempts() -> builders.AnnotationQuery:
    return (
        builders.AnnotationQuery()
        .name("Attempt began")
        .datasource(SOURCE)
        .enable(True)
        .icon_color("purple")
        .expr(queries.ATTEMPT_BEGAN)
        .title_format(queries.ATTEMPT_TITLE)
    )
