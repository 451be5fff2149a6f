"""The boundary between hooks and trainer: no failure in the hooks reaches the trainer."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from stepwatch.signals.plain_text import plain_line

logger = logging.getLogger("stepwatch")

P = ParamSpec("P")
R = TypeVar("R")


class Guard:
    """Counts the errors that the hooks caught and logs each kind once."""

    def __init__(self) -> None:
        self.errors = 0
        self._logged: set[str] = set()
        self.publish: Callable[[int], None] | None = None

    def caught(self, where: str, error: BaseException) -> None:
        """Count an unexpected error in a hook."""
        self.misuse(f"{where}: {type(error).__name__}: {error}; the hook is skipped")

    def misuse(self, message: str) -> None:
        """Count a call that has no effect; `message` contains the fix."""
        self.errors += 1
        if self.publish is not None:
            self.publish(self.errors)
        if message not in self._logged and len(self._logged) < 64:
            self._logged.add(message)
            logger.warning("stepwatch: %s", plain_line(message))


class _Guarded(Protocol):
    guard: Guard


S = TypeVar("S", bound=_Guarded)


def guarded(
    fallback: Any = None,
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Make a method return `fallback` instead of raising; the error is counted and logged once.

    This holds stepwatch's only broad `except`: a run that costs thousands of device-hours must
    continue after any error in a hook.
    """

    def decorate(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @functools.wraps(method)
        def call(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return method(self, *args, **kwargs)
            except Exception as error:  # noqa: BLE001
                self.guard.caught(method.__qualname__, error)
                return cast("R", fallback)

        return cast("Callable[Concatenate[S, P], R]", call)

    return decorate
