"""The boundaries in a step: each change of its bucket, with an event on the compute stream."""

from __future__ import annotations

from typing import NamedTuple

from .backend import Event

Key = tuple[int, int]
"""A group's number, and an operation."""


class Boundaries(NamedTuple):
    """One step's boundaries in order, a column for each fact; only one thread appends."""

    events: list[Event]
    """Appended last: a reader on another thread finds each event's other facts."""
    moments: list[int]
    """Host ns at which each was enqueued."""
    buckets: list[int]
    """The bucket that begins at each."""
    keys: list[Key | None]
    """The collective that begins at each."""

    def after_end(self) -> Boundaries:
        """Return the next step's boundaries: they begin with this step's last boundary."""
        events, moments, buckets, keys = self
        return Boundaries(events[-1:], moments[-1:], buckets[-1:], keys[-1:])


class ClosedStep(NamedTuple):
    """A step that the host has left; its last boundary is the first one in the next step."""

    step: int
    boundaries: Boundaries
    flags: int
    counts: dict[Key, int]
    """The step's collectives, timed or not."""
    complete: bool
    """Whether its first and last boundaries are the step's."""
    ended: bool
    """Whether its last boundary is its end."""
