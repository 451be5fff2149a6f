"""Rows in which a rank occurs more than once, taken apart so that numpy takes each rank once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from stepwatch.signals.arrays import Integers


def turns(ranks: np.ndarray[tuple[int], np.dtype[Any]]) -> Iterator[Integers]:
    """Positions of the first row of each rank, then those of the second, ..., each in order.

    Ranks 4, 7, 4: positions 0, 1, then 2.
    """
    if (np.diff(ranks) > 0).all():  # each rank once, as agents usually send them
        if len(ranks):
            yield np.arange(len(ranks))
        return
    order = np.argsort(ranks, kind="stable")
    begins = np.diff(ranks[order], prepend=ranks[order[:1]] - 1) != 0
    firsts = np.flatnonzero(begins)
    turn = np.empty(len(ranks), dtype=np.int64)
    turn[order] = np.arange(len(ranks)) - firsts[np.cumsum(begins) - 1]
    by_turn = np.argsort(turn, kind="stable")
    yield from np.split(by_turn, np.flatnonzero(np.diff(turn[by_turn])) + 1)
