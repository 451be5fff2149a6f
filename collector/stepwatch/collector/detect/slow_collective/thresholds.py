"""Thresholds of the slow-collective detector, loaded from `thresholds.toml`."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.signals.thresholds import load


class Thresholds(NamedTuple):
    """Thresholds for a slow transfer; see `thresholds.toml`."""

    window_steps: int
    least_steps: int
    least_ratio: float
    least_excess_ratio: float
    certain_ratio: float
    certain_excess_ratio: float
    certain_long_steps: int
    certain_long_seconds: float
    certain_few_steps: int
    certain_few_seconds: float
    related_steps: int
    clearing_bytes_ratio: float
    wait_ratio: float
    certain_wait_ratio: float
    certain_wait_excess_ratio: float
    blocked_ratio: float
    lasting_ratio: float
    lasting_work_ratio: float
    lasting_lost_ratio: float
    lasting_rest_sure: float
    stands_out: float
    elsewhere_seconds: float
    elsewhere_jobs: int
    elsewhere_work_ratio: float
    elsewhere_seen_share: float
    always_share: float
    always_seconds: float
    always_buckets: float
    most_share: float
    most_share_seconds: float


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""
