"""Split rows with repeated ranks, so that each numpy call sees each rank once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from stepwatch.signals.arrays import Integers

_REMEMBERED_ROWS = 1024
"""Above this size a cache lookup takes as long as the computation."""


def turns(ranks: np.ndarray[tuple[int], np.dtype[Any]]) -> Iterable[Integers]:
    """Return the positions of each rank's first row, then of each rank's second row, and so on.

    Ranks 4, 7, 4: positions 0, 1, then 2. The arrays are cached and read-only: agents send the same
    ranks each time, and several trackers ask.
    """
    if len(ranks) > _REMEMBERED_ROWS:
        return _turns(ranks)
    return _remembered(ranks.tobytes(), ranks.dtype)


@lru_cache(maxsize=256)
def _remembered(ranks: bytes, dtype: np.dtype[Any]) -> tuple[Integers, ...]:
    positions = tuple(_turns(np.frombuffer(ranks, dtype=dtype)))
    for turn in positions:
        turn.setflags(write=False)
    return positions


def newest_of_each(
    ranks: np.ndarray[tuple[int], np.dtype[Any]], most: int
) -> tuple[Integers, Integers]:
    """Return the positions (rows,) of each rank's last `most` rows, in order.

    The second array (ranks,) is each rank's number of earlier rows. Ranks 1, 0, 1, 1 and at most
    two: positions 1, 2, 3; none for rank 0, one for rank 1.
    """
    counts = np.bincount(ranks)
    skipped = np.maximum(counts - most, 0)
    if not skipped.any():
        return np.arange(len(ranks)), skipped
    order = np.argsort(ranks, kind="stable")
    place = np.arange(len(ranks)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(order[place >= skipped[ranks[order]]]), skipped


def _turns(ranks: np.ndarray[tuple[int], np.dtype[Any]]) -> Iterator[Integers]:
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
