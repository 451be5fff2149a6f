"""Dashboard "Training: on call": all jobs, from current problems down to devices."""

from __future__ import annotations

from stepwatch.dashboards import fleet, frame
from stepwatch.dashboards.annotations import annotated
from stepwatch.dashboards.drill_down import (
    JOB_LINK,
    NODE_LINK,
    facts,
    health,
    job_table,
    page_of_row,
)
from stepwatch.dashboards.layout import Section, place
from stepwatch.dashboards.panels import NONE_KNOWN, Line, Metadata, Panel, linked, number, rows
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import ANY, above, below, legend, runbook
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.dashboards.usage import usage
from stepwatch.signals import names
from stepwatch.signals.names import JOB, KIND

UID = "stepwatch-on-call"
FILE = "on-call.json"
TITLE = "Training: on call"

_INCIDENTS = fleet.of_jobs(names.INCIDENT_OPEN, KIND)
_STALLED = fleet.while_running(fleet.of_jobs(names.SECONDS_WITHOUT_PROGRESS))
_AGE = fleet.while_running(f"time() - {fleet.of_jobs(names.LAST_RECORD)}")
_COVERAGE = fleet.while_running(fleet.of_jobs(names.TELEMETRY_COVERAGE, how="min"))
_UNVERIFIED = "no checkpoint is verified"
_FAILED = fleet.of_jobs(names.SECONDS_SINCE_FAILURE)


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    description = "All jobs for the on-call: the ones that need attention now, and why."
    page = annotated(frame.page(TITLE, UID, description, thresholds), several=True)
    page = frame.of_jobs(page)
    for alert in sorted(thresholds.paging):
        page = page.link(runbook(thresholds, alert))
    sections = [_now(thresholds), _failures(), _checkpoints(thresholds), usage()]
    return place(page, sections)


def _now(thresholds: Thresholds) -> Section:
    return Section("Needs action now", [*_signs(thresholds), _incidents(thresholds)])


def _signs(thresholds: Thresholds) -> list[Panel]:
    running = Metadata("Jobs expected to run", "Of the chosen jobs.", "none", 4)
    open_incidents = Metadata(
        "Open incidents", "A 0 is good only while telemetry arrives.", "none", 4
    )
    failed = Metadata("Jobs that failed", "All ranks of the newest attempt.", "none", 4, NONE_KNOWN)
    stalled = Metadata("Longest without progress", "Of jobs that are expected to run.", "s", 4)
    age = Metadata("Oldest telemetry", "Age of the newest record, of running jobs.", "s", 4)
    least = Metadata("Lowest coverage", "Observed over expected step records.", "percentunit", 4)
    return [
        number(running, Line(fleet.total(fleet.of_jobs(names.JOB_RUNNING)))),
        number(open_incidents, Line(fleet.total(_INCIDENTS)), ANY),
        number(failed, Line(f"count({_FAILED})"), ANY),
        number(stalled, Line(f"max({_STALLED})"), below(thresholds.stalled_seconds)),
        number(age, Line(f"max({_AGE})"), below(thresholds.stale_seconds)),
        number(least, Line(f"min({_COVERAGE})"), above(thresholds.coverage_ratio)),
    ]


def _incidents(thresholds: Thresholds) -> Panel:
    metadata = Metadata(
        "Open incidents by job",
        "Most first. A job leads to its dashboard, a kind to the page with evidence and runbook.",
        "none",
        24,
        NONE_KNOWN,
    )
    columns = {JOB: "job", KIND: "kind", "Value": "open"}
    table = rows(metadata, Line(fleet.worst(f"{_INCIDENTS} > 0")), columns=columns, height=8)
    table = table.links([runbook(thresholds, alert) for alert in sorted(thresholds.runbooks)])
    table = linked(table, "kind", "Open evidence and runbook", page_of_row(thresholds))
    return linked(table, "job", *JOB_LINK)


def _failures() -> Section:
    failed = Metadata("Failed for", "Time since all ranks failed, longest first.", "s",
                      empty=NONE_KNOWN)  # fmt: skip
    attempts = Metadata("Attempts", "In the time range; more than one is a restart.", "none")
    recovery = Metadata(
        "Time to recover",
        "From the last step before an interruption to the first one after it, mean; longest first.",
        "s",
        empty="no restart",
    )
    return Section(
        "Failures and restarts",
        [
            job_table(failed, fleet.worst(_FAILED), "since"),
            job_table(attempts, fleet.worst(fleet.ATTEMPTS), "attempts"),
            linked(facts(), "node", *NODE_LINK),
            job_table(recovery, fleet.worst(fleet.of_jobs(names.JOB_RECOVERY)), "mean"),
            health(16).height(6),
        ],
    )


def _checkpoints(thresholds: Thresholds) -> Section:
    in_a_row = fleet.of_jobs(names.CHECKPOINT_FAILURES_IN_A_ROW)
    failures = Metadata(
        "Most failures in a row",
        f"Checkpoints since one last verified; {thresholds.failed_checkpoints:.0f} open a ticket.",
        "none",
    )
    steps = Metadata(
        "Newest verified step", "A restart resumes here; lowest first.", "none", empty=_UNVERIFIED
    )
    verified = fleet.worst(fleet.of_jobs(names.CHECKPOINT_VERIFIED_STEP), "bottomk")
    ends = fleet.total(fleet.of_jobs(names.CHECKPOINTS, names.OUTCOME), names.OUTCOME)
    outcome = Metadata("Checkpoints by outcome", "Since the collector began to count.", "none")
    return Section(
        "Checkpoints",
        [
            number(failures, Line(f"max({in_a_row})"), below(thresholds.failed_checkpoints)),
            number(outcome, Line(ends, legend(names.OUTCOME))),
            job_table(steps, verified, "step"),
        ],
    )
