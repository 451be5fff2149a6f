"""How long evaluations and saves of an attempt took that its ranks marked, the longest of each."""

from __future__ import annotations

import math

from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Phase
from stepwatch.signals.wire import Rows

_COLUMNS = {Phase.EVAL: "eval_ns", Phase.CHECKPOINT: "checkpoint_ns"}


class UsualPauses:
    """The longest pause of a rank in one step, by phase, and between which steps they were.

    Only extremes are kept, so the order in which rows come makes no difference.
    """

    def __init__(self) -> None:
        self._steps: dict[str, tuple[int, int]] = {}
        self._longest_ns: dict[str, int] = {}

    def add(self, steps: Rows) -> None:
        """Add STEP rows that are new."""
        for name in _COLUMNS.values():
            spent = steps[name]
            if not spent.any():  # in most steps nobody evaluates or saves
                continue
            numbers = steps["step"][spent > 0].astype("<i8")
            first, last = int(numbers.min()), int(numbers.max())
            known = self._steps.get(name, (first, last))
            self._steps[name] = (min(first, known[0]), max(last, known[1]))
            self._longest_ns[name] = max(int(spent.max()), self._longest_ns.get(name, 0))

    def longest(self, phase: Phase) -> float:
        """Seconds of the longest one; NaN before two steps had one, and of phases that are none.

        One alone says little: the first save creates files, the first evaluation compiles.
        """
        name = _COLUMNS.get(phase, "")
        first, last = self._steps.get(name, (0, 0))
        return self._longest_ns[name] / NANOSECONDS if first < last else math.nan
