"""SLO states; alerts and dashboards name them without a store."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum

COVERAGE_FLOOR = Decimal("0.9")
"""Below this share of expected records the evaluation is frozen."""


class SloState(Enum):
    """The state of an SLO. `FROZEN`, `UNKNOWN` and `TOO_EARLY` fire and resolve nothing."""

    OK = "ok"
    BURNING = "burning"
    EXHAUSTED = "exhausted"
    FROZEN = "frozen"
    UNKNOWN = "unknown"
    TOO_EARLY = "too-early"
    """There is too little evidence to evaluate the budget."""


TOO_EARLY_WORDS = "too early"
