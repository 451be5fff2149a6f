"""The context managers that a trainer enters: step, collective, and the watched loader."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar

from stepwatch.signals.records import UNKNOWN_FLOAT, NumericsSource, Op, StepFlag

from .instruments import Instruments
from .numerics.deferred_scalars import Scalar
from .phases import PhaseContext
from .recorder.timeline import OPS_BY_NAME
from .steps import Steps

T = TypeVar("T")

_FAST_RANGE = 1e38
"""Floats in this range are float32 numbers without a closer check."""
_MAX_BYTES = 1 << 60
_UNFINISHED = int(StepFlag.UNFINISHED)
_UNNAMED = "record(...) left out a number without a name; write record(loss=...)"


def _share(_index: int) -> str:
    return "share of the gradient norm"


class StepContext:
    """One step; reused for every step, so keep no reference to it."""

    __slots__ = (
        "_by_name",
        "_evaluation",
        "_grad_norm",
        "_inside",
        "_loss",
        "_metrics",
        "_recorder",
        "_steps",
        "tokens",
    )

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._recorder = steps.recorder
        self._by_name = steps.phases.by_name
        self._evaluation = steps.instruments.pauses.evaluation
        self._metrics = steps.instruments.metrics
        self._inside = False
        self._loss: Scalar = UNKNOWN_FLOAT
        self._grad_norm: Scalar = UNKNOWN_FLOAT
        self.tokens = 0

    def __enter__(self) -> StepContext:
        recorder = self._recorder
        if self._inside:
            recorder.guard.misuse("a step began inside a step: leave the first one before")
        self._inside = True
        recorder.thread.ident = threading.get_ident()
        if recorder.timeline is None or not recorder.began:
            recorder.begin()
        if recorder.drain_completions is not None:
            recorder.drain_completions()
        if self._evaluation.pending:
            self._evaluation.ends()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave(0 if error is None else _UNFINISHED)

    @property
    def inside(self) -> bool:
        """Return whether a step is active."""
        return self._inside

    def leave(self, flags: int) -> None:
        """End the step; `flags` are bits from `StepFlag`."""
        self._inside = False
        loss, self._loss = self._loss, UNKNOWN_FLOAT
        grad_norm, self._grad_norm = self._grad_norm, UNKNOWN_FLOAT
        self._steps.end(self.tokens, loss, grad_norm, flags)

    def number(self, step: int) -> None:
        """Set the trainer's number for the step that begins now."""
        self._recorder.number(step)

    def phase(self, name: str) -> PhaseContext:
        """Return a context manager around a phase in this step."""
        try:
            return self._by_name[name]
        except (KeyError, TypeError):
            return self._steps.phases.named(name)

    def record(
        self,
        *unnamed: Any,
        loss: Any = None,
        grad_norm: Any = None,
        grad_norm_share: Any = None,
        **metrics: Any,
    ) -> None:
        """Note numbers for this step: floats or one-element tensors, never synchronised here.

        `grad_norm_share` is a tensor that this rank is about to reduce with others into a gradient
        norm: only its finiteness is kept. Other names are metrics; a mapping has one for each of
        its parts, as in `loss={"image": 0.5}`. A number without a name is counted, logged once and
        left out.
        """
        if self._recorder.timeline is None:
            return
        if unnamed:
            self._recorder.guard.misuse(_UNNAMED)
        if loss is not None:
            self._loss = self._scalar(loss, "loss")
        if grad_norm is not None:
            self._grad_norm = self._scalar(grad_norm, "grad_norm")
        if metrics:
            self._metrics.record(metrics)
        if grad_norm_share is not None:
            numerics = self._steps.instruments.numerics
            numerics.check((grad_norm_share,), _share, NumericsSource.GRAD_NORM_SHARE)

    def _scalar(self, value: Any, name: str) -> Scalar:
        if type(value) is float and -_FAST_RANGE < value < _FAST_RANGE:
            return value
        if isinstance(value, Mapping):
            self._metrics.record({name: value})
            return UNKNOWN_FLOAT
        return self._steps.scalar(value)


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
