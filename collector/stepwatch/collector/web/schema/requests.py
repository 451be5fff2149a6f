"""Parameters and bodies of requests."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from stepwatch.collector.store.response.silences import LONGEST_SECONDS
from stepwatch.collector.web.fleet.search import MOST_CHARACTERS
from stepwatch.collector.web.history.asked import LEAST_POINTS, MOST_METRICS, MOST_POINTS
from stepwatch.collector.web.history.matrix import BY, MOST_COLUMNS, MOST_ROWS
from stepwatch.collector.web.job_view import HEATMAP_METRICS, LISTED_RANKS
from stepwatch.collector.web.live.topics import MOST_TOPICS
from stepwatch.collector.web.nodes_view import MOST_NODES
from stepwatch.signals.names import FindingKind
from stepwatch.signals.profiles import MOST_STEPS

from .common import OneOf
from .incident import NoteEvent
from .nodes import HealthWord

By = Annotated[str, Field(max_length=80)]
"""The author of a change."""


class JobQuery(TypedDict):
    """Parameters of a job."""

    ranks: NotRequired[Annotated[str, OneOf(LISTED_RANKS)]]
    """Which ranks are listed; the first ones without it."""


class HeatmapQuery(TypedDict):
    """Parameters of a heatmap."""

    metric: NotRequired[Annotated[str, OneOf(tuple(HEATMAP_METRICS))]]
    """The time to show; `self_time` without it."""


class MetricsQuery(TypedDict):
    """Parameters of a job's metrics."""

    name: NotRequired[list[str]]
    """Names of metrics; all of them without it."""


class IncidentsQuery(TypedDict):
    """Parameters of the list of incidents."""

    job: NotRequired[str]
    state: NotRequired[str]
    """`open` selects the open ones."""
    node: NotRequired[str]
    """Those among the newest that name a node."""


_Start = TypedDict(
    "_Start", {"from": NotRequired[Annotated[float, Field(description="Unix seconds.")]]}
)


class SilencesQuery(_Start):
    """Parameters of the list of silences: both moments, or none for those in force."""

    until: NotRequired[float]
    """Unix seconds."""


class NodesQuery(TypedDict):
    """Parameters of the list of nodes."""

    health: NotRequired[HealthWord]
    unhealthy: NotRequired[str]
    """`1` selects all but healthy nodes."""
    limit: NotRequired[Annotated[int, Field(ge=1, le=MOST_NODES)]]
    """The most nodes in the answer."""
    after: NotRequired[str]
    """The name after which the list begins: `next` of the answer before."""
    worst_first: NotRequired[str]
    """`1` orders nodes by health."""


_Day = TypedDict("_Day", {"from": Annotated[int, Field(description="Unix seconds.")]})


class ReportQuery(_Day):
    """Parameters of a report."""

    until: int
    """Unix seconds."""
    job: NotRequired[str]
    """One job."""


_Class = TypedDict(
    "_Class", {"class": NotRequired[Annotated[str, Field(description="One job class.")]]}
)


class ReportOfQuery(ReportQuery, _Class):
    """Parameters of a report."""


class RunbookQuery(TypedDict):
    """Parameters of a runbook: the incident that fills it in."""

    incident: NotRequired[str]
    """The incident's id."""
    job: NotRequired[str]
    """Its newest incident."""


class TraceQuery(TypedDict):
    """Parameters of a trace that an agent sends."""

    reason: NotRequired[str]
    """Why there is no trace."""


class NoteBody(TypedDict):
    """A note on an incident."""

    event: NoteEvent
    by: By
    text: NotRequired[Annotated[str, Field(max_length=1000)]]
    """The comment, or the new owner."""


class SilenceBody(TypedDict):
    """A silence; at least one of job, node and kind is named."""

    job: NotRequired[str]
    node: NotRequired[str]
    kind: NotRequired[Annotated[str, OneOf(("", *(kind.value for kind in FindingKind)))]]
    why: Annotated[str, Field(max_length=300)]
    """The reason, in words."""
    by: By
    seconds: Annotated[float, Field(ge=1, le=LONGEST_SECONDS)]
    """Length of the silence."""
    alertmanager: NotRequired[Annotated[str, Field(max_length=80)]]
    """Alertmanager's id of the same silence."""


class ExpireBody(TypedDict):
    """The end of a silence."""

    by: By


class ProfileBody(TypedDict):
    """A profile to request."""

    rank: int
    """The slow rank."""
    peer: NotRequired[int | None]
    """The rank to compare with; without it the nearest one of the same stage."""
    steps: NotRequired[Annotated[int, Field(ge=1, le=MOST_STEPS)]]
    """Number of steps to profile."""
    by: NotRequired[By]


_From = TypedDict(
    "_From", {"from": NotRequired[Annotated[float, Field(description="Unix seconds.")]]}
)


class RangeQuery(_From):
    """Parameters of a job's history: a range of time, all of it without one."""

    to: NotRequired[float]
    """Unix seconds."""
    points: NotRequired[Annotated[int, Field(ge=LEAST_POINTS, le=MOST_POINTS)]]
    """The most points per curve."""


class SeriesQuery(RangeQuery):
    """Parameters of a job's curves."""

    metric: NotRequired[Annotated[list[str], Field(max_length=MOST_METRICS)]]
    """Names of metrics; without it the standard ones."""
    attempt: NotRequired[Annotated[int, Field(ge=0)]]
    """The only attempt, with the steps that a later one repeats; without it all attempts."""


class MatrixQuery(HeatmapQuery, _From):
    """Parameters of a job's matrix; ranges include both ends."""

    to: NotRequired[float]
    """Unix seconds."""
    from_step: NotRequired[int]
    """The first step."""
    to_step: NotRequired[int]
    """The last step."""
    first: NotRequired[int]
    """The first rank."""
    last: NotRequired[int]
    """The last rank."""
    by: NotRequired[Annotated[str, OneOf(BY)]]
    """What a row is."""
    rows: NotRequired[Annotated[int, Field(ge=1, le=MOST_ROWS)]]
    """The most rows."""
    columns: NotRequired[Annotated[int, Field(ge=1, le=MOST_COLUMNS)]]
    """The most columns."""


class SearchQuery(TypedDict):
    """Parameters of a search."""

    q: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    """A name, or a part of one; a part of an incident's summary."""


class SweepQuery(TypedDict):
    """Parameters of a sweep."""

    match: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    """The beginning of the trials' names."""
    metric: NotRequired[Annotated[str, Field(max_length=300)]]
    """The metric to compare by; `loss` without it."""
    evaluation: NotRequired[Annotated[str, Field(max_length=300)]]
    """The evaluation that the metric belongs to; training without it."""


class EventsQuery(TypedDict):
    """Parameters of an event stream."""

    topic: Annotated[list[str], Field(min_length=1, max_length=MOST_TOPICS)]
    """`fleet`, or `job:NAME`."""
    cursor: NotRequired[str]
    """The id of the newest event that the reader has."""
