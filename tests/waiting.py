"""Waits for results of other threads or processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def until(
    description: str, holds: Callable[[], T | None], seconds: float = 240.0, every: float = 0.05
) -> T:
    """Call `holds` until its answer is true, and return that; fail the test after `seconds`.

    The limit is far beyond the usual time, so that a busy machine fails no test.
    """
    deadline = time.monotonic() + seconds
    while True:
        answer = holds()
        if answer:
            return answer
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds:.0f} s for: {description}")
        time.sleep(every)
