"""Pipeline stages derived from the rank pairs that exchange tensors, if no rank reports them.

In a pipeline each rank exchanges with the previous and the next stage: the rank pairs form chains,
one per replica, all with the same length. A rank's position in its chain is its stage.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from stepwatch.signals.arrays import SmallIntegers

UNKNOWN_STAGE = -1


def stages_of(pairs: Iterable[tuple[int, int]], world: int) -> SmallIntegers | None:
    """Return each rank's stage (world,) from exchanging pairs; None if they form no pipeline.

        pairs 0-2, 1-3 of 4 ranks       stages 0 0 1 1
        pairs 0-1, 1-2, 2-3             stages 0 1 2 3
        pairs 0-1, 1-2, 2-0             a ring: ranks that pass blocks around are equals

    A chain begins at the end with the lower rank, as frameworks number stages.
    """
    neighbours: dict[int, set[int]] = defaultdict(set)
    for first, second in pairs:
        neighbours[first].add(second)
        neighbours[second].add(first)
    if neighbours.keys() != set(range(world)) or any(
        len(ranks) > 2 for ranks in neighbours.values()
    ):
        return None
    stages: SmallIntegers = np.full(world, UNKNOWN_STAGE, dtype=np.int16)
    lengths = set()
    for end in sorted(rank for rank, ranks in neighbours.items() if len(ranks) == 1):
        if stages[end] == UNKNOWN_STAGE:
            chain = _chain_from(end, neighbours)
            stages[chain] = range(len(chain))
            lengths.add(len(chain))
    return stages if len(lengths) == 1 and (stages != UNKNOWN_STAGE).all() else None


def _chain_from(end: int, neighbours: dict[int, set[int]]) -> list[int]:
    chain, visited = [end], {end}
    while following := neighbours[chain[-1]] - visited:
        chain.append(following.pop())
        visited.add(chain[-1])
    return chain
