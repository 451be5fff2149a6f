"""The device's current work, as the side thread sees it, for the ring's device line.

The oldest boundary that the device has not passed shows its position. Frequent observations also
show when boundaries are passed, which locates the device's clock on the host's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from stepwatch.hooks.core import COLLECTIVE, PIPELINE_WAIT
from stepwatch.signals.blackbox import DeviceLine
from stepwatch.signals.records import DeviceState, Op, Phase

from .boundaries import Boundaries
from .marks import DeviceMarks
from .resolver import Resolver

WANTED_ERROR_NS = 1_000_000
"""If the anchor's error is larger, the side thread watches closely now and then."""
LOOKS, BETWEEN_LOOKS_SECONDS = 20, 0.001
SILENT_NS = 1_000_000_000
"""After this time without a boundary, a stream that has passed them all is queried for work."""
_LEGACY_STREAM = 0
_GROUP_BITS = 0xFFFF


class Place(NamedTuple):
    """The device's position: it has passed boundary `number` in `step` and not the next one."""

    step: int
    boundaries: Boundaries
    number: int
    phase: int
    following: tuple[Boundaries, int] | None = None
    """Index of the next boundary, which it has not passed; None if it has passed all."""

    @property
    def bucket(self) -> int:
        """The bucket that began at the boundary."""
        return self.boundaries.buckets[self.number]


class Progress:
    """Follows one rank's device. `clock` returns monotonic ns; `step` the current step."""

    def __init__(
        self,
        marks: DeviceMarks,
        resolver: Resolver,
        clock: Callable[[], int],
        step: Callable[[], int],
    ) -> None:
        self._marks = marks
        self._resolver = resolver
        self._clock = clock
        self._step = step
        self._last_position = (-1, -1, DeviceState.UNKNOWN)
        self._since = 0

    def look(self) -> DeviceLine | None:
        """Return the device's work; None if it is unknown or another thread resolves.

        Raises:
            RuntimeError: the device does not answer any more.
        """
        with_lock = self._resolver.lock.acquire(blocking=False)
        if not with_lock:
            return None
        try:
            place = self._find()
            return None if place is None else self._line(place)
        finally:
            self._resolver.lock.release()

    def narrow_error(self) -> None:
        """Wait, only on this side thread, until the device passes a boundary: that is its moment.

        Raises:
            RuntimeError: the device does not answer any more.
        """
        error = self._resolver.anchor.error
        if error is not None and error <= WANTED_ERROR_NS:
            return
        with self._resolver.lock:
            place = self._find()
        if place is None or place.following is None:
            return
        boundaries, number = place.following
        awaited = boundaries.events[number]
        for _ in range(LOOKS):
            time.sleep(BETWEEN_LOOKS_SECONDS)
            with self._resolver.lock:
                if not self._is_held(boundaries):
                    return
                if awaited.query():
                    self._marks.passed_ns.setdefault(awaited, self._clock())
                    return

    def _steps(self) -> list[tuple[int, Boundaries]]:
        """Return closed steps and the current one, read from the last to the first.

        A step that is closed meanwhile is found twice and never missed.
        """
        under_way = (self._step(), self._marks.open)
        closing = self._marks.closing
        closed = tuple(self._resolver.closed)
        if closing is not None and all(closed_step is not closing for closed_step in closed):
            closed = (*closed, closing)
        return [*((closed_step.step, closed_step.boundaries) for closed_step in closed), under_way]

    def _is_held(self, boundaries: Boundaries) -> bool:
        """Return whether these events are still held; reused events mark other boundaries."""
        return any(candidate is boundaries for _, candidate in self._steps())

    def _find(self) -> Place | None:
        place, phase = None, int(Phase.OTHER)
        for step, boundaries in self._steps():
            for number in range(len(boundaries.events)):
                if not boundaries.events[number].query():
                    return place and place._replace(following=(boundaries, number))
                bucket = boundaries.buckets[number]
                phase = bucket if bucket < COLLECTIVE else phase
                place = Place(step, boundaries, number, phase)
        return place

    def _line(self, place: Place) -> DeviceLine:
        state = self._state(place)
        current = (place.step, place.number, state)
        if current != self._last_position:
            self._last_position, self._since = current, self._clock()
        waits = int(Op.RECV) if place.bucket == PIPELINE_WAIT else 0
        group, op = place.boundaries.keys[place.number] or (0, waits)
        return DeviceLine(
            since_ns=self._since,
            step=place.step,
            phase=place.phase,
            state=state,
            op=op,
            group=group & _GROUP_BITS,
        )

    def _state(self, place: Place) -> DeviceState:
        if place.following is None and self._has_no_work(place):
            return DeviceState.IDLE
        waits = place.bucket in (COLLECTIVE, PIPELINE_WAIT)
        return DeviceState.IN_COLLECTIVE if waits else DeviceState.WORKING

    def _has_no_work(self, place: Place) -> bool:
        """Return whether a stream that passed every boundary is idle; new work counts as none yet.

        A stream that may be captured is not queried: that would end the capture.
        """
        stream = self._marks.stream
        recent = self._clock() - place.boundaries.moments[place.number] < SILENT_NS
        if recent or getattr(stream, "stream_id", None) != _LEGACY_STREAM:
            return True
        return bool(stream.query())
