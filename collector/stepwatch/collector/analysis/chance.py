"""How likely something is by chance alone."""

from __future__ import annotations

import math
from functools import lru_cache


@lru_cache(maxsize=4096)
def at_least(count: int, trials: int, rate: float) -> float:
    """Probability of `count` or more successes in `trials` at `rate` each: the binomial tail."""
    return sum(
        math.comb(trials, number) * rate**number * (1 - rate) ** (trials - number)
        for number in range(count, trials + 1)
    )
