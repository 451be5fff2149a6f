"""Boundaries of a step: where its bucket changes, with an event on the compute stream at each."""

from __future__ import annotations

from typing import NamedTuple

from .backend import Event

Key = tuple[int, int]
"""Number of a group, and an operation."""


class Boundaries(NamedTuple):
    """Boundaries of one step in their order, a column for each fact; only one thread appends."""

    events: list[Event]
    """Appended last: whoever looks on from another thread finds the other facts of each event."""
    moments: list[int]
    """Host ns at which each was enqueued."""
    buckets: list[int]
    """What begins at each."""
    keys: list[Key | None]
    """The collective that begins at each."""

    def after_end(self) -> Boundaries:
        """Those of the next step: it begins with the last boundary of this one."""
        events, moments, buckets, keys = self
        return Boundaries(events[-1:], moments[-1:], buckets[-1:], keys[-1:])


class ClosedStep(NamedTuple):
    """A step that the host has left; its last boundary is the first one of the next step."""

    step: int
    boundaries: Boundaries
    flags: int
    counts: dict[Key, int]
    """Collectives of the step, timed or not."""
    complete: bool
    """Whether its first and its last boundary are those of the step."""
    ended: bool
    """Whether its last boundary is its end."""
