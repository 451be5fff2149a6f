"""The README's lines around a loop, and a stand-in for runs without stepwatch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from tests.trainers.programs.plan import Plan

T = TypeVar("T")


class NullWatch:
    """Has the methods of `Watch` and does nothing: stepwatch is not even imported."""

    def attach(self, **parts: Any) -> None:
        """Nothing."""

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """The batches."""
        return iter(loader)

    def step(self, tokens: int = 0) -> AbstractContextManager[NullWatch]:
        """Return a step, which has the same methods."""
        return nullcontext(self)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Nothing around a phase."""
        return nullcontext()

    def record(self, **numbers: Any) -> None:
        """Nothing."""

    def record_evaluation(self, values: Any) -> None:
        """Nothing."""

    def start_at(self, step: int) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def watch_of(plan: Plan) -> Any:
    """Return a `Watch` as in the README if the plan uses its lines."""
    if plan.adapter != "lines":
        return NullWatch()
    from stepwatch.hooks import Watch

    return Watch.from_env(job=plan.job)
