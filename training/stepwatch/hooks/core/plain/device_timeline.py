"""The host's timeline with a boundary on the device at each bucket change.

A timeline changes its class in place, so that every holder times the device from then on. The
timeline of a rank without a device stays unchanged, and pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from .bucket import Bucket
from .timeline import Timeline

EndStep = Callable[[int, int, int], None]
"""Called with a step's (end, duration, bucket), the first two in ns."""


class Marks(Protocol):
    """The boundaries on a device that belong to a timeline: `device.marks.DeviceMarks`."""

    active: bool

    def begin(self, now: int, bucket: int) -> None:
        """The first step begins at `now`."""

    def mark(self, now: int, bucket: int, key: Any = None) -> bool:
        """Count the stream's time to `bucket` from `now` on."""

    def back_to(self, now: int, bucket: int) -> None:
        """The host returned to `bucket` at `now`."""

    def enter_collective(self, now: int, key: tuple[int, int]) -> None:
        """A collective begins."""

    def leave_collective(self, now: int, bucket: int) -> None:
        """The collective has ended for the host."""


# `super()` costs as much as the calls here for each boundary.
_enter, _leave = Bucket.__enter__, Bucket.__exit__
_enter_collective, _leave_collective = Timeline.enter_collective, Timeline.leave_collective


class DeviceBucket(Bucket):
    """A bucket whose borders are boundaries on the device."""

    __slots__ = ("_marks",)

    def __init__(
        self, timeline: Timeline, index: int, clock: Callable[[], int], marks: Marks
    ) -> None:
        super().__init__(timeline, index, clock)
        self._marks = marks

    def __enter__(self) -> None:
        _enter(self)
        self._marks.mark(self._timeline.since, self._index)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _leave(self, kind, error, trace)
        timeline = self._timeline
        self._marks.back_to(timeline.since, timeline.bucket)


class DeviceTimeline(Timeline):
    """A timeline that has boundaries on a device; `put_boundaries` creates it."""

    __slots__ = ()

    marks: Marks
    ended: EndStep

    def begin(self) -> None:
        """Start counting the first step now, on the device too."""
        super().begin()
        self.marks.begin(self.since, self.bucket)

    def detach(self) -> None:
        """Show nothing more, and record no event: in a forked child the device is the parent's."""
        super().detach()
        self.marks.active = False

    def enter_collective(self, group: int, op: int, nbytes: int = 0) -> int:
        """A blocking collective begins, on the device as well if its stream waits there."""
        now = _enter_collective(self, group, op, nbytes)
        self.marks.enter_collective(now, (group, op))
        return now

    def leave_collective(self, group: int, op: int, nbytes: int, arrived_ns: int) -> None:
        """A blocking collective has ended for the host."""
        _leave_collective(self, group, op, nbytes, arrived_ns)
        self.marks.leave_collective(self.since, self.bucket)

    def enter_wait(self, group: int, op: int) -> None:
        """The rank waits for a collective, and so does the device if its stream waits there."""
        super().enter_wait(group, op)
        self.marks.enter_collective(self.since, (group, op))

    def leave_wait(self) -> None:
        """That wait has ended for the host."""
        super().leave_wait()
        self.marks.leave_collective(self.since, self.bucket)

    def end_step(self) -> tuple[int, int, list[int]]:
        """Close the step on the host and on the device."""
        now, duration, totals = super().end_step()
        self.ended(now, duration, self.bucket)
        return now, duration, totals


def put_boundaries(timeline: Timeline, marks: Marks, ended: EndStep) -> None:
    """From now on `timeline` records boundaries, and calls `ended` at the end of each step."""
    clock = timeline.clock
    timeline.__class__ = DeviceTimeline
    assert isinstance(timeline, DeviceTimeline)
    timeline.marks, timeline.ended = marks, ended
    timeline.buckets = tuple(
        DeviceBucket(timeline, index, clock, marks) for index in range(len(timeline.buckets))
    )


def remove_boundaries(timeline: Timeline) -> None:
    """Time the host alone from now on."""
    clock = timeline.clock
    timeline.__class__ = Timeline
    timeline.marks = timeline.ended = None
    timeline.buckets = tuple(
        Bucket(timeline, index, clock) for index in range(len(timeline.buckets))
    )
