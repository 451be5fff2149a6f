"""Dashboard "Training: checkpoints": the cost of a restart, by job."""

from __future__ import annotations

from stepwatch.dashboards import fleet, frame
from stepwatch.dashboards.annotations import annotated
from stepwatch.dashboards.drill_down import job_table
from stepwatch.dashboards.layout import Section, place
from stepwatch.dashboards.panels import NONE_KNOWN, Line, Metadata, Panel, lines, number
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import ANY, below, legend, runbook
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.signals import names
from stepwatch.signals.names import KIND, OUTCOME, FindingKind

UID = "stepwatch-checkpoints"
FILE = "checkpoints.json"
TITLE = "Training: checkpoints"

_NONE = "no checkpoint is verified"
_ENDED = fleet.of_jobs(names.CHECKPOINTS, OUTCOME)
_UNVERIFIED = fleet.of_jobs(names.CHECKPOINTS_UNVERIFIED)
_IN_A_ROW = fleet.of_jobs(names.CHECKPOINT_FAILURES_IN_A_ROW)
_VERIFIED = fleet.of_jobs(names.CHECKPOINT_VERIFIED_STEP)
# Steps count from 0, and a checkpoint is named by the step that a restart begins with.
_AT_RISK = f"clamp_min({fleet.of_jobs(names.JOB_STEP)} + 1 - {_VERIFIED}, 0)"
_STALLS = f'{KIND}="{FindingKind.CHECKPOINT_STALL.value}"'


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    description = "Checkpoints of all jobs: the good ones, and the loss at a restart."
    page = annotated(frame.page(TITLE, UID, description, thresholds), several=True)
    page = frame.of_jobs(page)
    for alert in (names.ALERT_CHECKPOINT_STALL, names.ALERT_CHECKPOINT_UNVERIFIED):
        page = page.link(runbook(thresholds, alert))
    return place(page, [_good(thresholds), _lost(), _over_time()])


def _good(thresholds: Thresholds) -> Section:
    worst = Metadata(
        "Most failures in a row",
        f"Since one last verified; {thresholds.failed_checkpoints:.0f} open a ticket.",
        "none",
        6,
    )
    waiting = Metadata("Not known to be good", "Checkpoints neither verified nor failed.", width=6)
    stalls = Metadata("Checkpoint stalls", "Open incidents of steps held up.", "none", 6)
    ended = Metadata("Ended by outcome", "Since the collector began to count.", "none", 6)
    kinds = fleet.of_jobs(names.INCIDENT_OPEN, KIND, matching=_STALLS)
    return Section(
        "Are they good",
        [
            number(worst, Line(f"max({_IN_A_ROW})"), below(thresholds.failed_checkpoints)),
            number(waiting, Line(fleet.total(_UNVERIFIED))),
            number(stalls, Line(fleet.total(kinds)), ANY),
            number(ended, Line(fleet.total(_ENDED, OUTCOME), legend(OUTCOME))),
        ],
    )


def _lost() -> Section:
    risk = Metadata(
        "Steps lost at a restart", "Since the newest verified one.", "none", empty=_NONE
    )
    oldest = Metadata(
        "Newest verified step", "A restart resumes here; lowest first.", "none", empty=_NONE
    )
    failing = Metadata("Failures in a row", "Jobs whose newest checkpoints failed.", "none",
                       empty=NONE_KNOWN)  # fmt: skip
    return Section(
        "What a restart loses",
        [
            job_table(risk, fleet.worst(_AT_RISK), "steps"),
            job_table(oldest, fleet.worst(_VERIFIED, "bottomk"), "step"),
            job_table(failing, fleet.worst(f"{_IN_A_ROW} > 0"), "failures"),
        ],
    )


def _over_time() -> Section:
    return Section("Over time", [_risk_over_time(), _waiting_over_time()])


def _risk_over_time() -> Panel:
    metadata = Metadata("Most steps at risk", "Of the job that would lose most.", "none", 12, _NONE)
    return lines(metadata, Line(f"max({_AT_RISK})", "steps"))


def _waiting_over_time() -> Panel:
    metadata = Metadata("Waiting for a verdict", "Grows while nothing verifies.", "none", 12)
    return lines(metadata, Line(fleet.total(_UNVERIFIED), "checkpoints"))
