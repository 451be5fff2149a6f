"""Dashboard "stepwatch itself": can what the other dashboards show be relied on."""

from __future__ import annotations

from stepwatch.dashboards import fleet, frame
from stepwatch.dashboards.layout import Section, place
from stepwatch.dashboards.panels import Line, Metadata, Panel, Steps, lines, number
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import ANY, legend, runbook
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.signals import names
from stepwatch.signals.names import CAUSE, KIND, NODE, OUTCOME, VERDICT, Metric

UID = "stepwatch-itself"
FILE = "stepwatch.json"
TITLE = "stepwatch itself"

_NEUTRAL: Steps = ((None, "text"),)


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    description = "Collectors and agents: is telemetry taken in, evaluated, kept and sent on."
    page = frame.page(TITLE, UID, description, thresholds)
    page = page.link(runbook(thresholds, names.ALERT_TELEMETRY_LOST))
    return place(page, [_evaluation(thresholds), _intake(), _notices(), _store(), _agents()])


def _stat(metric: Metric, title: str, text: str, steps: Steps = _NEUTRAL, *by: str) -> Panel:
    line = Line(fleet.of_all(metric, *by), legend(*by))
    return number(Metadata(title, text, "none", 4), line, steps)


def _rates(metric: Metric, title: str, text: str, unit: str, *by: str) -> Panel:
    line = Line(fleet.rate_of_all(metric, *by), legend(*by) or title)
    return lines(Metadata(title, text, unit), line)


def _rises(metric: Metric, title: str, text: str, *by: str) -> Panel:
    line = Line(fleet.rise_of_all(metric, *by), legend(*by) or title)
    return lines(Metadata(title, text, "none"), line)


def _evaluation(thresholds: Thresholds) -> Section:
    seconds = Metadata("Slowest evaluation", "Time the newest one took, of any collector.", "s")
    asked = Metadata("Flush asked for", "Time between flushes; 0: agents choose it.", "s")
    jobs = Metadata("Jobs evaluated", "By all collectors together.", "none", 4)
    return Section(
        "Evaluation",
        [
            number(jobs, Line(fleet.of_all(names.COLLECTOR_JOBS, how="sum"))),
            _stat(names.COLLECTOR_REPLICAS, "Collectors", "That share the store."),
            _stat(names.COLLECTOR_JOBS_CAPPED, "Left out", "Jobs beyond the series cap.", ANY),
            _stat(names.COLLECTOR_JOBS_QUARANTINED, "Quarantined", "Jobs not evaluated.", ANY),
            _stat(names.COLLECTOR_JOBS_RESTORING, "Restoring", "Jobs not evaluated yet."),
            _stat(names.COLLECTOR_OBJECTIVES_UNREADABLE, "SLO documents", "1: wrong.", ANY),
            lines(
                seconds,
                Line(fleet.of_all(names.COLLECTOR_EVALUATION_SECONDS), "seconds"),
                threshold=thresholds.lag_seconds,
            ),
            lines(asked, Line(fleet.of_all(names.COLLECTOR_ASKED_FLUSH_SECONDS), "seconds")),
            _rises(names.COLLECTOR_EVALUATION_FAILURES, "Failed evaluations", "Of late."),
        ],
    )


def _intake() -> Section:
    refused = "Another collector had taken the job over."
    return Section(
        "Intake",
        [
            _rates(names.COLLECTOR_SEGMENTS, "Segments", "By verdict.", "cps", VERDICT),
            _rises(names.COLLECTOR_WRITES_REFUSED, "Writes refused", refused),
            _rises(names.COLLECTOR_UNKNOWN_RECORDS, "Unknown records", "By kind; stored.", KIND),
        ],
    )


def _notices() -> Section:
    outbox = Metadata("Outbox", "Transitions of incidents, by what became of them.", "none", 12)
    lost = Metadata("Notices given up", "Within a day, by cause.", "none", 12)
    kept = Line(fleet.of_all(names.COLLECTOR_NOTICES, VERDICT), legend(VERDICT))
    gone = Line(fleet.of_all(names.COLLECTOR_NOTICES_GIVEN_UP, CAUSE), legend(CAUSE))
    return Section("Notices", [number(outbox, kept), number(lost, gone, ANY)])


def _store() -> Section:
    age = Metadata("Since retention", "Since it last went through the whole store.", "s")
    swept = f"time() - {fleet.of_all(names.COLLECTOR_RETENTION_TIME)}"
    kept = "Segments of later formats, and damaged ones read back."
    held = Line(fleet.of_all(names.COLLECTOR_UNDECODED), "later formats")
    damaged = Line(fleet.rise_of_all(names.COLLECTOR_UNREADABLE), "damaged, of late")
    incidents = names.COLLECTOR_UNREADABLE_INCIDENTS
    bundled = "Segments put into bundles."
    return Section(
        "Store",
        [
            number(age, Line(swept)).height(8),
            _rates(names.COLLECTOR_REMOVED_BYTES, "Removed", "By retention.", "Bps", KIND),
            _rates(names.COLLECTOR_REMOVED_ROWS, "Rows removed", "By retention.", "cps", KIND),
            lines(Metadata("Not read", kept, "none"), held, damaged),
            _rises(incidents, "Unreadable incidents", "Left out, of late."),
            _rises(names.COLLECTOR_SNAPSHOTS, "Snapshots", "By verdict, of late.", VERDICT),
            _rates(names.COLLECTOR_COMPACTED_SEGMENTS, "Compaction", bundled, "cps"),
            _rates(names.COLLECTOR_BUNDLE_BYTES, "Bundles written", "After it.", "Bps"),
            _rises(names.COLLECTOR_OBJECT_FAILURES, "Object store failures", "Of late."),
        ],
    )


def _agents() -> Section:
    spool = Metadata("Fullest spools", "Bytes that wait for the collector.", "bytes")
    lost = Metadata("Records lost", "Overwritten before they were read.", "cps")
    waiting = fleet.worst(fleet.of_all(names.AGENT_SPOOL_BYTES, NODE))
    overrun = fleet.worst(fleet.rate_of_all(names.AGENT_OVERRUNS, NODE))
    hooks = Metadata("Errors in hooks", "Contained; since the ranks began.", "none")
    errors = fleet.of_all(names.NODE_HOOK_ERRORS, how="sum")
    thread = names.AGENT_THREAD_FAILURES.labels[-1]
    return Section(
        "Agents",
        [
            _rates(names.AGENT_RECORDS, "Records read", "By all agents.", "cps"),
            lines(spool, Line(waiting, legend(NODE))),
            lines(lost, Line(overrun, legend(NODE))),
            _rates(names.AGENT_SEND_FAILURES, "Failed sends", "Of all agents.", "cps"),
            _rises(names.AGENT_SPOOL_DROPPED, "Segments dropped", "From full spools."),
            _rises(names.AGENT_REFUSED, "Segments refused", "By the collector."),
            _rises(names.AGENT_THREAD_FAILURES, "Threads restarted", "By thread.", thread),
            _rates(names.AGENT_SPANS, "Spans", "By what became of them.", "cps", OUTCOME),
            lines(hooks, Line(errors, "errors")),
        ],
    )
