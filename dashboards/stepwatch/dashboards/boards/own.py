"""Dashboard "stepwatch itself": are the other dashboards reliable?"""

from __future__ import annotations

from stepwatch.dashboards import fleet, frame
from stepwatch.dashboards.layout import Section, place
from stepwatch.dashboards.panels import NONE_KNOWN, Line, Metadata, lines, number
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import ANY, legend, runbook
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.signals import names
from stepwatch.signals.names import CAUSE, KIND, NODE, OUTCOME, RECEIVER, VERDICT

UID = "stepwatch-itself"
FILE = "stepwatch.json"
TITLE = "stepwatch itself"


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    description = "Collectors and agents: is telemetry taken in, evaluated, kept and sent on."
    page = frame.page(TITLE, UID, description, thresholds)
    page = page.link(runbook(thresholds, names.ALERT_TELEMETRY_LOST))
    return place(page, [_losses(), _evaluation(thresholds), _intake(), _notices(), _agents()])


def _losses() -> Section:
    now = Metadata("Left out now", "Jobs, files, segments and rings without a verdict.", "none", 12)
    failures = Metadata("Collector failures", "Recent errors; the data stays stored.", "none", 12)
    undelivered = Metadata("Not delivered", "By agents: lost, refused or waiting.", "none", 12)
    restarts = Metadata(
        "Restarts in agents", "Threads, probes, and errors that the system reported.", "none", 12,
        "nothing failed in an agent",
    )  # fmt: skip
    unsaved = fleet.rise_of_all(names.COLLECTOR_SNAPSHOTS, VERDICT, matching='verdict!="saved"')
    return Section(
        "Is anything left out or lost",
        [
            lines(
                now,
                Line(fleet.of_all(names.COLLECTOR_JOBS_CAPPED), "jobs beyond the series cap"),
                Line(fleet.of_all(names.COLLECTOR_JOBS_QUARANTINED), "jobs quarantined"),
                Line(fleet.of_all(names.COLLECTOR_JOBS_RESTORING), "jobs restoring"),
                Line(fleet.of_all(names.COLLECTOR_OBJECTIVES_UNREADABLE), "wrong SLO documents"),
                Line(fleet.of_all(names.COLLECTOR_UNDECODED), "segments of later formats"),
                Line(fleet.of_all(names.AGENT_RINGS_UNREAD, how="sum"), "rings not read"),
            ),
            lines(
                failures,
                Line(fleet.rise_of_all(names.COLLECTOR_EVALUATION_FAILURES), "evaluations"),
                Line(fleet.rise_of_all(names.COLLECTOR_UNREADABLE), "segments damaged"),
                Line(fleet.rise_of_all(names.COLLECTOR_UNREADABLE_INCIDENTS), "incidents damaged"),
                Line(fleet.rise_of_all(names.COLLECTOR_OBJECT_FAILURES), "object store"),
                Line(fleet.rise_of_all(names.COLLECTOR_WRITES_REFUSED), "writes for a moved job"),
                Line(unsaved, f"snapshots {legend(VERDICT)}"),
                Line(
                    fleet.rise_of_all(names.COLLECTOR_UNKNOWN_RECORDS, KIND),
                    f"records of unknown kind {legend(KIND)}",
                ),
            ),
            lines(
                undelivered,
                Line(fleet.rise_of_all(names.AGENT_OVERRUNS), "records overwritten"),
                Line(fleet.rise_of_all(names.AGENT_SPOOL_DROPPED), "segments dropped"),
                Line(fleet.rise_of_all(names.AGENT_REFUSED), "segments refused"),
                Line(fleet.of_all(names.AGENT_SPOOL_SEGMENTS, how="sum"), "segments in spools"),
                Line(fleet.of_all(names.AGENT_HELD_SEGMENTS, how="sum"), "segments held"),
                Line(fleet.of_all(names.AGENT_UNREADABLE_SEGMENTS, how="sum"), "files unreadable"),
                Line(fleet.of_all(names.AGENT_ENDED_RINGS, how="sum"), "rings of ended ranks"),
            ),
            lines(
                restarts,
                Line(
                    fleet.rise_of_all(names.AGENT_THREAD_FAILURES, _THREAD),
                    f"thread {legend(_THREAD)}",
                ),
                Line(fleet.rise_of_all(names.PROBE_CRASHES, _PROBE), f"probe {legend(_PROBE)}"),
                Line(fleet.rise_of_all(names.AGENT_OS_ERRORS, _ERROR), legend(_ERROR)),
            ),
        ],
    )


def _evaluation(thresholds: Thresholds) -> Section:
    count = Metadata("Jobs and collectors", "Jobs evaluated; collectors on the store.", "none", 12)
    seconds = Metadata("Every job evaluated", "And the flush interval asked of agents.", "s", 12)
    return Section(
        "Evaluation",
        [
            lines(
                count,
                Line(fleet.of_all(names.COLLECTOR_JOBS, how="sum"), "jobs"),
                Line(fleet.of_all(names.COLLECTOR_REPLICAS), "collectors"),
            ),
            lines(
                seconds,
                Line(fleet.of_all(names.COLLECTOR_EVALUATION_SECONDS), "evaluation"),
                Line(fleet.of_all(names.COLLECTOR_ASKED_FLUSH_SECONDS), "flush; 0: agents choose"),
                threshold=thresholds.lag_seconds,
            ),
        ],
    )


def _intake() -> Section:
    intake = Metadata("Records and segments", "Read by agents; stored, by verdict.", "eps", 12)
    clients = Metadata("Connections", "Open, closed early, and requests refused.", "none", 12)
    age = Metadata(
        "Since retention", "Since it last went through the whole store.", "s", 12,
        "it has not been through the store since the collector began",
    )  # fmt: skip
    profiles = Metadata("Profiles", "Requested within a day, by outcome; their time.", "none", 12)
    reason = names.COLLECTOR_REFUSED_REQUESTS.labels[0]
    refused = fleet.rise_of_all(names.COLLECTOR_REFUSED_REQUESTS, reason)
    return Section(
        "Intake and store",
        [
            lines(
                intake,
                Line(fleet.rate_of_all(names.AGENT_RECORDS), "records"),
                Line(
                    fleet.rate_of_all(names.COLLECTOR_SEGMENTS, VERDICT),
                    f"segments {legend(VERDICT)}",
                ),
            ),
            lines(
                clients,
                Line(fleet.of_all(names.COLLECTOR_CONNECTIONS), "open"),
                Line(fleet.rise_of_all(names.COLLECTOR_CONNECTIONS_CLOSED), "closed"),
                Line(fleet.of_all(names.COLLECTOR_EVENT_STREAMS), "event streams"),
                Line(
                    fleet.rise_of_all(names.COLLECTOR_EVENT_STREAMS_REFUSED),
                    "event streams refused",
                ),
                Line(refused, f"refused: {legend(reason)}"),
            ),
            number(age, Line(f"time() - {fleet.of_all(names.COLLECTOR_RETENTION_TIME)}")),
            lines(
                profiles,
                Line(fleet.of_all(names.COLLECTOR_PROFILES, OUTCOME), legend(OUTCOME)),
                Line(fleet.of_all(names.COLLECTOR_PROFILED_SECONDS), "seconds profiled"),
            ),
        ],
    )


_UNUSED = "no incident to report, or no receiver"


def _notices() -> Section:
    lost = Metadata("Notices given up", "Within a day, by cause.", "none", 12, NONE_KNOWN)
    oldest = Metadata("Oldest notice that waits", "By receiver; 0: none.", "s", 12, _UNUSED)
    outbox = Metadata("Outbox", "Notices by state, and recent tries.", "none", 24, _UNUSED)
    given_up = Line(fleet.of_all(names.COLLECTOR_NOTICES_GIVEN_UP, CAUSE), legend(CAUSE))
    notices = Line(fleet.of_all(names.COLLECTOR_NOTICES, VERDICT), legend(VERDICT))
    waits = Line(fleet.of_all(names.COLLECTOR_NOTICES_OLDEST, RECEIVER), legend(RECEIVER))
    sent = fleet.rise_of_all(names.COLLECTOR_NOTICES_SENT, RECEIVER, OUTCOME)
    tries = Line(sent, f"tries {legend(RECEIVER, OUTCOME)}")
    return Section(
        "Notices",
        [
            number(lost, given_up, ANY).height(8),
            lines(oldest, waits),
            lines(outbox, notices, tries),
        ],
    )


def _agents() -> Section:
    turned_away = Metadata(
        "Agents turned away", "Their collector takes nothing, by reason.", "none", 8,
        "the collector takes what agents send",
    )  # fmt: skip
    waiting = Metadata("Fullest spools", "Bytes that wait for the collector.", "bytes")
    exports = Metadata("OTLP", "Spans and values, by outcome.", "eps", 8, "no OTLP receiver")
    why = fleet.of_all(names.AGENT_COLLECTOR_PROBLEM, _WHY, how="sum")
    spools = fleet.worst(fleet.of_all(names.AGENT_SPOOL_BYTES, NODE))
    outcome = legend(OUTCOME)
    job_values = fleet.rate_of_all(names.COLLECTOR_OTLP_POINTS, OUTCOME)
    return Section(
        "Agents",
        [
            lines(turned_away, Line(why, legend(_WHY))),
            lines(waiting, Line(spools, legend(NODE))),
            lines(
                exports,
                Line(fleet.rate_of_all(names.AGENT_SPANS, OUTCOME), f"spans {outcome}"),
                Line(fleet.rate_of_all(names.AGENT_OTLP_POINTS, OUTCOME), f"values {outcome}"),
                Line(job_values, f"job values {outcome}"),
            ),
        ],
    )


_ERROR = names.AGENT_OS_ERRORS.labels[-1]
_PROBE = names.PROBE_CRASHES.labels[1]
_THREAD = names.AGENT_THREAD_FAILURES.labels[-1]
_WHY = names.AGENT_COLLECTOR_PROBLEM.labels[-1]
