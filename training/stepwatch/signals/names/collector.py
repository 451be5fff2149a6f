"""Metrics that the collector exports about itself."""

from __future__ import annotations

from .labels import CAUSE, HEALTH, KIND, OUTCOME, RECEIVER, VERDICT
from .metric import Metric, MetricKind

_G, _C = MetricKind.GAUGE, MetricKind.COUNTER

COLLECTOR_SEGMENTS = Metric(
    "stepwatch_collector_segments_total", _C, "Segments received, by verdict.", (VERDICT,)
)
COLLECTOR_REFUSED_REQUESTS = Metric(
    "stepwatch_collector_refused_requests_total",
    _C,
    "Requests refused for their token, host or page, their rate, or for an overload.",
    ("reason",),
)
COLLECTOR_CONNECTIONS = Metric(
    "stepwatch_collector_connections", _G, "Connections of clients that are open."
)
COLLECTOR_CONNECTIONS_CLOSED = Metric(
    "stepwatch_collector_connections_closed_total",
    _C,
    "Connections that were refused, or closed at the limit of number or of time.",
)
COLLECTOR_EVENT_STREAMS = Metric(
    "stepwatch_collector_event_streams", _G, "Event streams that are open, one for each page tab."
)
COLLECTOR_EVENT_STREAMS_REFUSED = Metric(
    "stepwatch_collector_event_streams_refused_total",
    _C,
    "Event streams that were refused, as too many were open.",
)
COLLECTOR_JOBS = Metric("stepwatch_collector_jobs", _G, "Jobs that this collector evaluates.")
COLLECTOR_REPLICAS = Metric(
    "stepwatch_collector_replicas",
    _G,
    "Collectors that share the store, this one included; each exports the jobs it evaluates.",
)
COLLECTOR_NODES = Metric(
    "stepwatch_collector_nodes",
    _G,
    "Nodes in the store by health; every collector of the store exports the same numbers.",
    (HEALTH,),
)
COLLECTOR_NODES_OFFENDING = Metric(
    "stepwatch_collector_nodes_repeat_offenders",
    _G,
    "Nodes that were at fault again and again within a month, the same from every collector.",
)
COLLECTOR_NODES_TOGETHER = Metric(
    "stepwatch_collector_nodes_together",
    _G,
    "Faults that many nodes have at once: look for their common part before draining any.",
)
COLLECTOR_WRITES_REFUSED = Metric(
    "stepwatch_collector_writes_refused_total",
    _C,
    "Writes that were refused, as another collector had taken the job over; nothing was written.",
)
COLLECTOR_JOBS_CAPPED = Metric(
    "stepwatch_collector_jobs_capped", _G, "Jobs left out of the metrics by the series cap."
)
COLLECTOR_JOBS_QUARANTINED = Metric(
    "stepwatch_collector_jobs_quarantined",
    _G,
    "Jobs that are stored but not evaluated, as their records or their evaluation raised an error.",
)
COLLECTOR_JOBS_RESTORING = Metric(
    "stepwatch_collector_jobs_restoring",
    _G,
    "Jobs that are not evaluated yet, as their history is being read from the store.",
)
COLLECTOR_OBJECTIVES_UNREADABLE = Metric(
    "stepwatch_collector_objectives_unreadable",
    _G,
    "1 while the newest SLO documents or site file are wrong: those read before are in force.",
)
COLLECTOR_UNDECODED = Metric(
    "stepwatch_collector_segments_undecoded",
    _G,
    "Segments of later formats that are kept until a collector that reads them opens the store.",
)
COLLECTOR_UNREADABLE = Metric(
    "stepwatch_collector_segments_unreadable_total",
    _C,
    "Stored segments that could not be decoded when their job was read back; they are kept.",
)
COLLECTOR_UNREADABLE_INCIDENTS = Metric(
    "stepwatch_collector_incidents_unreadable_total",
    _C,
    "Stored incidents, each once, whose document could not be read; they are left out.",
)
COLLECTOR_SNAPSHOTS = Metric(
    "stepwatch_collector_snapshots_total",
    _C,
    "Snapshots of jobs' states: saved, failed to be saved, or unreadable when they were loaded; "
    "of a job without one the whole log is read.",
    (VERDICT,),
)
COLLECTOR_RETENTION_TIME = Metric(
    "stepwatch_collector_retention_timestamp_seconds",
    _G,
    "When retention last went through the store to its end, in Unix seconds.",
)
COLLECTOR_NOTICES = Metric(
    "stepwatch_collector_notices",
    _G,
    "Transitions of incidents in the outbox, the same in every collector: pending, delivered "
    "within a day, or failed, as their receiver refused them or did not answer for a day.",
    (VERDICT,),
)
COLLECTOR_NOTICES_GIVEN_UP = Metric(
    "stepwatch_collector_notices_given_up",
    _G,
    "Notices given up within a day, the same in every collector: refused, unanswered for a day, "
    "unsent as no collector tried for a day, over when they could be sent an hour late or more, "
    "over before a silence was (silenced), or acknowledged.",
    (CAUSE,),
)
COLLECTOR_NOTICES_SENT = Metric(
    "stepwatch_collector_notices_sent_total",
    _C,
    "Tries of this collector to send a notice, by receiver: delivered, or failed.",
    (RECEIVER, OUTCOME),
)
COLLECTOR_OTLP_POINTS = Metric(
    "stepwatch_collector_otlp_points_total",
    _C,
    "Values sent over OTLP by outcome: exported, dropped here, rejected by their receiver.",
    (OUTCOME,),
)
COLLECTOR_NOTICES_OLDEST = Metric(
    "stepwatch_collector_notices_oldest_seconds",
    _G,
    "How long ago the oldest notice happened that waits to be sent, beside silenced ones; 0: none.",
    (RECEIVER,),
)
COLLECTOR_SILENCE_OLDEST = Metric(
    "stepwatch_collector_silence_oldest_seconds",
    _G,
    "How long ago the oldest silence began that keeps pages back now; 0: none does.",
)
COLLECTOR_OBJECT_FAILURES = Metric(
    "stepwatch_collector_object_failures_total",
    _C,
    "Times that the place of payloads did not answer; segments stay in the database until it does.",
)
COLLECTOR_PROFILES = Metric(
    "stepwatch_collector_profiles",
    _G,
    "Profiles requested within a day, the same in every collector: asked, compared, no-trace (a "
    "rank or its agent gave a reason), not-compared (the traces were unreadable), or expired.",
    (OUTCOME,),
)
COLLECTOR_PROFILED_SECONDS = Metric(
    "stepwatch_collector_profiled_seconds",
    _G,
    "Job seconds in compared profiles of a day, the same in every collector.",
)
COLLECTOR_UNKNOWN_RECORDS = Metric(
    "stepwatch_collector_unknown_records_total",
    _C,
    "Records of kinds that this version does not know, by the kind's number; they are stored.",
    (KIND,),
)
COLLECTOR_EVALUATION_SECONDS = Metric(
    "stepwatch_collector_evaluation_seconds",
    _G,
    "Time in which every job was evaluated: one round, or several where jobs take turns.",
)
COLLECTOR_INGEST_SECONDS = Metric(
    "stepwatch_collector_ingest_seconds",
    _G,
    "Time that the newest request of an agent took, until its segments were stored or refused.",
)
COLLECTOR_ASKED_FLUSH_SECONDS = Metric(
    "stepwatch_collector_asked_flush_seconds",
    _G,
    "Time between flushes that agents are asked for, as evaluations take too long; 0: nothing.",
)
COLLECTOR_EVALUATION_FAILURES = Metric(
    "stepwatch_collector_evaluation_failures_total", _C, "Evaluations that ended in an error."
)
