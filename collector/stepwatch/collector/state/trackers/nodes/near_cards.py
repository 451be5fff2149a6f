"""The network cards nearest to each rank's device, from the agents' `/sys`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.tracker import Batch, TrackedAttempt, Tracker
from stepwatch.signals.records import Kind, Nearness

MAX_RANKS = 131_072
MAX_CARDS = 16
"""Maximum cards per rank; a node usually has no more cards than devices."""
MAX_ROWS = 1024
_CELLS_A_CARD = 8


class NearCard(NamedTuple):
    """A card nearest to the device at PCI address `device`.

    `names` are the names that a fault may use: mlx5_0, ens5, 0000:5e:00.0.
    """

    device: str
    nearness: Nearness
    names: frozenset[str]


class NearCards(Tracker):
    """TOPOLOGY rows: each rank's newest report."""

    kinds = frozenset({Kind.TOPOLOGY})

    def __init__(self) -> None:
        self.by_rank: dict[int, tuple[NearCard, ...]] = {}

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Apply a batch's rows: a rank's new report replaces its old one."""
        rows = batch.rows(Kind.TOPOLOGY)
        cards_by_rank: dict[int, tuple[NearCard, ...]] = {}
        for row in () if rows is None else rows[:MAX_ROWS]:
            rank = int(row["rank"])
            card = _card(row)
            if card is not None and 0 <= rank < attempt.world:
                cards_by_rank[rank] = (*cards_by_rank.get(rank, ()), card)[:MAX_CARDS]
        for rank, cards in cards_by_rank.items():
            if rank in self.by_rank or len(self.by_rank) < MAX_RANKS:
                self.by_rank[rank] = cards

    @property
    def cells(self) -> int:
        """Cell count."""
        return _CELLS_A_CARD * sum(map(len, self.by_rank.values()))


def _card(row: np.void) -> NearCard | None:
    """Return the card in a row; None if it names none."""
    names = frozenset(filter(None, (_text(row[name]) for name in ("port", "interface", "card"))))
    way = int(row["nearness"])
    if not names or way not in set(Nearness):
        return None
    return NearCard(_text(row["address"]), Nearness(way), names)


def _text(value: bytes) -> str:
    return bytes(value).decode("utf-8", "replace")
