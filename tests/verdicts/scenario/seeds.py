"""Two disjoint spaces of seeds: one for tuning, one for reports.

A report draws its seeds from the operating system, so they were never seen before. The lowest bit
keeps the two spaces apart, whatever is drawn.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable

_BITS = 40


def report_seed(draw: Callable[[int], int] = secrets.randbits) -> int:
    """Return an odd seed for a report; `draw` returns so many random bits."""
    return draw(_BITS) << 1 | 1


def tuning_seeds(count: int) -> list[int]:
    """Return even seeds for tuning, the same every day."""
    dice = random.Random("tune")
    return [dice.getrandbits(_BITS) << 1 for _ in range(count)]


def is_tuning(seed: int) -> bool:
    """Return whether the seed is for tuning."""
    return seed % 2 == 0
