"""Downsampling of old slices: 10 s for days, 5 min for weeks, 1 h for ever; sums stay exact.

Only closed, whole slices are joined, so a window with edges on coarse slices is unchanged. A window
that begins inside a coarse slice includes the whole slice: it is up to 5 minutes longer if it
reaches back days, and up to an hour longer if it reaches back weeks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.store.slices import SLICE_SECONDS
from stepwatch.signals.arrays import Rows

AT_ONCE = 288
"""Maximum coarse slices per evaluation and SLI, a day's worth.

A job with months of fine slices is downsampled in a minute.
"""


class Rung(NamedTuple):
    """Slices of `seconds`, once they are `after_s` older than the newest one."""

    seconds: int
    after_s: int


LADDER = (Rung(300, 2 * 86_400), Rung(3600, 28 * 86_400))
"""Finest first; each is a multiple of the previous one, and of a slice."""


def coarsest_seconds(ago_s: float) -> int:
    """Return the greatest slice length for events up to `ago_s` before the newest slice."""
    lengths = [rung.seconds for rung in LADDER if rung.after_s < ago_s]
    return max(lengths, default=SLICE_SECONDS)


def joined(rows: Rows, seconds: int) -> Rows:
    """Return slice rows in time order, with rows in the same `seconds` merged.

    Sums are added, cumulative sums are the last row's, and the version is the highest: 1 without an
    amendment. Starts 300, 310, 600 and 300 seconds -> rows 0 and 1 together, row 2.
    """
    starts = rows["start_s"] // seconds * seconds
    begins = np.flatnonzero(np.append(True, starts[1:] != starts[:-1]))
    coarse: Rows = rows[np.append(begins[1:], len(rows)) - 1]
    coarse["start_s"], coarse["seconds"] = starts[begins], seconds
    for name in ("good", "total", "observed", "expected"):
        coarse[name] = np.add.reduceat(rows[name], begins)
    coarse["version"] = np.maximum.reduceat(rows["version"], begins)
    return coarse
