"""How fast a budget may go before somebody must look, as data, and one that goes as fast."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple


class BurnPair(NamedTuple):
    """`budget_share` of a budget gone within `long_seconds` is worth a `severity`, as long as it
    burns as fast within `short_seconds`, too."""

    severity: str
    budget_share: Decimal
    long_seconds: int
    short_seconds: int


class Burning(NamedTuple):
    """A pair that asks for somebody: the burn `rate` over its long window, beyond its `limit`."""

    pair: BurnPair
    rate: Decimal
    limit: Decimal
