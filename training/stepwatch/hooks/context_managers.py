"""The context managers that a trainer enters: step, phase, collective, and the watched loader."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stepwatch.signals.records import UNKNOWN_FLOAT, NumericsSource, StepFlag

from .numerics.deferred_scalars import Scalar

if TYPE_CHECKING:
    from .watch import Watch

T = TypeVar("T")

PhaseContext = AbstractContextManager[None]
"""Counts time to one phase while entered; entered again each time, and at any depth."""

_FAST_RANGE = 1e38
"""Floats within it are float32 numbers without a further look."""


def _share(_index: int) -> str:
    return "share of the gradient norm"


class StepContext:
    """One step; reused for every step, so keep no reference to it."""

    __slots__ = ("_grad_norm", "_inside", "_loss", "_phases", "_watch", "tokens")

    def __init__(self, watch: Watch, phases: Mapping[str, PhaseContext]) -> None:
        self._watch = watch
        self._phases = phases
        self._inside = False
        self._loss: Scalar = UNKNOWN_FLOAT
        self._grad_norm: Scalar = UNKNOWN_FLOAT
        self.tokens = 0

    def __enter__(self) -> StepContext:
        if self._inside:
            self._watch.guard.misuse("a step began inside a step: leave the first one before")
        self._inside = True
        watch = self._watch
        watch.thread.ident = threading.get_ident()
        watch.begin()
        if watch.settle is not None:
            watch.settle()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inside = False
        loss, self._loss = self._loss, UNKNOWN_FLOAT
        grad_norm, self._grad_norm = self._grad_norm, UNKNOWN_FLOAT
        flags = 0 if error is None else int(StepFlag.UNFINISHED)
        self._watch.end_step(self.tokens, loss, grad_norm, flags)

    def phase(self, name: str) -> PhaseContext:
        """Context manager around a phase of this step."""
        try:
            return self._phases[name]
        except (KeyError, TypeError):
            return self._watch.phase(name)

    def record(
        self, *, loss: Any = None, grad_norm: Any = None, grad_norm_share: Any = None
    ) -> None:
        """Note numbers of this step: floats or one-element tensors, never synchronised here.

        `grad_norm_share` is a tensor that this rank is about to reduce with others into a gradient
        norm: only whether it is finite is kept.
        """
        if self._watch.timeline is None:
            return
        self._loss = self._take(loss, self._loss)
        self._grad_norm = self._take(grad_norm, self._grad_norm)
        if grad_norm_share is not None:
            self._watch.numerics.look((grad_norm_share,), _share, NumericsSource.GRAD_NORM_SHARE)

    def _take(self, value: Any, old: Scalar) -> Scalar:
        if value is None:
            return old
        if type(value) is float and -_FAST_RANGE < value < _FAST_RANGE:
            return value
        return self._watch.take(value)


class CollectiveContext:
    """A blocking collective of the trainer's own."""

    __slots__ = ("_arrived", "_group", "_nbytes", "_number", "_op", "_watch")

    def __init__(self, watch: Watch, op: int, group: Any, nbytes: int) -> None:
        self._watch = watch
        self._op = op
        self._group = group
        self._nbytes = nbytes
        self._arrived = 0
        self._number = 0

    def __enter__(self) -> None:
        timeline = self._watch.timeline
        if timeline is not None and self._watch.thread.is_current():
            self._number = self._watch.groups.number(self._group)
            self._arrived = timeline.enter_collective(self._number, self._op, self._nbytes)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        timeline = self._watch.timeline
        if timeline is not None and self._arrived:
            timeline.leave_collective(self._number, self._op, self._nbytes, self._arrived)


class Batches(Generic[T]):
    """The loader's own items, with the wait for each counted as data."""

    def __init__(self, watch: Watch, iterator: Iterator[T]) -> None:
        self._watch = watch
        self._iterator = iterator

    def __iter__(self) -> Batches[T]:
        return self

    def __next__(self) -> T:
        self._watch.begin()
        with self._watch.phase("data"):
            return next(self._iterator)
