"""Parts of a job's log that could not be read: nothing is known of what was sent in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MAX_UNREAD = 64
"""Parts that are kept apart; what comes beyond joins the newest one."""


class Unread(NamedTuple):
    """Positions `first` to `last` of a log with so many segments that could not be read.

    What they hold happened between two moments (Unix seconds): after the newest step that is known
    from before, and before the last of them came.
    """

    first: int
    last: int
    segments: int
    from_s: float
    until_s: float

    @property
    def nbytes(self) -> int:
        """Bytes of rows: none."""
        return 0

    def joined(self, later: Unread) -> Unread:
        """Both as one part, with what lies between them."""
        return Unread(
            self.first,
            later.last,
            self.segments + later.segments,
            min(self.from_s, later.from_s),
            max(self.until_s, later.until_s),
        )


def with_part(parts: Sequence[Unread], part: Unread) -> list[Unread]:
    """Known parts and one behind them; neighbours are one.

    Of 1 to 10 and 21 to 30, another one of 31 to 40 makes 1 to 10 and 21 to 40.
    """
    if parts and (part.first <= parts[-1].last + 1 or len(parts) >= MAX_UNREAD):
        return [*parts[:-1], parts[-1].joined(part)]
    return [*parts, part]


def unread_share(parts: Sequence[Unread], from_s: float, until_s: float) -> float:
    """Share of the time between two moments of which nothing is known, 0 to 1.

    Of 100 s with parts at 10 to 30 and 20 to 40 it is 0.3.
    """
    lost, covered_s = 0.0, from_s
    for part in sorted(parts, key=lambda part: part.from_s):
        end = min(part.until_s, until_s)
        lost += max(0.0, end - max(part.from_s, covered_s))
        covered_s = max(covered_s, end)
    return lost / (until_s - from_s) if until_s > from_s else 0.0
