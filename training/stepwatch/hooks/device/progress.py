"""What the device does now, as the side thread sees it: for the ring's device line.

The oldest boundary that the device has not passed tells where it is. Seen often enough, it also
tells when boundaries are passed, which says where the device's clock lies on the host's.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import NamedTuple

from stepwatch.hooks.recorder.timeline import COLLECTIVE, PIPELINE_WAIT
from stepwatch.signals.blackbox import DeviceLine
from stepwatch.signals.records import DeviceState, Op, Phase

from .boundaries import Boundaries, Boundary
from .resolver import Resolver

WANTED_ERROR_NS = 1_000_000
"""Where the anchor is known less well, the side thread looks closely now and then."""
LOOKS, BETWEEN_LOOKS_SECONDS = 20, 0.001
SILENT_NS = 1_000_000_000
"""After this time without a boundary, a stream that has passed them all is asked for its work."""
_LEGACY_STREAM = 0
_GROUP_BITS = 0xFFFF


class Place(NamedTuple):
    """Where the device is: after `last`, boundary `number` of `step`, and before `next_one`."""

    step: int
    number: int
    last: Boundary
    next_one: Boundary | None
    phase: int


class Progress:
    """Follows the device of one rank. `clock` returns monotonic ns; `step` the one under way."""

    def __init__(
        self,
        boundaries: Boundaries,
        resolver: Resolver,
        clock: Callable[[], int],
        step: Callable[[], int],
    ) -> None:
        self._boundaries = boundaries
        self._resolver = resolver
        self._clock = clock
        self._step = step
        self._known = (-1, -1, DeviceState.UNKNOWN)
        self._since = 0

    def look(self) -> DeviceLine | None:
        """What the device does; None where nothing is known or another thread resolves.

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
        """Wait, on this side thread alone, until the device passes a boundary: that is its moment.

        Raises:
            RuntimeError: the device does not answer any more.
        """
        error = self._resolver.anchor.error
        if error is not None and error <= WANTED_ERROR_NS:
            return
        with self._resolver.lock:
            place = self._find()
        awaited = place.next_one if place is not None else None
        for _ in range(LOOKS if awaited is not None else 0):
            time.sleep(BETWEEN_LOOKS_SECONDS)
            with self._resolver.lock:
                if awaited is None or not self._is_pending(awaited):
                    return
                if awaited.event.query():
                    self._boundaries.seen.setdefault(awaited.event, self._clock())
                    return

    def _is_pending(self, boundary: Boundary) -> bool:
        """Whether its event was not taken back meanwhile: then it would be another boundary's."""
        steps = (closed.boundaries for closed in tuple(self._resolver.closed))
        lists = itertools.chain(steps, [self._boundaries.open])
        return any(one is boundary for boundaries in lists for one in tuple(boundaries))

    def _find(self) -> Place | None:
        steps = [(closed.step, closed.boundaries) for closed in tuple(self._resolver.closed)]
        under_way = self._boundaries.open
        place = None
        phase = int(Phase.OTHER)
        for step, boundaries in [*steps, (self._step(), under_way)]:
            for number, boundary in enumerate(tuple(boundaries)):
                if not boundary.event.query():
                    return place and place._replace(next_one=boundary)
                phase = boundary.bucket if boundary.bucket < COLLECTIVE else phase
                place = Place(step, number, boundary, None, phase)
        return place

    def _line(self, place: Place) -> DeviceLine:
        state = self._state(place)
        known = (place.step, place.number, state)
        if known != self._known:
            self._known, self._since = known, self._clock()
        group, op = place.last.key or (0, int(Op.RECV) if _waits(place) else 0)
        return DeviceLine(
            since_ns=self._since,
            step=place.step,
            phase=place.phase,
            state=state,
            op=op,
            group=group & _GROUP_BITS,
        )

    def _state(self, place: Place) -> DeviceState:
        if place.next_one is None and self._has_no_work(place):
            return DeviceState.IDLE
        waits = place.last.bucket == COLLECTIVE or _waits(place)
        return DeviceState.IN_COLLECTIVE if waits else DeviceState.WORKING

    def _has_no_work(self, place: Place) -> bool:
        """Whether a stream that passed every boundary is idle; what came since has none yet.

        A stream that may be captured is not asked: that would end the capture.
        """
        stream = self._boundaries.stream
        recent = self._clock() - place.last.moment < SILENT_NS
        if recent or getattr(stream, "stream_id", None) != _LEGACY_STREAM:
            return True
        return bool(stream.query())


def _waits(place: Place) -> bool:
    return place.last.bucket == PIPELINE_WAIT
