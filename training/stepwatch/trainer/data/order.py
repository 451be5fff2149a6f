"""The sequence order: a function of seed and position only, the same on every mesh.

Step `s` reads positions `s * batch` up to `(s + 1) * batch` in an endless row of epochs; each data
rank reads its slice of these positions.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stepwatch.signals.arrays import Integers


@lru_cache(maxsize=2)
def epoch_order(count: int, seed: int, epoch: int) -> Integers:
    """Return one epoch's permutation of `count` sequence numbers, int64 with shape (count,).

    The order follows raw Philox words: words [7, 3, 5] give [1, 2, 0]. It stays equal over
    numpy releases; numpy does not promise this for `permutation`.
    """
    words = np.random.Philox(key=[seed, epoch]).random_raw(count)
    return np.argsort(words, kind="stable").astype(np.int64)


def sequence_numbers(
    step: int, batch: int, part: int, parts: int, count: int, seed: int
) -> list[int]:
    """Return the sequence numbers that data rank `part` of `parts` reads in `step`.

    `batch` counts the sequences in one step over all ranks; `parts` divides it.
    """
    size = batch // parts
    start = step * batch + part * size
    positions = range(start, start + size)
    return [int(epoch_order(count, seed, p // count)[p % count]) for p in positions]
