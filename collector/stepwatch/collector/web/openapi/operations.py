"""What each route below `/v1` takes and answers, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, NamedTuple

from stepwatch.collector.web.schema import (
    history,
    incident,
    job,
    live,
    nodes,
    profiles,
    recorded,
    report,
    requests,
    runbook,
    slo,
    sweep,
)
from stepwatch.collector.web.schema.breakdown import CollectivesAnswer
from stepwatch.signals import wire


class Binary(NamedTuple):
    """A body that is no JSON, by its media type."""

    media_type: str


GZIP, SEGMENTS = Binary("application/gzip"), Binary(wire.MEDIA_TYPE)
STREAM = Binary("text/event-stream")


class Operation(NamedTuple):
    """A route's answer, parameters and body: `TypedDict` classes.

    An answer of None is any JSON object. `needs_body` is False if parameters may replace the body.
    """

    method: str
    path: str
    answer: Any
    query: Any = None
    body: Any = None
    needs_body: bool = True


_JOB = "/v1/jobs/{job}"
_TRACE = "/v1/profiles/{profile}/traces/{rank}"
OPERATIONS = (
    Operation("POST", "/v1/segments", profiles.SegmentsAnswer, body=SEGMENTS),
    Operation("GET", "/v1/jobs", job.JobsAnswer),
    Operation("GET", _JOB, job.JobAnswer, requests.JobQuery),
    Operation("GET", f"{_JOB}/heatmap", job.HeatmapAnswer, requests.HeatmapQuery),
    Operation("GET", f"{_JOB}/collectives", CollectivesAnswer),
    Operation("GET", f"{_JOB}/slis", slo.JobSlisAnswer),
    Operation("GET", f"{_JOB}/slos", slo.JobSlosAnswer),
    Operation("GET", f"{_JOB}/metrics", recorded.JobMetricsAnswer, requests.MetricsQuery),
    Operation("GET", f"{_JOB}/checkpoints", recorded.JobCheckpointsAnswer),
    Operation("GET", f"{_JOB}/run", job.JobRunAnswer),
    Operation("GET", f"{_JOB}/series", history.SeriesAnswer, requests.SeriesQuery),
    Operation("GET", f"{_JOB}/spent", history.SpentAnswer, requests.RangeQuery),
    Operation("GET", f"{_JOB}/marks", history.MarksAnswer, requests.RangeQuery),
    Operation("GET", f"{_JOB}/matrix", history.MatrixAnswer, requests.MatrixQuery),
    Operation("GET", "/v1/fleet", live.FleetAnswer),
    Operation("GET", "/v1/slos", slo.SlosAnswer),
    Operation("GET", "/v1/search", live.SearchAnswer, requests.SearchQuery),
    Operation("GET", "/v1/sweeps", sweep.SweepAnswer, requests.SweepQuery),
    Operation("GET", "/v1/events", STREAM, requests.EventsQuery),
    Operation("GET", f"{_JOB}/profiles", profiles.ProfilesAnswer),
    Operation("POST", f"{_JOB}/profiles", profiles.Profile, body=requests.ProfileBody),
    Operation("GET", _TRACE, GZIP),
    Operation("POST", _TRACE, profiles.StoredTrace, requests.TraceQuery, GZIP, False),
    Operation("GET", "/v1/incidents", incident.IncidentsAnswer, requests.IncidentsQuery),
    Operation("GET", "/v1/incidents/{id}", incident.IncidentAnswer),
    Operation("POST", "/v1/incidents/{id}/notes", incident.IncidentAnswer, body=requests.NoteBody),
    Operation("GET", "/v1/silences", incident.SilencesAnswer, requests.SilencesQuery),
    Operation("POST", "/v1/silences", incident.Silence, body=requests.SilenceBody),
    Operation("DELETE", "/v1/silences/{id}", incident.Silence, body=requests.ExpireBody),
    Operation("GET", "/v1/nodes", nodes.NodesAnswer, requests.NodesQuery),
    Operation("GET", "/v1/nodes/{node}", nodes.NodeAnswer),
    Operation("GET", "/v1/report", report.ReportAnswer, requests.ReportOfQuery),
    Operation("GET", "/v1/runbooks/{name}", runbook.RunbookAnswer, requests.RunbookQuery),
    Operation("GET", "/v1/openapi.json", None),
)
"""Every route below `/v1`."""
EVENTS = {
    "open": live.OpenEvent,
    "live": live.LiveEvent,
    "gone": live.GoneEvent,
    "resync": live.ResyncEvent,
}
"""The data of a stream's events by name; `job` has changed fields of a job's list entry."""
