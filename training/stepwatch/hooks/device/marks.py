"""Records the boundaries of the step under way on its compute stream.

Every call comes from the thread that trains, or from autograd's while that one waits in backward.
The host spends a microsecond or two for each, and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwatch.hooks.recorder.timeline import COLLECTIVE
from stepwatch.signals.records import DeviceFlag, Phase

from .backend import Backend, Event
from .boundaries import Boundaries, ClosedStep, Key
from .pool import EventPool

MERGED_NS = 5_000
"""Two changes of bucket within it are one boundary: at most one kernel is launched in it."""
CLOSEST_NS = 100_000
"""Marks inside a phase come no closer: a phase that the host leaves sooner needs none."""
TIMED_COLLECTIVES, NS_PER_COLLECTIVE = 64, 2_000_000
"""Collectives timed in the mean step: as many as the first number, and one more for each
`NS_PER_COLLECTIVE` of a step. Where there are more, those of every second or fourth step are all
timed, and of the others none: a phase then holds no collective's time in the steps that are timed.
"""
FAILURES = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError)
"""What a device that does not answer any more makes of a call."""
_ASKED_AFTER_NS = 1_000_000
_OTHER = int(Phase.OTHER)
_CAPTURED, _INCOMPLETE = int(DeviceFlag.CAPTURED), int(DeviceFlag.INCOMPLETE)


def _never() -> bool:
    return False


class DeviceMarks:
    """Records the boundaries of one rank's steps; `failed` gets the reason where that fails."""

    def __init__(
        self,
        backend: Backend,
        pool: EventPool,
        failed: Callable[[str], None],
        clock: Callable[[], int],
    ) -> None:
        self.clock = clock
        self.backend = backend
        self.pool = pool
        self.failed = failed
        self.open = Boundaries([], [], [], [])
        """The step under way."""
        self.seen: dict[Event, int] = {}
        """Host moments at which events were found passed before their step was resolved."""
        self.inferred = _OTHER
        """The phase that the model's own hooks tell, where the trainer marks none."""
        self.active = True
        self.stream: Any = None
        """The compute stream: the training thread's current one when the step began."""
        self.is_capturing = backend.is_capturing or _never
        self._merged_until = 0
        self._flags = 0
        self._counts: dict[Key, int] = {}
        self._stride = 1
        self._turn = 0
        self._whole = False
        self._in_collective = False

    def begin(self, now: int, bucket: int) -> None:
        """The first step begins at `now`."""
        self.stream = self.backend.current_stream()
        self.open = Boundaries([], [], [], [])
        self._merged_until = 0
        self.mark(now, bucket)
        self._whole = bool(self.open.events)

    def mark(self, now: int, bucket: int, key: Key | None = None, *, ends: bool = False) -> bool:
        """From `now` on the stream's time counts to `bucket`; False where that is not recorded.

        `ends`: the step ends here. What happens for every boundary is in one function: it is the
        price of each.
        """
        open_step = self.open
        if self.stream is None:  # no step has begun
            return False
        if now < self._merged_until:
            self._merged_until = 0
            open_step.buckets[-1], open_step.keys[-1] = bucket, key
            return True
        if not self.active:
            return False
        try:
            if self.is_capturing():
                self._flags |= _CAPTURED
                return False
            event = self.pool.take(for_end=ends)
            if event is None:
                self._flags |= _INCOMPLETE
                return False
            event.record(self.stream)
            moments = open_step.moments
            # Where the host was blocked, the device may just have come this far.
            if moments and now - moments[-1] > _ASKED_AFTER_NS and open_step.events[-1].query():
                self.seen.setdefault(open_step.events[-1], self.clock())
        except FAILURES as error:
            self._fail(error)
            return False
        moments.append(now)
        open_step.buckets.append(bucket)
        open_step.keys.append(key)
        open_step.events.append(event)
        return True

    def back_to(self, now: int, bucket: int) -> None:
        """The host went back to `bucket` at `now`."""
        self._merged_until = 0
        if self.mark(now, self.inferred if bucket == _OTHER else bucket):
            self._merged_until = now + MERGED_NS

    def inside(self, now: int, bucket: int) -> None:
        """A mark inside a phase, which tells how far ahead the host is there."""
        moments = self.open.moments
        if bucket != COLLECTIVE and moments and now - moments[-1] >= CLOSEST_NS:
            self.mark(now, self.inferred if bucket == _OTHER else bucket)

    def infer(self, now: int, bucket: int, phase: int) -> None:
        """The model's hooks say that `phase` begins; it counts where the host's bucket is other."""
        if phase != self.inferred:
            self.inferred = phase
            if bucket == _OTHER:
                self.mark(now, phase)
            else:
                self.inside(now, bucket)

    def enter_collective(self, now: int, key: Key) -> None:
        """A collective begins, timed where the compute stream waits for it and its step has its
        turn."""
        if not self.active or self.stream is None or not self._is_on_stream():
            return
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._turn % self._stride:
            self._flags |= _INCOMPLETE
            return
        self._in_collective = True
        self.mark(now, COLLECTIVE, key)

    def leave_collective(self, now: int, bucket: int) -> None:
        """The collective has ended for the host, which goes back to `bucket`."""
        if self._in_collective:
            self._in_collective = False
            self.back_to(now, bucket)

    def end_step(self, now: int, step: int, duration: int, bucket: int) -> ClosedStep:
        """Close `step` at `now`, `duration` ns after it began; the next one begins."""
        self.inferred = _OTHER
        self._merged_until = 0
        boundaries = self.open
        ended = self.mark(now, bucket, ends=True)
        self._follow_stream()
        whole = ended and self._whole and len(boundaries.events) > 1
        closed = ClosedStep(step, boundaries, self._flags, self._counts, whole, ended)
        last = slice(-1, None) if ended else slice(0, 0)
        self.open = Boundaries(*(column[last] for column in boundaries))  # type: ignore[arg-type]
        self._whole = ended
        called = sum(self._counts.values())
        most = max(TIMED_COLLECTIVES, duration // NS_PER_COLLECTIVE)
        self._stride = 1 << (max(called - 1, 0) // most).bit_length()
        self._turn = step + 1  # powers of two of step numbers: ranks take the same steps
        self._flags, self._counts = 0, {}
        return closed

    def _is_on_stream(self) -> bool:
        try:
            return bool(self.backend.current_stream() == self.stream)
        except FAILURES as error:
            self._fail(error)
            return False

    def _follow_stream(self) -> None:
        """The next step's stream is the current one, unless that captures a graph."""
        try:
            if self.active and not self.is_capturing():
                self.stream = self.backend.current_stream()
        except FAILURES as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.active = False
        self.failed(f"{type(error).__name__}: {error}")
