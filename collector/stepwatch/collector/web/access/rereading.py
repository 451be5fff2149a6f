"""Periodically checks whether configuration files have changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

EVERY_SECONDS = 2.0


def follow(refresh: Sequence[Callable[[], None]], wait: Callable[[float], bool]) -> None:
    """Call each function in `refresh` periodically.

    `wait(seconds)` sleeps and returns True to stop.
    """
    while refresh and not wait(EVERY_SECONDS):
        for callback in refresh:
            callback()
