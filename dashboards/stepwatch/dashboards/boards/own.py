"""Dashboard "stepwatch itself": are the other dashboards reliable?"""

from __future__ import annotations

from stepwatch.dashboards import fleet, frame
from stepwatch.dashboards.layout import Section, place
from stepwatch.dashboards.panels import NONE_KNOWN, Line, Metadata, Panel, Steps, lines, number
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import ANY, legend, runbook
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.signals import names
from stepwatch.signals.names import CAUSE, KIND, NODE, OUTCOME, RECEIVER, VERDICT, Metric

UID = "stepwatch-itself"
FILE = "stepwatch.json"
TITLE = "stepwatch itself"

_NEUTRAL: Steps = ((None, "text"),)


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    description = "Collectors and agents: is telemetry taken in, evaluated, kept and sent on."
    page = frame.page(TITLE, UID, description, thresholds)
    page = page.link(runbook(thresholds, names.ALERT_TELEMETRY_LOST))
    return place(
        page, [_wrong(), _evaluation(thresholds), _intake(), _notices(), _store(), _agents()]
    )


def _stat(metric: Metric, title: str, text: str, steps: Steps = _NEUTRAL, *labels: str) -> Panel:
    line = Line(fleet.of_all(metric, *labels), legend(*labels))
    return number(Metadata(title, text, "none", 4), line, steps)


def _rates(metric: Metric, title: str, text: str, unit: str, *labels: str) -> Panel:
    line = Line(fleet.rate_of_all(metric, *labels), legend(*labels) or title)
    return lines(Metadata(title, text, unit), line)


def _rises(metric: Metric, title: str, text: str, *labels: str) -> Panel:
    line = Line(fleet.rise_of_all(metric, *labels), legend(*labels) or title)
    return lines(Metadata(title, text, "none"), line)


def _wrong() -> Section:
    damaged = "Stored segments that cannot be read back, of late."
    return Section(
        "Is anything left out or lost",
        [
            _stat(names.COLLECTOR_JOBS_CAPPED, "Jobs left out", "Beyond the series cap.", ANY),
            _stat(names.COLLECTOR_JOBS_QUARANTINED, "Jobs quarantined", "Not evaluated.", ANY),
            _stat(names.COLLECTOR_JOBS_RESTORING, "Jobs restoring", "Not evaluated yet."),
            _stat(names.COLLECTOR_OBJECTIVES_UNREADABLE, "SLO documents", "1: wrong.", ANY),
            _recent(names.COLLECTOR_EVALUATION_FAILURES, "Failed evaluations", "Of late."),
            _recent(names.COLLECTOR_UNREADABLE, "Segments damaged", damaged),
            _recent(names.AGENT_SPOOL_DROPPED, "Segments dropped", "From full spools, of late."),
            _recent(names.AGENT_REFUSED, "Segments refused", "By the collector, of late."),
            _recent(names.AGENT_OVERRUNS, "Records overwritten", "Before they were read, of late."),
            _stat(
                names.AGENT_RINGS_UNREAD,
                "Rings not read",
                "Too many, malformed, elsewhere.",
                ANY,
            ),
            _recent(names.AGENT_THREAD_FAILURES, "Threads restarted", "Of agents, of late."),
            _recent(names.COLLECTOR_OBJECT_FAILURES, "Object store failures", "Of late."),
            _recent(
                names.COLLECTOR_UNREADABLE_INCIDENTS, "Incidents unreadable", "Left out, of late."
            ),
        ],
    )


def _recent(metric: Metric, title: str, text: str) -> Panel:
    return number(Metadata(title, text, "none", 4), Line(fleet.rise_of_all(metric)), ANY)


def _evaluation(thresholds: Thresholds) -> Section:
    seconds = Metadata("Slowest evaluation", "Time the newest one took, of any collector.", "s", 12)
    flush_interval = Metadata(
        "Flush asked for", "Time between flushes; 0: agents choose it.", "s", 12
    )
    jobs = Metadata("Jobs evaluated", "By all collectors together.", "none", 12)
    collectors = Metadata("Collectors", "That share the store.", "none", 12)
    return Section(
        "Evaluation",
        [
            number(jobs, Line(fleet.of_all(names.COLLECTOR_JOBS, how="sum"))),
            number(collectors, Line(fleet.of_all(names.COLLECTOR_REPLICAS))),
            lines(
                seconds,
                Line(fleet.of_all(names.COLLECTOR_EVALUATION_SECONDS), "seconds"),
                threshold=thresholds.lag_seconds,
            ),
            lines(
                flush_interval, Line(fleet.of_all(names.COLLECTOR_ASKED_FLUSH_SECONDS), "seconds")
            ),
        ],
    )


def _intake() -> Section:
    refused = "Another collector had taken the job over."
    unknown = Metadata(
        "Unknown records", "By kind; stored.", "none", empty="none known: all kinds are known"
    )
    records = Line(fleet.rise_of_all(names.COLLECTOR_UNKNOWN_RECORDS, KIND), legend(KIND))
    denied = Metadata(
        "Requests refused", "For want of a token that may do it.", "none", empty="no token is asked"
    )
    reason = names.COLLECTOR_REFUSED_REQUESTS.labels[0]
    tokens = Line(fleet.rise_of_all(names.COLLECTOR_REFUSED_REQUESTS, reason), legend(reason))
    room = Metadata("Connections", "Open, and of late refused or closed early.", "none")
    is_open = Line(fleet.of_all(names.COLLECTOR_CONNECTIONS), "open")
    closed = Line(fleet.rise_of_all(names.COLLECTOR_CONNECTIONS_CLOSED), "closed")
    return Section(
        "Intake",
        [
            _rates(names.COLLECTOR_SEGMENTS, "Segments", "By verdict.", "eps", VERDICT),
            _rises(names.COLLECTOR_WRITES_REFUSED, "Writes refused", refused),
            lines(unknown, records),
            lines(denied, tokens),
            lines(room, is_open, closed),
        ],
    )


_NOBODY = "nothing to notify of, or nobody to notify"


def _notices() -> Section:
    oldest = Metadata("Oldest notice that waits", "Silenced ones too; 0: none.", "s", 12, _NOBODY)
    tries = Metadata("Tries to send", "By receiver and outcome, of late.", "none", 12, _NOBODY)
    outbox = Metadata(
        "Outbox", "Transitions of incidents, by what became of them.", "none", 12, _NOBODY
    )
    lost = Metadata("Notices given up", "Within a day, by cause.", "none", 12, NONE_KNOWN)
    waits = Line(fleet.of_all(names.COLLECTOR_NOTICES_OLDEST, RECEIVER), legend(RECEIVER))
    sent = fleet.rise_of_all(names.COLLECTOR_NOTICES_SENT, RECEIVER, OUTCOME)
    notices = Line(fleet.of_all(names.COLLECTOR_NOTICES, VERDICT), legend(VERDICT))
    given_up = Line(fleet.of_all(names.COLLECTOR_NOTICES_GIVEN_UP, CAUSE), legend(CAUSE))
    return Section(
        "Notices",
        [
            number(lost, given_up, ANY),
            number(outbox, notices),
            lines(oldest, waits),
            lines(tries, Line(sent, legend(RECEIVER, OUTCOME))),
        ],
    )


def _store() -> Section:
    age = Metadata(
        "Since retention", "Since it last went through the whole store.", "s",
        empty="it has not been through the store since the collector began",
    )  # fmt: skip
    swept = f"time() - {fleet.of_all(names.COLLECTOR_RETENTION_TIME)}"
    later = Metadata("Segments of later formats", "Kept for a collector that reads them.", "none")
    undecoded = Line(fleet.of_all(names.COLLECTOR_UNDECODED), "segments")
    orphans = "Objects that no bundle refers to, of late."
    return Section(
        "Store",
        [
            number(age, Line(swept)).height(8),
            _rates(names.COLLECTOR_REMOVED_BYTES, "Removed", "By retention.", "Bps", KIND),
            _rates(names.COLLECTOR_REMOVED_ROWS, "Rows removed", "By retention.", "rowsps", KIND),
            lines(later, undecoded),
            _rises(names.COLLECTOR_SNAPSHOTS, "Snapshots", "By verdict, of late.", VERDICT),
            _rises(names.COLLECTOR_OBJECT_ORPHANS, "Orphans removed", orphans),
            *_compaction(),
        ],
    )


def _compaction() -> list[Panel]:
    pieces = Metadata("Compaction", "Segments put into bundles, of late.", "none", 12)
    size = Metadata("Bytes of compaction", "Of segments, and of the bundles made.", "Bps", 12)
    segments = Line(fleet.rise_of_all(names.COLLECTOR_COMPACTED_SEGMENTS), "segments")
    segment_bytes = Line(fleet.rate_of_all(names.COLLECTOR_COMPACTED_BYTES), "segments")
    return [
        lines(pieces, segments, Line(fleet.rise_of_all(names.COLLECTOR_BUNDLES), "bundles")),
        lines(
            size, segment_bytes, Line(fleet.rate_of_all(names.COLLECTOR_BUNDLE_BYTES), "bundles")
        ),
    ]


def _agents() -> Section:
    waiting = Metadata("Fullest spools", "Bytes that wait for the collector.", "bytes")
    count = Metadata("Segments that wait", "Of all agents.", "none")
    held_bytes = Metadata(
        "Bytes held", "Of segments that wait for a collector that reads their format.", "bytes"
    )
    hooks = Metadata("Errors in hooks", "Contained; since the ranks began.", "none", 12,
                     "no rank has run on these nodes")  # fmt: skip
    spans = Metadata("Spans", "By what became of them.", "eps", 12, "no receiver of traces")
    points = Metadata("OTLP values", "By what became of them.", "eps", 12, "no receiver of metrics")
    turned_away = Metadata(
        "Agents turned away", "Of which the collector takes nothing, by reason.", "none", 12,
        "the collector takes what agents send",
    )  # fmt: skip
    system = Metadata(
        "System errors survived", "Of agents, by name.", "none", empty="the system refused nothing"
    )
    crashes = Metadata(
        "Probes that crashed", "By probe, of late.", "none", empty="no probe was ended by a signal"
    )
    ended = Metadata(
        "Rings of ended ranks", "Most of a node; they wait for the collector or a right.", "none"
    )
    ended_rings = fleet.of_all(names.AGENT_ENDED_RINGS, NODE)
    crashed = fleet.rise_of_all(names.PROBE_CRASHES, _PROBE)
    why = fleet.of_all(names.AGENT_COLLECTOR_PROBLEM, _WHY, how="sum")
    spools = fleet.worst(fleet.of_all(names.AGENT_SPOOL_BYTES, NODE))
    held_segments = fleet.of_all(names.AGENT_HELD_SEGMENTS, how="sum")
    unread = fleet.of_all(names.AGENT_UNREADABLE_SEGMENTS, how="sum")
    errors = fleet.of_all(names.NODE_HOOK_ERRORS, how="sum")
    return Section(
        "Agents",
        [
            _rates(names.AGENT_RECORDS, "Records read", "By all agents.", "recps"),
            _rates(names.AGENT_SEND_FAILURES, "Failed sends", "Of all agents.", "eps"),
            lines(waiting, Line(spools, legend(NODE))),
            lines(
                count,
                Line(fleet.of_all(names.AGENT_SPOOL_SEGMENTS, how="sum"), "in spools"),
                Line(held_segments, "held"),
                Line(unread, "of them unreadable"),
            ),
            lines(
                held_bytes,
                Line(fleet.worst(fleet.of_all(names.AGENT_HELD_BYTES, NODE)), legend(NODE)),
            ),
            _rises(names.AGENT_THREAD_FAILURES, "Threads restarted", "By thread.", _THREAD),
            lines(spans, Line(fleet.rate_of_all(names.AGENT_SPANS, OUTCOME), legend(OUTCOME))),
            lines(
                points, Line(fleet.rate_of_all(names.AGENT_OTLP_POINTS, OUTCOME), legend(OUTCOME))
            ),
            lines(turned_away, Line(why, legend(_WHY))),
            lines(hooks, Line(errors, "errors")),
            lines(system, Line(fleet.rise_of_all(names.AGENT_OS_ERRORS, _ERROR), legend(_ERROR))),
            lines(crashes, Line(crashed, legend(_PROBE))),
            lines(ended, Line(fleet.worst(ended_rings), legend(NODE))),
        ],
    )


_ERROR = names.AGENT_OS_ERRORS.labels[-1]
_PROBE = names.PROBE_CRASHES.labels[1]
_THREAD = names.AGENT_THREAD_FAILURES.labels[-1]
_WHY = names.AGENT_COLLECTOR_PROBLEM.labels[-1]
