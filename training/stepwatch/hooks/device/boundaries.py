"""Boundaries of the step under way: an event on the compute stream wherever its bucket changes.

Every call comes from the thread that trains, or from autograd's while that one waits in backward.
The host spends a microsecond or two for each, and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stepwatch.hooks.recorder.timeline import COLLECTIVE
from stepwatch.signals.records import DeviceFlag, Phase

from .backend import Backend, Event
from .pool import EventPool

Key = tuple[int, int]
"""Number of a group, and an operation."""

MERGED_NS = 3_000
"""Two changes of bucket within it are one boundary: no kernel is launched in less."""
CLOSEST_NS = 100_000
"""Marks inside a phase come no closer: a phase that the host leaves sooner needs none."""
TIMED_COLLECTIVES, NS_PER_COLLECTIVE = 64, 2_000_000
"""Collectives of a step that are timed: as many as the first number, and one more for each
`NS_PER_COLLECTIVE` of a step; of others every second or third is."""
_ASKED_AFTER_NS = 1_000_000
_OTHER = int(Phase.OTHER)
_CAPTURED, _INCOMPLETE = int(DeviceFlag.CAPTURED), int(DeviceFlag.INCOMPLETE)


class Boundary(NamedTuple):
    """`event` was enqueued at host moment `moment`; `bucket` begins there."""

    event: Event
    moment: int
    bucket: int
    key: Key | None = None


class ClosedStep(NamedTuple):
    """A step that the host has left, and its boundaries; the next step begins with its end."""

    step: int
    boundaries: list[Boundary]
    flags: int
    counts: dict[Key, int]
    """Collectives of the step, timed or not."""
    whole: bool
    """Whether its first and its last boundary are those of the step."""
    ended: bool
    """Whether its last boundary is its end, and the first one of the next step."""


class Boundaries:
    """Records the boundaries of one rank's steps; `failed` gets the reason where that fails."""

    def __init__(self, backend: Backend, pool: EventPool, failed: Callable[[str], None]) -> None:
        self.backend = backend
        self.pool = pool
        self.failed = failed
        self.open: list[Boundary] = []
        """The step under way; only its thread appends, others look."""
        self.seen: dict[Event, int] = {}
        """Host moments at which events were found passed before their step was resolved."""
        self.inferred = _OTHER
        """The phase that the model's own hooks tell, where the trainer marks none."""
        self.active = True
        self.stream: Any = None
        """The compute stream: the training thread's current one when the step began."""
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
        self.open = []
        self.mark(now, bucket)
        self._whole = bool(self.open)

    def mark(self, now: int, bucket: int, key: Key | None = None, *, leaves: bool = False) -> None:
        """From `now` on the stream's time counts to `bucket`; `leaves`: it goes back to it."""
        recorded = now < self._merged_until and bool(self.open)
        try:
            if recorded:
                last = self.open[-1]
                self.open[-1] = Boundary(last.event, last.moment, bucket, key)
            else:
                recorded = self._record(now, bucket, key, for_end=False)
        except (RuntimeError, ValueError, TypeError) as error:
            self._fail(error)
        self._merged_until = now + MERGED_NS if leaves and recorded else 0

    def _record(self, now: int, bucket: int, key: Key | None, *, for_end: bool) -> bool:
        if not self.active:
            return False
        capturing = self.backend.is_capturing
        if capturing is not None and capturing():
            self._flags |= _CAPTURED
            return False
        event = self.pool.take(for_end=for_end)
        if event is None:
            self._flags |= _INCOMPLETE
            return False
        event.record(self.stream)
        if self.open:
            last = self.open[-1]
            # Where the host was blocked, the device may just have come this far.
            if now - last.moment > _ASKED_AFTER_NS and last.event.query():
                self.seen.setdefault(last.event, now)
        self.open.append(Boundary(event, now, bucket, key))
        return True

    def back_to(self, now: int, bucket: int) -> None:
        """The host went back to `bucket` at `now`."""
        self.mark(now, self.inferred if bucket == _OTHER else bucket, leaves=True)

    def inside(self, now: int, bucket: int) -> None:
        """A mark inside a phase, which tells how far ahead the host is there."""
        if bucket != COLLECTIVE and self.open and now - self.open[-1].moment >= CLOSEST_NS:
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
        """A collective begins; it is timed if the compute stream waits for it, and it is its turn.

        With a stride of 3, every third call is timed, in each step other ones.
        """
        if not self.active or self.backend.current_stream() != self.stream:
            return
        number = self._counts.get(key, 0)
        self._counts[key] = number + 1
        if (number + self._turn) % self._stride:
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
        ended = False
        try:
            ended = self._record(now, bucket, None, for_end=True)
            self.stream = self.backend.current_stream()
        except (RuntimeError, ValueError, TypeError) as error:
            self._fail(error)
        whole = ended and self._whole and len(self.open) > 1
        closed = ClosedStep(step, self.open, self._flags, self._counts, whole, ended)
        self.open, self._whole = self.open[-1:] if ended else [], ended
        called = sum(self._counts.values())
        self._stride = -(-called // max(TIMED_COLLECTIVES, duration // NS_PER_COLLECTIVE)) or 1
        self._turn += 1
        self._flags, self._counts = 0, {}
        return closed

    def _fail(self, error: Exception) -> None:
        self.active = False
        self.failed(f"{type(error).__name__}: {error}")
