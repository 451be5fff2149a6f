"""Looks now and then whether files that were read at the start have changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

EVERY_SECONDS = 2.0


def follow(refresh: Sequence[Callable[[], None]], wait: Callable[[float], bool]) -> None:
    """Call each of `refresh` once in a while; `wait(seconds)` sleeps and returns True to end."""
    while refresh and not wait(EVERY_SECONDS):
        for callback in refresh:
            callback()
