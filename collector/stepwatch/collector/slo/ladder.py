"""Old slices become coarser: 10 s for days, 5 min for weeks, 1 h for ever; their sums stay exact.

Only closed slices are joined, and only whole ones, so that a window whose edges are edges of coarse
slices is the same as before. One that begins inside a coarse slice holds all of that slice: it is
up to 5 minutes longer where it reaches back days, and up to an hour where it reaches back weeks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.store.slices import SLICE_SECONDS
from stepwatch.signals.arrays import Rows

AT_ONCE = 288
"""Coarse slices that one evaluation makes of an SLI, a day of them: a job of months whose slices
are all fine has them joined in a minute."""


class Rung(NamedTuple):
    """Slices of `seconds`, once they are `after_s` older than the newest one."""

    seconds: int
    after_s: int


LADDER = (Rung(300, 2 * 86_400), Rung(3600, 28 * 86_400))
"""Finest first; each a multiple of the one before, and of a slice."""


def coarsest_seconds(ago_s: float) -> int:
    """How long slices may be of what happened up to `ago_s` before the newest one."""
    lengths = [rung.seconds for rung in LADDER if rung.after_s < ago_s]
    return max(lengths, default=SLICE_SECONDS)


def joined(rows: Rows, seconds: int) -> Rows:
    """Rows of slices in time order, those within the same `seconds` as one.

    Sums are added, cumulative sums are those of the last, and the version is the highest: 1 if none
    was amended. Starts 300, 310, 600 and 300 seconds -> rows 0 and 1 together, row 2.
    """
    starts = rows["start_s"] // seconds * seconds
    begins = np.flatnonzero(np.append(True, starts[1:] != starts[:-1]))
    coarse: Rows = rows[np.append(begins[1:], len(rows)) - 1]
    coarse["start_s"], coarse["seconds"] = starts[begins], seconds
    for name in ("good", "total", "observed", "expected"):
        coarse[name] = np.add.reduceat(rows[name], begins)
    coarse["version"] = np.maximum.reduceat(rows["version"], begins)
    return coarse
