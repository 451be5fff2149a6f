"""How far a long command is, and how long it still takes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

EVERY_SECONDS = 20.0


def in_words(done: float, total: float, left_seconds: float, unit: str) -> str:
    """One line.

    Worked example: 12.3 of 200 job-days, 5,400 s left is `12.3 of 200 job-days, 1 h 30 min left`.
    """
    hours, minutes = divmod(round(left_seconds / 60.0), 60)
    left = f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else "under 1 min"
    return f"{done:.4g} of {total:.4g} {unit}, {left} left"


class Progress:
    """Says now and then how far it is; `known` of `total` were there before."""

    def __init__(
        self,
        known: float,
        total: float,
        unit: str,
        out: TextIO = sys.stderr,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._known, self._total, self._unit = known, total, unit
        self._out, self._clock = out, clock
        self._done = known
        self._began = self._said = clock()

    def more(self, count: float) -> None:
        """So much more is done."""
        self._done += count
        now = self._clock()
        if now < self._said + EVERY_SECONDS:
            return
        self._said = now
        rate = (self._done - self._known) / (now - self._began)
        left = max(0.0, self._total - self._done) / rate
        print(in_words(self._done, self._total, left, self._unit), file=self._out, flush=True)
