"""The on-call dashboard "Training: job": one job, from "what is wrong" down to the telemetry."""

from __future__ import annotations

from stepwatch.signals.names import JOB

from . import queries
from .layout import place
from .marks import Marks
from .panels import SOURCE
from .sdk import builders, dashboard
from .sections import checkpoints, numbers, pace, runbook, telemetry, where_time_goes, wrong

UID = "stepwatch-training-job"
"""Stable id, and so address, of the dashboard."""

FILE = "training-job.json"
TITLE = "Training: job"


def build(marks: Marks) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    sections = [
        wrong(marks),
        pace(),
        numbers(marks),
        where_time_goes(),
        checkpoints(),
        telemetry(marks),
    ]
    return place(_frame(marks), sections)


def _frame(marks: Marks) -> builders.Dashboard:
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
    # One line of links: who is woken finds the page here, the others on the table of incidents.
    for alert in sorted(marks.paging):
        page = page.link(runbook(marks, alert))
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
