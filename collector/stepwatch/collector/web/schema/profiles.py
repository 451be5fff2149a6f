"""Requested profiles of ranks, and the answer to agents that send segments."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from stepwatch.collector.store.profiles import ProfileState

from .common import OneOf


class ComparedActivity(TypedDict):
    """An activity with an excess on the slow rank, in seconds a step."""

    kind: str
    name: str
    modules: str
    """Path of the modules that contain it; empty if unknown."""
    code: str
    """The user's function that contains it; empty if unknown."""
    seconds: float | None
    """On the slow rank."""
    peer_seconds: float | None
    """On the peer."""


class Comparison(TypedDict):
    """The comparison of two ranks' profiles; times are seconds a step."""

    rank: int
    peer: int
    first_step: int
    """The first profiled step."""
    steps: int
    """Number of profiled steps."""
    step_seconds: float | None
    """The slow rank's step time."""
    pattern: str
    """How the excess is spread over activities."""
    excess_seconds: float | None
    """The slow rank's time above its peer."""
    on_device: bool
    """The excess is the device's, not the host's."""
    waits: bool
    """The slow rank spends most of its excess off the processor."""
    rows: list[ComparedActivity]
    """The largest excess first."""


class Trace(TypedDict):
    """A rank's trace."""

    rank: int
    node: str
    bytes: int
    """0 with a `reason`, or once it is deleted."""
    reason: str
    """Why there is none; else empty."""
    received_at: float
    """Unix seconds."""


class Profile(TypedDict):
    """A requested profile of a slow rank and a peer."""

    id: str
    job: str
    attempt: int
    rank: int
    node: str
    peer: int
    """The rank that it is compared with."""
    peer_node: str
    first_step: int
    """The first profiled step."""
    steps: int
    """Number of profiled steps."""
    incidents: list[str]
    """Ids of the open incidents about the rank."""
    by: str
    """The author of the request."""
    state: Annotated[str, OneOf(tuple(state.value for state in ProfileState))]
    requested_at: float
    """Unix seconds."""
    sentence: str
    """What the comparison shows, or why there is none."""
    comparison: Comparison | None
    """Null until both traces are compared."""
    traces: list[Trace]


class ProfilesAnswer(TypedDict):
    """A job's requested profiles, newest first."""

    profiles: list[Profile]


class StoredTrace(TypedDict):
    """The confirmation of a trace."""

    id: str
    rank: int


class SegmentVerdict(TypedDict):
    """The result for a segment."""

    verdict: str
    sequence: int | None
    """Null if it could not be read."""
    reason: str
    """Why the segment is refused; else empty."""


class NodeRequest(TypedDict):
    """A profile that an agent makes."""

    id: str
    job: str
    attempt: int
    ranks: list[int]
    first: int
    """The first profiled step."""
    steps: int
    seconds: float
    """Time until the request expires."""


class SegmentsAnswer(TypedDict):
    """The result for each segment, and the profiles that the agent shall make."""

    verdicts: list[SegmentVerdict]
    formats: list[int]
    """Segment formats that this collector reads."""
    profiles: list[NodeRequest]
