"""Burn pairs: the speed of budget loss that needs an operator, and pairs that exceed it."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple


class BurnPair(NamedTuple):
    """A burn alert: `budget_share` of a budget lost within `long_seconds` has a `severity`.

    The budget must burn as fast within `short_seconds`, too.
    """

    severity: str
    budget_share: Decimal
    long_seconds: int
    short_seconds: int


class Burning(NamedTuple):
    """A firing pair: the burn `rate` over its long window, above its `limit`."""

    pair: BurnPair
    rate: Decimal
    limit: Decimal
