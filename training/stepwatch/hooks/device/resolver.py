"""Steps that the device has passed become rows; nothing here waits for the device.

Two threads call it, the training thread at the end of a step and the side thread now and then;
whoever comes while the other is at it goes away again.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import NamedTuple

from stepwatch.hooks.recorder.timeline import COLLECTIVE, PIPELINE_WAIT
from stepwatch.signals.records import UNKNOWN_FLOAT, Kind, Phase

from .anchor import Anchor
from .boundaries import Boundaries, ClosedStep
from .spans import Spans, monotone, spans_of

HELD_ROWS = 512
_PHASES = len(Phase)
_MOST_BOUNDARIES = 0xFFFF
_NS_PER_MS = 1e6

Row = tuple[int, tuple[int | float, ...]]
"""A kind, and the record as `RingWriter.append` takes it."""


class Placed(NamedTuple):
    """A step on the device's clock: ns of its boundaries, and of its end on the host's clock."""

    positions: list[int]
    ended_ns: int


class Resolver:
    """Makes rows of closed steps in their order."""

    def __init__(self, boundaries: Boundaries) -> None:
        self._boundaries = boundaries
        self.lock = threading.Lock()
        """Held by the thread that resolves; while it is held, no event is used again."""
        self.closed: deque[ClosedStep] = deque()
        """Steps that the device may not have passed yet."""
        self.rows: deque[Row] = deque(maxlen=HELD_ROWS)
        """What the training thread is to write: a ring has one writer."""
        self.anchor = Anchor()
        self._base: object = None
        self._position = 0

    def add(self, closed: ClosedStep) -> None:
        """Resolve this step when the device has passed it."""
        if closed.boundaries:
            self.closed.append(closed)

    def resolve(self, now: int, most: int) -> None:
        """Make rows of at most `most` steps that the device has passed by `now`.

        Raises:
            RuntimeError: the device does not answer any more.
        """
        if not self.lock.acquire(blocking=False):
            return
        try:
            while most > 0 and self.closed and self._last_is_passed(now):
                self._resolve(now, self.closed[0])
                self.closed.popleft()
                most -= 1
        finally:
            self.lock.release()

    def _last_is_passed(self, now: int) -> bool:
        last = self.closed[0].boundaries[-1].event
        if not last.query():
            return False
        self._boundaries.seen.setdefault(last, now)
        return True

    def _resolve(self, now: int, step: ClosedStep) -> None:
        placed = self._place(now, step)
        if step.whole:
            moments = [one.moment for one in step.boundaries]
            buckets = [one.bucket for one in step.boundaries[:-1]]
            keys = [one.key for one in step.boundaries[:-1]]
            offset = self.anchor.offset
            spans = spans_of(moments, placed.positions, buckets, keys, offset)
            self.rows.append(self._step_row(step, placed, spans))
            self.rows.extend(self._collective_rows(step, placed, spans))
        kept = 1 if step.ended else 0
        events = [one.event for one in step.boundaries]
        for event in events:
            self._boundaries.seen.pop(event, None)
        self._boundaries.pool.put(events[: len(events) - kept])

    def _place(self, now: int, step: ClosedStep) -> Placed:
        """Positions of the boundaries; each step is timed from its own first one.

        An event counts float32 milliseconds to another: over an hour, steps of a quarter of one.
        """
        base = step.boundaries[0].event
        if base is not self._base:  # the first step, or one was lost: another origin
            self.anchor, self._position = Anchor(), 0
        elapsed = (base.elapsed_time(one.event) for one in step.boundaries[1:])
        positions = monotone(
            [self._position, *(self._position + round(each * _NS_PER_MS) for each in elapsed)]
        )
        self.anchor.move_to(now)
        for boundary, position in zip(step.boundaries, positions, strict=True):
            self.anchor.enqueued(boundary.moment, position)
        seen = self._boundaries.seen
        for boundary, position in zip(step.boundaries, positions, strict=True):
            if boundary.event in seen:
                self.anchor.seen(seen[boundary.event], position)
        self._base, self._position = step.boundaries[-1].event, positions[-1]
        return Placed(positions, self.anchor.offset + positions[-1])

    def _step_row(self, step: ClosedStep, placed: Placed, spans: Spans) -> Row:
        seconds = [spent / 1e9 for spent in spans.device]
        idle = [spent / 1e9 for spent in spans.idle[:_PHASES]]
        lead = max(placed.ended_ns - step.boundaries[-1].moment, 0) / 1e9
        duration = (placed.positions[-1] - placed.positions[0]) / 1e9
        waits = (seconds[COLLECTIVE], seconds[PIPELINE_WAIT])
        count = min(len(step.boundaries), _MOST_BOUNDARIES)
        body = (duration, *seconds[:_PHASES], *idle, *waits, lead, self._error(), count)
        return int(Kind.DEVICE_STEP), (step.step, placed.ended_ns, *body, step.flags)

    def _collective_rows(self, step: ClosedStep, placed: Placed, spans: Spans) -> list[Row]:
        rows: list[Row] = []
        for (group, op), count in step.counts.items():
            found = spans.collectives.get((group, op))
            timed, exposed, longest, first = found or (0, 0, 0, 0)
            seconds = (exposed / 1e9, longest / 1e9) if timed else (UNKNOWN_FLOAT, UNKNOWN_FLOAT)
            arrived = max(self.anchor.offset + first, 0) if timed else 0
            body = (group, op, count, timed, *seconds, arrived, self._error())
            rows.append((int(Kind.DEVICE_COLLECTIVE), (step.step, placed.ended_ns, *body)))
        return rows

    def _error(self) -> float:
        error = self.anchor.error
        return math.nan if error is None else error / 1e9
