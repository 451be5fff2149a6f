"""The table of faults that end, as words and as data."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .row import Row

_HEAD = (
    f"{'place':<9} {'times':>5} {'lasts':>5} {'opened':>7} {'ended':>7} {'incidents':>9} "
    f"{'notices':>7} {'causes':>6} {'price':>6}  untrue at the opening | at the end"
)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text.

    Columns are seconds from the beginning to the first incident and from the end to the last,
    incidents, notices, notices about another cause, and reported over true loss.
    """
    return "\n".join([_HEAD, *map(line, rows), "", *_sums(rows)])


def line(row: Row) -> str:
    """Return one row as text."""
    opening, end = (", ".join(sentences) or "-" for sentences in (row.opening, row.end))
    price = "-" if not row.incidents else f"{row.price:.2f}"
    return (
        f"{row.place:<9} {row.times:>5g} {row.lasts:>5g} {_seconds(row.opened):>7} "
        f"{_seconds(row.ended):>7} {row.incidents:>9} {row.notices:>7} {row.causes:>6} "
        f"{price:>6}  {opening} | {end}"
    )


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else "open" if math.isinf(value) else f"{value:.0f} s"


def _sums(rows: Sequence[Row]) -> list[str]:
    opened = sorted(row.opened for row in rows if not math.isnan(row.opened))
    ended = sorted(row.ended for row in rows if not math.isnan(row.ended))
    sentences = sum(row.incidents for row in rows)
    if not opened:
        return [f"{len(rows)} faults, none named"]
    return [
        f"{len(rows)} faults, {len(opened)} named: opened after {_seconds(_middle(opened))} "
        f"(median; at most {_seconds(opened[-1])}), ended after {_seconds(_middle(ended))} "
        f"(median; at most {_seconds(ended[-1])})",
        f"{sentences} incidents, {sum(row.notices for row in rows)} notices, "
        f"{sum(row.causes for row in rows)} of another cause; untrue numbers: "
        f"{sum(len(row.opening) for row in rows)} at the opening, "
        f"{sum(len(row.end) for row in rows)} at the end",
        f"{sum(row.whole_job for row in rows)} more incidents about the time that all saves take",
    ]


def _middle(values: Sequence[float]) -> float:
    return values[len(values) // 2]
