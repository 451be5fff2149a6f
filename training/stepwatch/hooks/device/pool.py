"""Events that are used again and again: making one costs more than recording it."""

from __future__ import annotations

from collections.abc import Callable

from .backend import Event

MOST_EVENTS = 2048
"""With what is kept beside each, at most 1 MB of host memory; some 60 steps of 30 boundaries."""
RESERVED = 64
"""The last ones are made for the ends of steps alone: without them no step is timed."""


class EventPool:
    """At most `most` events, made when first needed."""

    def __init__(self, new_event: Callable[[], Event], most: int = MOST_EVENTS) -> None:
        self._new = new_event
        self._most = most
        self.free: list[Event] = []
        """Events to use next, which one thread takes; any may put back."""
        self.made = 0
        """Events that there are, in use or not."""

    def make(self, *, for_end: bool = False) -> Event | None:
        """Another event where none is free; None where the pool is dry."""
        if self.made >= (self._most if for_end else self._most - RESERVED):
            return None
        event = self._new()
        self.made += 1
        return event

    def reserve(self) -> None:
        """See to it that one is free for the end of a step, unless there are too many already."""
        event = None if self.free else self.make(for_end=True)
        if event is not None:
            self.free.append(event)
