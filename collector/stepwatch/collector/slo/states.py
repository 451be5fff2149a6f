"""The states of an SLO, and when it has none; alerts and dashboards name them without a store."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum

COVERAGE_FLOOR = Decimal("0.9")
"""Below this share of expected records nothing is evaluated: an evaluation is frozen."""


class SloState(Enum):
    """The state of an SLO. `FROZEN` and `UNKNOWN` neither fire nor resolve anything."""

    OK = "ok"
    BURNING = "burning"
    EXHAUSTED = "exhausted"
    FROZEN = "frozen"
    UNKNOWN = "unknown"
