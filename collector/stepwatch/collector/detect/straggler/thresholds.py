"""Thresholds of the straggler detector, loaded from `thresholds.toml`."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.signals.thresholds import load


class Thresholds(NamedTuple):
    """Thresholds for a slow rank; see `thresholds.toml`."""

    window_steps: int
    least_steps: int
    certain_steps: int
    certain_long_steps: int
    certain_long_seconds: float
    certain_few_steps: int
    certain_few_seconds: float
    certain_ratio: float
    certain_excess_ratio: float
    certain_alone_seconds: float
    certain_alone_ratio: float
    certain_alone_excess_ratio: float
    least_ratio: float
    least_device_ratio: float
    least_excess_ratio: float
    run_queue_share: float
    run_queue_pressure: float
    pressed_share: float
    usual_cpu_ratio: float
    launch_share: float
    intermittent_spans: tuple[int, ...]
    intermittent_usual_quantile: float
    intermittent_ratio: float
    intermittent_excess_ratio: float
    intermittent_episodes: int
    intermittent_gap: float
    intermittent_chance: float
    intermittent_usual_rate: float
    intermittent_peers_rate: float
    false_alarms_a_day: float
    least_lost_ratio: float
    least_lost_low: float
    least_lost_unsure: float
    least_log_over: float
    most_costly: int
    usual_long_lost: float
    most_usual_long: float
    least_log_among_peers: float
    least_log_alone: float
    fewest_stalls: int
    loader_share: float
    stalls_of_data: float
    least_log_stalls: float


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""
