"""Thresholds of the hang detector, loaded from `thresholds.toml`."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.signals.thresholds import load


class Thresholds(NamedTuple):
    """Thresholds for a stalled job; see `thresholds.toml`."""

    least_seconds: float
    step_multiple: float
    first_step_seconds: float
    early_seconds: float
    legal_seconds: float
    marked_seconds: float
    pause_multiple: float
    pause_seconds: float
    heartbeat_seconds: float
    held_seconds: float
    lost_node_seconds: float
    late_seconds: float
    order_steps: int
    least_order_steps: int
    missed_flushes: float


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""
