"""Longest time that an attempt's ranks spent in each step phase before they left it."""

from __future__ import annotations

import numpy as np

from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Phase, StepFlag, phase_name
from stepwatch.signals.wire import Rows

_COLUMNS = tuple(f"{phase_name(phase)}_ns" for phase in Phase)


class UsualPauses:
    """The longest time of a rank in each phase of one step; first steps do not count.

    Only extremes are kept, so the row order makes no difference.
    """

    def __init__(self) -> None:
        self._longest_ns = np.zeros(len(_COLUMNS), dtype=np.int64)

    def add(self, steps: Rows) -> None:
        """Add new STEP rows."""
        counted = (steps["flags"] & StepFlag.FIRST) == 0
        if not counted.any():
            return
        for place, name in enumerate(_COLUMNS):
            longest = int(steps[name].max(where=counted, initial=0))
            self._longest_ns[place] = max(self._longest_ns[place], longest)

    def longest(self, phase: Phase) -> float:
        """Return the longest time in seconds, 0 before any."""
        return float(self._longest_ns[phase]) / NANOSECONDS
