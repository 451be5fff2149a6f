"""Steps that the device has passed become rows; nothing here waits for the device.

Two threads call it: the training thread at a step's end and the side thread now and then. The
second caller returns at once while the first one resolves.
"""

from __future__ import annotations

import math
import operator
import threading
from collections import deque

from stepwatch.hooks.core import COLLECTIVE, PIPELINE_WAIT
from stepwatch.signals.records import UNKNOWN_FLOAT, Kind, Phase

from .anchor import Anchor
from .boundaries import Boundaries, ClosedStep
from .marks import DeviceMarks
from .spans import Spans, monotone, spans_of

HELD_ROWS = 512
_PHASES = len(Phase)
_MOST_BOUNDARIES = 0xFFFF
_NS_PER_MS = 1e6

Row = tuple[int, tuple[int | float, ...]]
"""A kind, and the record for `RingWriter.append`."""


class Resolver:
    """Turns closed steps into rows, in order."""

    def __init__(self, marks: DeviceMarks) -> None:
        self._marks = marks
        self.lock = threading.Lock()
        """Held by the thread that resolves; while it is held, no event is used again."""
        self.closed: deque[ClosedStep] = deque()
        """Steps that the device may not have passed yet."""
        self.rows: deque[Row] = deque(maxlen=HELD_ROWS)
        """Rows for the training thread to write: a ring has one writer."""
        self.anchor = Anchor()
        self._passed = 0
        """Number of steps in `closed`, counted from the oldest, that were found passed."""
        self._base: object = None
        self._position = 0

    def add(self, closed: ClosedStep) -> None:
        """Resolve this step when the device has passed it."""
        if closed.boundaries.events:
            self.closed.append(closed)
        self._marks.closing = None

    def resolve(self, now: int, most: int, patience_s: float = 0.0) -> None:
        """Turn at most `most` steps that the device has passed by `now` into rows, and note them.

        `patience_s`: how long to wait for the other thread if it resolves.

        Raises:
            RuntimeError: the device does not answer any more.
        """
        if not self.lock.acquire(blocking=patience_s > 0, timeout=patience_s or -1):
            return
        try:
            self._note_passed()
            while most > 0 and self._passed:
                self._resolve(now, self.closed[0])
                self.closed.popleft()
                self._passed -= 1
                most -= 1
        finally:
            self.lock.release()

    def _note_passed(self) -> None:
        """Note passed steps; the moment is taken after the answer, when the event has passed."""
        closed, passed_ns = self.closed, self._marks.passed_ns
        while self._passed < len(closed):
            last = closed[self._passed].boundaries.events[-1]
            if not last.query():
                return
            passed_ns.setdefault(last, self._marks.clock())
            self._passed += 1

    def _resolve(self, now: int, step: ClosedStep) -> None:
        positions = self._place(now, step.boundaries)
        if step.complete:
            _, moments, buckets, keys = step.boundaries
            ended_ns = self.anchor.offset + positions[-1]
            spans = spans_of(moments, positions, buckets, keys, self.anchor.offset)
            self.rows.append(self._step_row(step, positions, spans, ended_ns))
            self._marks.ahead = 0 if any(spans.idle) else self._marks.ahead + 1
            if step.counts:
                self.rows.extend(self._collective_rows(step, spans, ended_ns))
        events = step.boundaries.events
        self._marks.pool.free.extend(events[:-1] if step.ended else events)

    def _place(self, now: int, boundaries: Boundaries) -> list[int]:
        """Return the boundaries' positions in device ns; each step is timed from its first one.

        An event counts float32 milliseconds to another: over an hour, the resolution is a quarter
        of a millisecond.
        """
        events, moments, _, _ = boundaries
        base, position = events[0], self._position
        if base is not self._base:  # the first step, or a step was lost: another origin
            self.anchor, position = Anchor(), 0
        elapsed = base.elapsed_time
        positions = [position]
        positions += [position + round(elapsed(event) * _NS_PER_MS) for event in events[1:]]
        positions = monotone(positions)
        self.anchor.move_to(now)
        self.anchor.enqueued(max(map(operator.sub, moments, positions)))
        passed_ns = self._marks.passed_ns
        for event, passed in zip(events, positions, strict=True) if passed_ns else ():
            if event in passed_ns:
                self.anchor.observe(passed_ns.pop(event) - passed)
        self._base, self._position = events[-1], positions[-1]
        return positions

    def _step_row(self, step: ClosedStep, positions: list[int], spans: Spans, ended_ns: int) -> Row:
        seconds = [spent / 1e9 for spent in spans.device]
        idle = [spent / 1e9 for spent in spans.idle[:_PHASES]]
        lead = max(ended_ns - step.boundaries.moments[-1], 0) / 1e9
        duration = (positions[-1] - positions[0]) / 1e9
        waits = (seconds[COLLECTIVE], seconds[PIPELINE_WAIT])
        count = min(len(positions), _MOST_BOUNDARIES)
        body = (duration, *seconds[:_PHASES], *idle, *waits, lead, self._error(), count)
        return int(Kind.DEVICE_STEP), (step.step, ended_ns, *body, step.flags)

    def _collective_rows(self, step: ClosedStep, spans: Spans, ended_ns: int) -> list[Row]:
        rows: list[Row] = []
        for (group, op), count in step.counts.items():
            totals = spans.collectives.get((group, op))
            timed, exposed, longest, first = totals or (0, 0, 0, 0)
            seconds = (exposed / 1e9, longest / 1e9) if timed else (UNKNOWN_FLOAT, UNKNOWN_FLOAT)
            arrived = max(self.anchor.offset + first, 0) if timed else 0
            body = (group, op, count, timed, *seconds, arrived, self._error())
            rows.append((int(Kind.DEVICE_COLLECTIVE), (step.step, ended_ns, *body)))
        return rows

    def _error(self) -> float:
        error = self.anchor.error
        return math.nan if error is None else error / 1e9
