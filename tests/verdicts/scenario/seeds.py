"""Two spaces of seeds that never meet: one to tune on, one to report from.

A report draws its seeds from the operating system when it is made: nobody has seen them before.
The lowest bit keeps the two apart, whatever is drawn.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable

_BITS = 40


def report_seed(draw: Callable[[int], int] = secrets.randbits) -> int:
    """A seed to report from, odd; `draw` returns so many random bits."""
    return draw(_BITS) << 1 | 1


def tuning_seeds(count: int) -> list[int]:
    """Seeds to tune on, the same every day; even."""
    dice = random.Random("tune")
    return [dice.getrandbits(_BITS) << 1 for _ in range(count)]


def is_tuning(seed: int) -> bool:
    """Whether it is one to tune on."""
    return seed % 2 == 0
