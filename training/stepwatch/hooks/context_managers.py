"""The context managers that a trainer enters: step, collective, and the watched loader."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from stepwatch.signals.records import Op

from .core import OPS_BY_NAME, Step
from .instruments import Instruments
from .steps import Steps

T = TypeVar("T")

_MAX_BYTES = 1 << 60


class StepContext(Step):
    """One step; reused for every step, so keep no reference to it."""

    __slots__ = ()

    def number(self, step: int) -> None:
        """Set the trainer's number for the step that begins now."""
        self._recorder.number(step)


class CollectiveContext:
    """A blocking collective of the trainer's own."""

    __slots__ = ("_arrived", "_group", "_instruments", "_nbytes", "_number", "_op")

    def __init__(self, instruments: Instruments, op: int, group: Any, nbytes: int) -> None:
        self._instruments = instruments
        self._op = op
        self._group = group
        self._nbytes = nbytes
        self._arrived = 0
        self._number = 0

    @classmethod
    def from_call(
        cls, instruments: Instruments, op: str, group: Any, nbytes: int
    ) -> CollectiveContext:
        """Build it from the trainer's description; an unknown `op` is `other`, a bad size 0."""
        operation = OPS_BY_NAME.get(op, Op.OTHER) if isinstance(op, str) else Op.OTHER
        usable = type(nbytes) is int and 0 <= nbytes <= _MAX_BYTES
        return cls(instruments, int(operation), group, nbytes if usable else 0)

    def __enter__(self) -> None:
        recorder = self._instruments.recorder
        timeline = recorder.timeline
        if timeline is not None and recorder.thread.is_current():
            self._number = self._instruments.groups.number(self._group)
            self._arrived = timeline.enter_collective(self._number, self._op, self._nbytes)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        timeline = self._instruments.recorder.timeline
        if timeline is not None and self._arrived:
            timeline.leave_collective(self._number, self._op, self._nbytes, self._arrived)


class Batches(Generic[T]):
    """The loader's own batches, with the wait for each counted as data."""

    def __init__(self, steps: Steps, iterator: Iterator[T]) -> None:
        self._steps = steps
        self._iterator = iterator

    def __iter__(self) -> Batches[T]:
        return self

    def __next__(self) -> T:
        self._steps.recorder.begin()
        with self._steps.phases.named("data"):
            return next(self._iterator)
