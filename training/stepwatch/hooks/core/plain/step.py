"""A step as the trainer marks it: its two ends, its phases and its numbers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from stepwatch.signals.records import UNKNOWN_FLOAT, NumericsSource, StepFlag

_FAST_RANGE = 1e38
"""Floats in this range are float32 numbers without a closer check."""
_UNFINISHED = int(StepFlag.UNFINISHED)
_UNNAMED = "record(...) left out a number without a name; write record(loss=...)"


def _share(_index: int) -> str:
    return "share of the gradient norm"


class Step:
    """One step; reused for every step. `steps` is the `Steps` that ends it.

    The compiled core has the same attributes, and calls the functions here for all that is rare.
    """

    __slots__ = (
        "_by_name",
        "_evaluation",
        "_grad_norm",
        "_inside",
        "_loss",
        "_recorder",
        "_steps",
        "tokens",
    )

    def __init__(self, steps: Any) -> None:
        self._steps = steps
        self._recorder = steps.recorder
        self._by_name: dict[str, AbstractContextManager[None]] = steps.phases.by_name
        self._evaluation = steps.instruments.pauses.evaluation
        self._inside = False
        self._loss: Any = UNKNOWN_FLOAT
        self._grad_norm: Any = UNKNOWN_FLOAT
        self.tokens = 0

    def __enter__(self) -> Self:
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

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Return a context manager around a phase in this step."""
        try:
            return self._by_name[name]
        except (KeyError, TypeError):
            context: AbstractContextManager[None] = self._steps.phases.named(name)
            return context

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
            self._loss = _scalar(self, loss, "loss")
        if grad_norm is not None:
            self._grad_norm = _scalar(self, grad_norm, "grad_norm")
        if metrics:
            self._steps.instruments.metrics.record(metrics)
        if grad_norm_share is not None:
            numerics = self._steps.instruments.numerics
            numerics.check((grad_norm_share,), _share, NumericsSource.GRAD_NORM_SHARE)


def _scalar(step: Step, value: Any, name: str) -> Any:
    if type(value) is float and -_FAST_RANGE < value < _FAST_RANGE:
        return value
    if isinstance(value, Mapping):
        step._steps.instruments.metrics.record({name: value})
        return UNKNOWN_FLOAT
    return step._steps.scalar(value)
