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
    code: str
    seconds: float | None
    peer_seconds: float | None


class Comparison(TypedDict):
    """The comparison of two ranks' profiles; times are seconds a step."""

    rank: int
    peer: int
    first_step: int
    steps: int
    step_seconds: float | None
    pattern: str
    excess_seconds: float | None
    on_device: bool
    waits: bool
    """The slow rank spends most of its excess off the processor."""
    rows: list[ComparedActivity]


class Trace(TypedDict):
    """A rank's trace."""

    rank: int
    node: str
    bytes: int
    """0 with a `reason`, or once it is deleted."""
    reason: str
    """Why there is none; else empty."""
    received_at: float


class Profile(TypedDict):
    """A requested profile of a slow rank and a peer."""

    id: str
    job: str
    attempt: int
    rank: int
    node: str
    peer: int
    peer_node: str
    first_step: int
    steps: int
    incidents: list[str]
    by: str
    state: Annotated[str, OneOf(tuple(state.value for state in ProfileState))]
    requested_at: float
    sentence: str
    """What the comparison shows, or why there is none."""
    comparison: Comparison | None
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
    """The result for each segment, and what the agent shall do."""

    verdicts: list[SegmentVerdict]
    formats: list[int]
    """Segment formats that this collector reads."""
    profiles: list[NodeRequest]
