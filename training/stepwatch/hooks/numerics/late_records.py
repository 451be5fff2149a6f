"""Records with numbers that a device delivers late: written once these have arrived."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import Kind

from .deferred_scalars import Scalar, as_float32, is_ready, read

HELD_STEPS = 8
"""Steps for which a record waits for its numbers."""
_STEP = int(Kind.STEP)
_NUMBERS = frozenset({float, int})
_NAMES_FROM = 3
"""First name in a METRIC record's head, after its step, its moment and `evaluated`."""


class _Late(NamedTuple):
    kind: int
    head: tuple[int, ...]
    scalars: tuple[Any, ...]
    turn: int


class LateRecords:
    """Writes STEP and METRIC records whose last fields are scalars, in order.

    A number that does not arrive is unknown: NaN in STEP, left out of METRIC.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.pending: deque[_Late] = deque()
        self.delivered: Callable[[int, int, float], None] | None = None
        """Called for a STEP's number from a device: step, its place among the scalars, value."""
        self._turn = 0

    def write(self, kind: int, head: tuple[int, ...], scalars: tuple[Any, ...]) -> None:
        """Write a record with `head` and then `scalars`, now or when they have arrived."""
        self._turn += kind == _STEP
        ring = self._recorder.ring
        if ring is not None and not self.pending and _NUMBERS.issuperset(map(type, scalars)):
            ring.append(kind, head + scalars)
            return
        self.pending.append(_Late(kind, head, scalars, self._turn))
        self.drain()

    def drain(self, *, everything: bool = False) -> None:
        """Write the records whose numbers have arrived, or `everything`."""
        pending, ring = self.pending, self._recorder.ring
        while pending and ring is not None:
            late = pending[0]
            has_time = not everything and self._turn - late.turn < HELD_STEPS
            if has_time and not all(map(is_ready, late.scalars)):
                return
            pending.popleft()
            head, values = late.head, tuple(map(read, late.scalars))
            if late.kind == _STEP:
                self._deliver(late)
                values = tuple(map(as_float32, values))
            else:
                head = _with_arrived(head, late.scalars)
            ring.append(late.kind, head + values)

    def _deliver(self, late: _Late) -> None:
        for place, value in enumerate(late.scalars):
            if self.delivered is not None and not isinstance(value, float) and value.ready():
                self.delivered(late.head[0], place, value.value())


def _with_arrived(head: tuple[int, ...], scalars: tuple[Scalar, ...]) -> tuple[int, ...]:
    """Return a METRIC record's head without the names of numbers that did not arrive."""
    names = zip(head[_NAMES_FROM:], scalars, strict=True)
    return (*head[:_NAMES_FROM], *(name if is_ready(value) else 0 for name, value in names))
