"""Steps by two calls, or around a function, for a loop that need not be indented again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from stepwatch.signals.records import StepFlag

from .context_managers import StepContext
from .guard import Guard, guarded

P = ParamSpec("P")
R = TypeVar("R")

_UNFINISHED = int(StepFlag.UNFINISHED)


class StepCalls:
    """Begins and ends `context`'s step by calls; a mismatched call is counted as misuse.

    A step that is still active when the next one begins was left by `continue` or by an
    exception that the loop caught: it is recorded as unfinished.
    """

    def __init__(self, context: StepContext, guard: Guard) -> None:
        self.guard = guard
        self._context = context
        self._called = False

    @guarded()
    def begin(self, tokens: int, number: int | None = None) -> None:
        """Begin a step; an earlier one from `begin` that has not ended is unfinished."""
        if self._called and self._context.inside:
            self.guard.misuse(
                "begin_step() without end_step() for the step before: it counts as unfinished; "
                "call end_step() on every way through the loop"
            )
            self._context.leave(_UNFINISHED)
        if number is not None:
            self._context.number(number)
        self._context.tokens = tokens
        self._called = True
        self._context.__enter__()

    @guarded()
    def end(self, tokens: int | None, metrics: dict[str, Any]) -> None:
        """End the step from `begin`, with its metrics; `tokens` None keeps the earlier number.

        If no step has begun, nothing is recorded.
        """
        if not self._called or not self._context.inside:
            self.guard.misuse("end_step() without begin_step(): nothing is recorded")
            return
        self._called = False
        if tokens is not None:
            self._context.tokens = tokens
        self._context.record(**metrics)
        self._context.leave(0)

    @guarded()
    def close(self) -> None:
        """Record a step from `begin` that has not ended as unfinished."""
        if self._called and self._context.inside:
            self._called = False
            self._context.leave(_UNFINISHED)


def around_each_call(
    step: Callable[[int], StepContext], function: Callable[P, R], tokens: int
) -> Callable[P, R]:
    """Wrap `function` with a step around each call; `step` creates the context manager."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with step(tokens):
            return function(*args, **kwargs)

    return call
