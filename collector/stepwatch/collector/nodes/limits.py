"""The values in `thresholds.toml`."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.signals.thresholds import load


class Limits(NamedTuple):
    """Limits for stale nodes and repeat offenders; see `thresholds.toml`."""

    silent_seconds: float
    rejoin_seconds: float
    week_days: int
    month_days: int
    offender_week: int
    offender_month: int


LIMITS = load(__package__, Limits)
"""The shipped values."""
