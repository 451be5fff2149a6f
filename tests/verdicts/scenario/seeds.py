"""Two spaces of seeds that never meet: one to tune on, one to report from.

A report draws its seeds from the day: nobody has seen them before. The lowest bit keeps the two
apart, whatever is drawn.
"""

from __future__ import annotations

import random
from datetime import date

_BITS = 40


def report_seeds(count: int, day: date) -> list[int]:
    """The seeds of the report of a day; odd."""
    dice = random.Random(f"report {day.isoformat()}")
    return [dice.getrandbits(_BITS) << 1 | 1 for _ in range(count)]


def tuning_seeds(count: int) -> list[int]:
    """Seeds to tune on, the same every day; even."""
    dice = random.Random("tune")
    return [dice.getrandbits(_BITS) << 1 for _ in range(count)]


def is_tuning(seed: int) -> bool:
    """Whether it is one to tune on."""
    return seed % 2 == 0
