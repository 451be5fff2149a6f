"""Boundaries on a device's stream: an event at each, and the facts that belong to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwatch.hooks.core.buckets import COLLECTIVE
from stepwatch.signals.records import DeviceFlag, Phase

MERGED_NS = 5_000
"""Time after the host leaves a bucket in which other changes are the same boundary.

At most one kernel is launched in it.
"""
FAILURES = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError)
"""Exceptions from calls to a device that no longer answers."""
ASKED_AFTER_NS = 1_000_000
"""Time after a boundary from which the device is asked whether it has passed it."""
_OTHER = int(Phase.OTHER)
_CAPTURED, _INCOMPLETE = int(DeviceFlag.CAPTURED), int(DeviceFlag.INCOMPLETE)


def never() -> bool:
    """Return False: on this device no graph is captured."""
    return False


class EventMarks:
    """Records events at the boundaries of a step; `DeviceMarks` adds the steps.

    `backend` is the device's `Backend`, `free` holds its free events, `make` creates another one or
    returns None. The compiled core has the same attributes.
    """

    def __init__(
        self, backend: Any, free: list[Any], make: Callable[[], Any], clock: Callable[[], int]
    ) -> None:
        self.clock = clock
        self._free = free
        self._make = make
        self.active = True
        self.stream: Any = None
        """The compute stream: the training thread's current one when the step began."""
        self.inferred = _OTHER
        """The phase that the model's own hooks report, if the trainer marks none."""
        self.passed_ns: dict[Any, int] = {}
        """Host moments at which events were found passed before their step was resolved."""
        self.is_capturing: Callable[[], bool] = backend.is_capturing or never
        self._captures = backend.is_capturing is not None
        self._stream_key: Callable[[], Any] = backend.stream_key or backend.current_stream
        self._key: Any = None
        self._merged_until = 0
        self._flags = 0
        self._counts: dict[tuple[int, int], int] = {}
        self._stride = 1
        self._turn = 0
        self._in_collective = False
        self._events: list[Any] = []
        self._moments: list[int] = []
        self._buckets: list[int] = []
        self._keys: list[Any] = []

    def mark(self, now: int, bucket: int, key: Any = None) -> bool:
        """Count the stream's time to `bucket` from `now` on; False if that is not recorded.

        All work for a boundary is in this one function, because every boundary pays for it.
        """
        if self.stream is None:  # no step has begun
            return False
        if now < self._merged_until:
            self._merged_until = 0
            self._buckets[-1], self._keys[-1] = bucket, key
            return True
        if not self.active:
            return False
        try:
            if self.is_capturing():
                self._flags |= _CAPTURED
                return False
            try:
                event = self._free.pop()
            except IndexError:
                new_event = self._make()
                if new_event is None:
                    self._flags |= _INCOMPLETE
                    return False
                event = new_event
            event.record(self.stream)
            moments = self._moments
            # After the host was blocked, the device may just have reached this point.
            if moments and now - moments[-1] > ASKED_AFTER_NS and self._events[-1].query():
                self.passed_ns.setdefault(self._events[-1], self.clock())
        except FAILURES as error:
            self._fail(error)
            return False
        moments.append(now)
        self._buckets.append(bucket)
        self._keys.append(key)
        self._events.append(event)
        return True

    def back_to(self, now: int, bucket: int) -> None:
        """The host returned to `bucket` at `now`."""
        bucket = self.inferred if bucket == _OTHER else bucket
        if now < self._merged_until:  # it left an inner bucket just before
            self._buckets[-1], self._keys[-1] = bucket, None
        elif self.mark(now, bucket):
            self._merged_until = self.clock() + MERGED_NS

    def enter_collective(self, now: int, key: tuple[int, int]) -> None:
        """A collective begins; it is timed if the compute stream waits and its step is sampled."""
        if not self.active or self.stream is None:
            return
        try:
            if self._stream_key() != self._key:
                return
        except FAILURES as error:
            self._fail(error)
            return
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._turn % self._stride:
            self._flags |= _INCOMPLETE
            return
        self._in_collective = True
        self.mark(now, COLLECTIVE, key)

    def leave_collective(self, now: int, bucket: int) -> None:
        """The collective has ended for the host, which returns to `bucket`."""
        if self._in_collective:
            self._in_collective = False
            self.back_to(now, bucket)

    def _fail(self, error: Exception) -> None:
        """The device no longer answers."""
        raise NotImplementedError
