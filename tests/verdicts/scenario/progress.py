"""The progress of a long command, and its remaining time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

EVERY_SECONDS = 20.0


def in_words(amount: float, total: float, left_seconds: float, unit: str) -> str:
    """Return the progress as one line.

    Worked example: 12.3 of 200 job-days, 5,400 s left is `12.3 of 200 job-days, 1 h 30 min left`.
    """
    hours, minutes = divmod(round(left_seconds / 60.0), 60)
    remaining = (
        f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else "under 1 min"
    )
    return f"{amount:.4g} of {total:.4g} {unit}, {remaining} left"


class Progress:
    """Prints its progress now and then; `start` of `total` were there before."""

    def __init__(
        self,
        start: float,
        total: float,
        unit: str,
        out: TextIO = sys.stderr,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start, self._total, self._unit = start, total, unit
        self._out, self._clock = out, clock
        self._count = start
        self._began = self._printed = clock()

    def more(self, count: float) -> None:
        """Count `count` more as done."""
        self._count += count
        now = self._clock()
        if now < self._printed + EVERY_SECONDS:
            return
        self._printed = now
        rate = (self._count - self._start) / (now - self._began)
        remaining_seconds = max(0.0, self._total - self._count) / rate
        print(
            in_words(self._count, self._total, remaining_seconds, self._unit),
            file=self._out,
            flush=True,
        )
