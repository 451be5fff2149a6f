"""The order of sequences: a function of seed and position alone.

Which rank, worker or restart asks changes nothing: step `s` reads positions `s * batch` up to
`(s + 1) * batch` of one endless sequence of epochs, and each data rank takes its slice of those.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt


@lru_cache(maxsize=2)
def epoch_order(count: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Permutation of `count` sequence numbers for one epoch, int64 of shape (count,).

    Sorting raw Philox words keeps the order equal over numpy releases, which the library's own
    `permutation` does not promise.
    """
    words = np.random.Philox(key=[seed, epoch]).random_raw(count)
    return np.argsort(words, kind="stable").astype(np.int64)


def sequence_numbers(
    step: int, batch: int, part: int, parts: int, count: int, seed: int
) -> list[int]:
    """Sequence numbers that data rank `part` of `parts` reads in `step`.

    `batch` is the sequences of one step over all ranks; `parts` divides it.
    """
    share = batch // parts
    start = step * batch + part * share
    positions = range(start, start + share)
    return [int(epoch_order(count, seed, p // count)[p % count]) for p in positions]
