"""Events that are used again and again: making one costs more than recording it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .backend import Event

MOST_EVENTS = 2048
"""With what is kept beside each, at most 1 MB of host memory; some 60 steps of 30 boundaries."""
RESERVED = 64
"""The last ones are made for the ends of steps alone: without them no step is timed."""


class EventPool:
    """At most `most` events, made when first needed. One thread takes; any may put back."""

    def __init__(self, new_event: Callable[[], Event], most: int = MOST_EVENTS) -> None:
        self._new = new_event
        self._most = most
        self._free: list[Event] = []
        self.made = 0
        """Events that there are, in use or not."""

    def take(self) -> Event | None:
        """An event, or None where the pool is dry."""
        try:
            return self._free.pop()
        except IndexError:
            return self._make(self._most - RESERVED)

    def take_for_end(self) -> Event | None:
        """The same for the end of a step, for which some are kept back."""
        try:
            return self._free.pop()
        except IndexError:
            return self._make(self._most)

    def _make(self, most: int) -> Event | None:
        if self.made >= most:
            return None
        event = self._new()
        self.made += 1
        return event

    def put(self, events: Iterable[Event]) -> None:
        """Take events back that are not used any more."""
        self._free.extend(events)
