"""Limits above which a host condition becomes a fact (`thresholds.toml`)."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.signals.thresholds import load


class Thresholds(NamedTuple):
    """Limits for host conditions; see `thresholds.toml`."""

    window_seconds: float
    least_throttled_ratio: float
    least_failed_compactions: float
    least_available_ratio: float
    least_missed_huge_pages: float
    least_missed_ratio: float
    blocked_seconds: float
    zombie_seconds: float


LIMITS = load(__package__, Thresholds)
"""The shipped limits."""
