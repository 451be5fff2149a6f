"""Dashboard "Training: fleet": hundreds of jobs and all nodes, from failing to idle."""

from __future__ import annotations

from stepwatch.dashboards import fleet, frame
from stepwatch.dashboards.annotations import annotated
from stepwatch.dashboards.drill_down import NODE_LINK, facts, health, job_table
from stepwatch.dashboards.layout import Section, place
from stepwatch.dashboards.panels import (
    NONE_KNOWN,
    Line,
    Metadata,
    Panel,
    lines,
    linked,
    number,
    rows,
)
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import ANY, below, legend
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.dashboards.usage import usage
from stepwatch.signals import names
from stepwatch.signals.names import DEVICE_METRICS, JOB, JOB_CLASS, KIND, NODE, NODE_RANKS

UID = "stepwatch-fleet"
FILE = "fleet.json"
TITLE = "Training: fleet"

_CLASSES = fleet.of_jobs(names.JOB_INFO, JOB_CLASS)
_INCIDENTS = fleet.of_jobs(names.INCIDENT_OPEN, KIND)
_FAILED = fleet.of_jobs(names.SECONDS_SINCE_FAILURE)
_DEVICES = fleet.of_each_device(DEVICE_METRICS["lost"], "count")
_TRAINS = f"sum by ({NODE}) ({NODE_RANKS.name}) > 0"


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    description = "All jobs and nodes in one view: failing trials, slow jobs, idle nodes."
    page = annotated(frame.page(TITLE, UID, description, thresholds), several=True)
    page = frame.of_jobs(page)
    return place(page, [_failing(thresholds), _classes(), _capacity(), usage()])


def _with_class(expr: str) -> str:
    """Add the job's class to its value."""
    return f"({expr}) * on ({JOB}) group_left ({JOB_CLASS}) ({_CLASSES})"


def _failing(thresholds: Thresholds) -> Section:
    failed = Metadata("Failed for", "Since all ranks failed, longest first.", "s", empty=NONE_KNOWN)
    loops = Metadata(
        "Attempts",
        f"In the time range, most first; {thresholds.looping_attempts:.0f} within half an hour are "
        "a crash loop.",
        "none",
    )
    still = Metadata("Without progress", "Of jobs that run, longest first.", "s")
    stalled = fleet.while_running(fleet.of_jobs(names.SECONDS_WITHOUT_PROGRESS))
    attempts = job_table(loops, fleet.worst(_with_class(fleet.ATTEMPTS)), "attempts", JOB_CLASS)
    return Section(
        "Which jobs fail",
        [
            *_counts(thresholds),
            job_table(failed, fleet.worst(_with_class(_FAILED)), "since", JOB_CLASS).height(8),
            attempts.height(8),
            job_table(still, fleet.worst(stalled), "for").height(8),
        ],
    )


def _counts(thresholds: Thresholds) -> list[Panel]:
    failed = Metadata("Jobs that failed", "All ranks.", "none", 6, NONE_KNOWN)
    running = Metadata("Jobs that run", "Are expected to make progress.", "none", 6)
    kinds = Metadata("Open incidents", "A 0 is good only while telemetry arrives.", "none", 6)
    age = Metadata("Oldest telemetry", "Of jobs that run.", "s", 6)
    oldest = fleet.while_running(f"time() - {fleet.of_jobs(names.LAST_RECORD)}")
    return [
        number(failed, Line(f"count({_FAILED})"), ANY),
        number(kinds, Line(fleet.total(_INCIDENTS)), ANY),
        number(age, Line(f"max({oldest})"), below(thresholds.stale_seconds)),
        number(running, Line(fleet.total(fleet.of_jobs(names.JOB_RUNNING)))),
    ]


def _classes() -> Section:
    running = Metadata("Jobs by class", "Jobs that run.", "none", 12)
    kinds = Metadata("Incidents by kind", "Open, all chosen jobs.", "none", 12, NONE_KNOWN)
    pace = Metadata("Tokens per second by class", "Trained on.", "short", 12)
    slow = Metadata(
        "Slowest jobs", "Tokens per second, lowest first, of jobs that run.", "short", 12
    )
    rate = fleet.rate_of_jobs(names.JOB_TOKENS)
    by_class = fleet.total(fleet.while_running(_CLASSES), JOB_CLASS)
    return Section(
        "Jobs by class, incidents by kind",
        [
            lines(running, Line(by_class, legend(JOB_CLASS)), stacked=True),
            lines(kinds, Line(f"{fleet.total(_INCIDENTS, KIND)} > 0", legend(KIND)), stacked=True),
            lines(pace, Line(fleet.total(_with_class(rate), JOB_CLASS), legend(JOB_CLASS))),
            job_table(slow, fleet.worst(fleet.while_running(rate), "bottomk"), "tokens/s").height(
                8
            ),
        ],
    )


def _capacity() -> Section:
    devices = Metadata("Devices", "Of all nodes that have any.", "none", 4)
    idle = Metadata("Devices without ranks", "On nodes where no rank runs.", "none", 4, NONE_KNOWN)
    busy = Metadata("Nodes with idle devices", "Ranks run and devices do not; idlest first.",
                    "percentunit", 8)  # fmt: skip
    use = fleet.of_each_device(DEVICE_METRICS["busy_ratio"], "avg")
    table = rows(
        busy,
        Line(fleet.worst(f"{use} and on ({NODE}) {_TRAINS}", "bottomk")),
        columns={NODE: "node", "Value": "busy"},
    )
    return Section(
        "Nodes and their work",
        [
            number(devices, Line(fleet.total(_DEVICES))),
            number(idle, Line(fleet.total(f"{_DEVICES} unless on ({NODE}) {_TRAINS}"))),
            health(),
            linked(table, "node", *NODE_LINK),
            linked(facts().span(24), "node", *NODE_LINK),
        ],
    )
