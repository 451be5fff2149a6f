"""Notices between two flushes that a rank starts, ends, or falls behind its usual step time.

Agents flush seldom while the collector asks for that. An alarm brings the next flush forward, so
that a verdict does not wait for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from stepwatch.agent.rings.process_exits import ProcessExits
from stepwatch.agent.rings.tail import RingTail
from stepwatch.signals.clock import NANOSECONDS

LATE_MULTIPLE = 1.5
"""A step that takes this many times its usual time is late; faults below it can wait."""
LEAST_SECONDS = 1.0
"""Steps are counted over at least this long: single short steps vary."""
_MARKS_KEPT = 64
"""Number of polls compared: sixteen seconds."""


class StepMarks:
    """The steps that one rank had begun at recent polls."""

    def __init__(self) -> None:
        self._marks: deque[tuple[int, int]] = deque(maxlen=_MARKS_KEPT)
        """Times (monotonic nanoseconds) and step numbers."""

    def is_late(self, now_ns: int, step: int, usual_seconds: float) -> bool:
        """Return whether the rank began far fewer steps than usual since an earlier poll.

        With a usual step of 1 s, 1.5 s without a new one are late. With 0.1 s, a second with five
        new ones is: the sixth should have begun after 0.9 s at the latest.
        """
        multiple_ns = LATE_MULTIPLE * usual_seconds * NANOSECONDS
        least_ns = LEAST_SECONDS * NANOSECONDS
        is_late = any(
            first <= step and now_ns - polled_ns >= max(least_ns, multiple_ns * (step - first + 1))
            for polled_ns, first in self._marks
        )
        self._marks.append((now_ns, step))
        return is_late


class Alarm:
    """Compares followed rings with the last flush; `usual_seconds` gives a ring's step time.

    It returns 0 before the first step.
    """

    def __init__(self, usual_seconds: Callable[[int], float]) -> None:
        self._usual_seconds = usual_seconds
        self._marks: dict[int, StepMarks] = {}
        self._states: dict[int, tuple[bool, bool]] = {}

    def flushed(self, tails: Iterable[RingTail], exits: ProcessExits) -> None:
        """Note the rings that a flush reports; it is no news that they run or have ended."""
        self._states = {tail.ring_id: _state(tail, exits) for tail in tails}
        self._marks = {ring: marks for ring, marks in self._marks.items() if ring in self._states}

    def is_raised(self, tails: Iterable[RingTail], exits: ProcessExits, now_ns: int) -> bool:
        """Return whether any rank started, ended or became late since the flush."""
        return any([self._is_news(tail, exits, now_ns) for tail in tails])

    def _is_news(self, tail: RingTail, exits: ProcessExits, now_ns: int) -> bool:
        state = _state(tail, exits)
        if any(state):
            return self._states.get(tail.ring_id) != state
        usual_seconds = self._usual_seconds(tail.ring_id)
        marks = self._marks.setdefault(tail.ring_id, StepMarks())
        is_late = marks.is_late(now_ns, tail.reader.live().step, usual_seconds)
        return tail.ring_id not in self._states or (usual_seconds > 0 and is_late)


def _state(tail: RingTail, exits: ProcessExits) -> tuple[bool, bool]:
    """Return whether a ring is closed, and whether its process has ended."""
    return tail.reader.closed, exits.exit_of(tail.ring_id) is not None
