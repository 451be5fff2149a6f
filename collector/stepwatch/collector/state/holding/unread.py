"""Unreadable parts of a job's log: their content is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MAX_UNREAD = 64
"""Maximum number of separate parts; later parts join the newest one."""


class Unread(NamedTuple):
    """Positions `first` to `last` of a log, with `segments` unreadable segments.

    Their content happened between two moments (Unix seconds): after the newest known earlier step,
    and before the last segment arrived.
    """

    first: int
    last: int
    segments: int
    from_s: float
    until_s: float

    @property
    def nbytes(self) -> int:
        """Row bytes: none."""
        return 0

    def joined(self, later: Unread) -> Unread:
        """Return both parts as one, including the gap between them."""
        return Unread(
            self.first,
            later.last,
            self.segments + later.segments,
            min(self.from_s, later.from_s),
            max(self.until_s, later.until_s),
        )


def with_part(parts: Sequence[Unread], part: Unread) -> list[Unread]:
    """Return the parts plus a new last one; adjacent parts are merged.

    1 to 10 and 21 to 30, plus 31 to 40: 1 to 10 and 21 to 40.
    """
    if parts and (part.first <= parts[-1].last + 1 or len(parts) >= MAX_UNREAD):
        return [*parts[:-1], parts[-1].joined(part)]
    return [*parts, part]


def unread_share(parts: Sequence[Unread], from_s: float, until_s: float) -> float:
    """Return the unknown share of the time between two moments, 0 to 1.

    100 s with parts at 10 to 30 and 20 to 40: 0.3.
    """
    lost, covered_s = 0.0, from_s
    for part in sorted(parts, key=lambda part: part.from_s):
        end = min(part.until_s, until_s)
        lost += max(0.0, end - max(part.from_s, covered_s))
        covered_s = max(covered_s, end)
    return lost / (until_s - from_s) if until_s > from_s else 0.0
