"""What all drills showed, as a table and as JSON. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from stepwatch.cli import text

from .chain import Row

_HEAD = ("drill", "incident", "because of", "rank", "as", "found", "arrived", "over", "")


def table(rows: Sequence[Row], healthy_seconds: float, healthy_notifications: int) -> str:
    """The scoreboard: a row a drill, then how many were right and how long it took."""
    lines = [_line(row) for row in rows]
    arrived = [row.paged_seconds for row in rows if not math.isnan(row.paged_seconds)]
    right = sum(not row.problems for row in rows)
    summary = [f"{right} of {len(rows)} as they should be"]
    if arrived:
        tenth = sorted(arrived)[math.ceil(0.9 * len(arrived)) - 1]
        summary.append(
            f"fault to notification: p50 {statistics.median(arrived):.0f} s, p90 {tenth:.0f} s"
        )
    if healthy_seconds:
        minutes = healthy_seconds / 60
        summary.append(f"{healthy_notifications} notifications in {minutes:.0f} healthy minutes")
    return "\n".join([text.table(_HEAD, lines, "", len(_HEAD)), "", *summary])


def document(
    rows: Sequence[Row], healthy_seconds: float, healthy_notifications: int
) -> dict[str, Any]:
    """The same for programs; what never came is null."""
    return {
        "drills": [
            {
                name: None if isinstance(value, float) and math.isnan(value) else value
                for name, value in row._asdict().items()
            }
            for row in rows
        ],
        "healthy_seconds": healthy_seconds,
        "healthy_notifications": healthy_notifications,
    }


def _line(row: Row) -> tuple[str, ...]:
    rank = str(row.rank) if row.rank >= 0 else "-"
    times = (
        _seconds(each) for each in (row.found_seconds, row.paged_seconds, row.resolved_seconds)
    )
    verdict = "; ".join(row.problems) or "ok"
    return (row.name, row.kind, row.cause or "-", rank, row.severity or "-", *times, verdict)


def _seconds(value: float) -> str:
    return "never" if math.isnan(value) else f"{value:.0f} s"
