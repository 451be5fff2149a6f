"""Dashboard "Training: job" for the on-call: one job, from problems to telemetry."""

from __future__ import annotations

from stepwatch.dashboards import frame, queries
from stepwatch.dashboards.annotations import annotated
from stepwatch.dashboards.drill_down import JOB_UID
from stepwatch.dashboards.layout import place
from stepwatch.dashboards.panels import link
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import (
    checkpoints,
    numbers,
    pace,
    runbook,
    where_time_goes,
    wrong,
)
from stepwatch.dashboards.telemetry import telemetry
from stepwatch.dashboards.thresholds import Thresholds

UID = JOB_UID
"""The dashboard's stable id, which is also its address."""

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
    description = "One training job for the on-call: is it healthy, and if not, what to do."
    page = (
        annotated(frame.page(TITLE, UID, description, thresholds), several=False)
        .with_variable(frame.choice(queries.JOB_VARIABLE, "Job", queries.JOBS))
        .link(link("Job", f"{thresholds.page}/jobs/{queries.CHOSEN_JOB}"))
    )
    # One line with links for paging alerts; the incident table links the others.
    for alert in sorted(thresholds.paging):
        page = page.link(runbook(thresholds, alert))
    return page
