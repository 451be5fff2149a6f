"""Records the current step's boundaries on its compute stream.

Every call comes from the training thread, or from autograd's thread while the training thread waits
in backward. The host spends a microsecond or two for each, and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from stepwatch.hooks.core import COLLECTIVE, FAILURES, EventMarks
from stepwatch.signals.records import Phase

from .backend import Backend
from .boundaries import Boundaries, ClosedStep
from .pool import EventPool

MERGED_AFTER_STEP_NS = 20_000
"""`MERGED_NS` after a step's end, when the hooks still write its row."""
CLOSEST_NS = 100_000
"""Least time between marks inside a phase: a phase that the host leaves sooner needs none."""
AHEAD_STEPS, LOOK_EVERY = 8, 8
"""Limits for marks inside a phase.

After so many steps in which the device never waited for its host, they are made in every eighth
step only, until it waits again.
"""
LEAST_TIMED, SHARE_OF_STEP = 64, 1e-3
"""The number of collectives timed in the mean step, and their share of the step.

At least the first value is timed, and more as long as the host spends no larger share of the step
on their marks. If there are more, every second or fourth step times all its collectives, and the
other steps time none: so a phase contains no collective's time in the timed steps.
"""
OWN_NS, TRIES = 500, 8
"""A mark's own cost, without the event's record, which is measured at the first step."""
_OTHER = int(Phase.OTHER)


class DeviceMarks(EventMarks):
    """Records one rank's step boundaries; `failed` gets the reason if that fails."""

    def __init__(
        self,
        backend: Backend,
        pool: EventPool,
        failed: Callable[[str], None],
        clock: Callable[[], int],
    ) -> None:
        super().__init__(backend, pool.free, pool.make, clock)
        self.backend = backend
        self.pool = pool
        self.failed = failed
        self._follow(Boundaries([], [], [], []))
        self.closing: ClosedStep | None = None
        """The step that was closed last, so that another thread finds it before it is resolved."""
        self.ahead = 0
        """Consecutive newest resolved steps in which the device never waited for its host."""
        self._current_stream = backend.current_stream
        self._collective_ns = 2 * OWN_NS
        self._complete = False

    def begin(self, now: int, bucket: int) -> None:
        """The first step begins at `now`."""
        self.stream, self._key = self._current_stream(), self._stream_key()
        self._follow(Boundaries([], [], [], []))
        self._merged_until = 0
        self._measure()
        self.mark(now, bucket)
        self._complete = bool(self.open.events)

    def _follow(self, boundaries: Boundaries) -> None:
        """Append boundaries here from now on."""
        self.open = boundaries
        """The current step."""
        # A named tuple's field takes five times as long to read, and each mark reads four.
        self._events, self._moments, self._buckets, self._keys = boundaries

    def _measure(self) -> None:
        """Measure the cost of a collective's two marks here: it depends on the device's driver."""
        try:
            event = None if self.is_capturing() else self.pool.make()
            if event is None:
                return
            spent = []
            for _ in range(TRIES):
                began = self.clock()
                event.record(self.stream)
                spent.append(self.clock() - began)
            self._collective_ns = 2 * (OWN_NS + min(spent))
            self.pool.free.append(event)
        except FAILURES as error:
            self._fail(error)

    def inside(self, now: int, bucket: int) -> None:
        """Mark a point inside a phase, which shows how far ahead the host is, unless it always was.

        `ahead` counts consecutive steps in which the device never waited for the host.
        """
        if self.ahead >= AHEAD_STEPS and self._turn % LOOK_EVERY:
            return
        moments = self._moments
        if bucket != COLLECTIVE and moments and now - moments[-1] >= CLOSEST_NS:
            self.mark(now, self.inferred if bucket == _OTHER else bucket)

    def infer(self, now: int, bucket: int, phase: int) -> None:
        """The model's hooks report that `phase` begins; it counts if the host's bucket is other."""
        if phase != self.inferred:
            self.inferred = phase
            if bucket == _OTHER:
                self.mark(now, phase)
            else:
                self.inside(now, bucket)

    def end_step(self, now: int, step: int, duration: int, bucket: int) -> ClosedStep:
        """Close `step` at `now`, `duration` ns after it began; the next one begins."""
        self.inferred = _OTHER
        boundaries, counts = self.open, self._counts
        ended = self._end(now, bucket)
        complete = ended and self._complete and len(boundaries.events) > 1
        closed = ClosedStep(step, boundaries, self._flags, counts, complete, ended)
        self.closing = closed
        self._follow(boundaries.after_end() if ended else Boundaries([], [], [], []))
        self._complete = ended
        self._flags = 0
        self._stride = 1
        if counts:
            affordable = max(LEAST_TIMED, int(duration * SHARE_OF_STEP) // self._collective_ns)
            self._stride = 1 << ((sum(counts.values()) - 1) // affordable).bit_length()
            self._counts = {}
        self._turn = step + 1  # powers of two in step numbers: ranks take the same steps
        if self.active:
            self._follow_stream(ended)
            self._merged_until = self.clock() + MERGED_AFTER_STEP_NS if ended else 0
        return closed

    def _end(self, now: int, bucket: int) -> bool:
        """Mark the step's end, or reuse a boundary as new as that; return whether it is marked."""
        if now < self._merged_until and len(self._buckets) > 1:
            self._buckets[-1], self._keys[-1] = bucket, None
            return True
        self._merged_until = 0
        self.pool.reserve()
        return self.mark(now, bucket)

    def _follow_stream(self, ended: bool) -> None:
        """Set the next step's stream to the current one, unless that captures a graph."""
        try:
            if ended or not self.is_capturing():
                self.stream, self._key = self._current_stream(), self._stream_key()
        except FAILURES as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.active = False
        self.failed(f"{type(error).__name__}: {error}")
