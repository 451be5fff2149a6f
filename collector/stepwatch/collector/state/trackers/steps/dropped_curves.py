"""Dropped steps over time: their lengths, their tokens, and their device-time by cause.

Steps come in bulk, as they are dropped, so that they cost nothing while rows arrive. A span holds
its newest buckets. With 208 bytes a bucket, an attempt of a day has 0.2 MB here, one of sixty days
0.6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.signals.arrays import IntegerMatrix, Integers, Rows, Vector

PACE = np.dtype(
    [
        ("start_s", "<i8"),
        ("first_step", "<i8"),
        ("step", "<i8"),
        ("at", "<f8"),
        ("steps", "<i8"),
        ("seconds", "<f8"),
        ("least", "<f8"),
        ("greatest", "<f8"),
        ("last", "<f8"),
        ("tokens", "<f8"),
        ("token_seconds", "<f8"),
        ("least_rate", "<f8"),
        ("greatest_rate", "<f8"),
        ("last_rate", "<f8"),
    ]
)
"""The steps `first_step` to `step`, the newest of which ended `at` (Unix seconds).

`steps` counts those with a length; `seconds` is the sum of the lengths on the slowest rank, `least`
to `last` are single ones. `tokens` were made in `token_seconds`, which include pauses; the rates
are single steps' tokens per second. NaN is unknown.
"""
SPANS = {10: 360, 60: 360, 300: 288, 900: 384, 3600: 1440}
"""Most buckets by their seconds: an hour, six hours, a day, four days, sixty days."""


class Dropped(NamedTuple):
    """Buckets of one length in time order: `PACE` rows, and microseconds by cause.

    The latter (buckets, causes) are in the order of `slo.waste.CAUSES`.
    """

    rows: Rows
    spent: IntegerMatrix


class DroppedCurves:
    """Buckets by their length in seconds; empty before the first drop."""

    def __init__(self) -> None:
        self.rows: dict[int, Rows] = {}
        self.spent: dict[int, IntegerMatrix] = {}

    def add(self, rows: Rows, spent: IntegerMatrix) -> None:
        """Add the next steps: a row for each, and its microseconds by cause (rows, causes)."""
        if not len(rows):
            return
        for seconds, most in SPANS.items():
            fresh = joined(rows, spent, seconds)
            if seconds in self.rows:
                rows_so_far = np.concatenate([self.rows[seconds], fresh.rows])
                spent_so_far = np.concatenate([self.spent[seconds], fresh.spent])
                fresh = joined(rows_so_far, spent_so_far, seconds)
            self.rows[seconds], self.spent[seconds] = fresh.rows[-most:], fresh.spent[-most:]

    def span(self, seconds: int) -> Dropped | None:
        """Return a copy of the buckets of one length; None without any."""
        if seconds not in self.rows:
            return None
        return Dropped(self.rows[seconds].copy(), self.spent[seconds].copy())


def joined(rows: Rows, spent: IntegerMatrix, seconds: int) -> Dropped:
    """Return buckets of one length; a row belongs to the bucket in which it starts.

    Two steps of 1 s and 3 s in one bucket: a sum of 4 s, from 1 to 3 s.
    """
    starts = rows["start_s"] // seconds * seconds
    order = np.lexsort((rows["step"], starts))
    rows, spent, starts = chosen(rows, order).copy(), spent[order], starts[order]
    begins = np.flatnonzero(np.append(True, starts[1:] != starts[:-1]))
    buckets = rows[np.append(begins[1:], len(rows)) - 1]
    buckets["start_s"] = starts[begins]
    for name, how in _JOINED.items():
        buckets[name] = how.reduceat(rows[name], begins)
    for name in ("last", "last_rate"):
        buckets[name] = _last_known(rows[name], begins)
    return Dropped(buckets, np.add.reduceat(spent, begins, axis=0))


_JOINED = {
    "first_step": np.minimum,
    "step": np.maximum,
    "at": np.maximum,
    **dict.fromkeys(("steps", "seconds", "tokens", "token_seconds"), np.add),
    **dict.fromkeys(("least", "least_rate"), np.fmin),
    **dict.fromkeys(("greatest", "greatest_rate"), np.fmax),
}


def _last_known(values: Vector, begins: Integers) -> Vector:
    """Return each group's last value that is not NaN."""
    places = np.where(np.isnan(values), -1, np.arange(len(values)))
    last = np.maximum.reduceat(places, begins)
    return np.asarray(np.where(last >= 0, values[last], np.nan))
