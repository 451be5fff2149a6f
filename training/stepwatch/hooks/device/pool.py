"""Reusable events: creating one costs more than recording it."""

from __future__ import annotations

from collections.abc import Callable

from .backend import Event

MOST_EVENTS = 2048
"""With the facts for each, at most 1 MB of host memory; some 60 steps with 30 boundaries."""
RESERVED = 64
"""The last events are created only for step ends: without them no step is timed."""


class EventPool:
    """At most `most` events, created when first needed."""

    def __init__(self, new_event: Callable[[], Event], most: int = MOST_EVENTS) -> None:
        self._new = new_event
        self._most = most
        self.free: list[Event] = []
        """Free events; one thread takes them, any thread may return them."""
        self.made = 0
        """Number of existing events, in use or not."""

    def make(self, *, for_end: bool = False) -> Event | None:
        """Create another event if none is free; None if the pool is exhausted."""
        if self.made >= (self._most if for_end else self._most - RESERVED):
            return None
        event = self._new()
        self.made += 1
        return event

    def reserve(self) -> None:
        """Keep one event free for a step's end, unless too many exist already."""
        event = None if self.free else self.make(for_end=True)
        if event is not None:
            self.free.append(event)
