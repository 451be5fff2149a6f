"""Loads the detectors' thresholds from `thresholds.toml`, where each has its reason."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import NamedTuple


class StragglerThresholds(NamedTuple):
    """When a rank is slow; see `thresholds.toml`."""

    window_steps: int
    least_steps: int
    least_ratio: float
    least_excess_ratio: float
    warmup_steps: int
    run_queue_share: float


class HangThresholds(NamedTuple):
    """When a job stands still; see `thresholds.toml`."""

    least_seconds: float
    step_multiple: float
    first_step_seconds: float
    pause_seconds: float
    heartbeat_seconds: float


class TelemetryThresholds(NamedTuple):
    """When we are blind; see `thresholds.toml`."""

    least_seconds: float


class Thresholds(NamedTuple):
    """All of them."""

    straggler: StragglerThresholds
    hang: HangThresholds
    telemetry: TelemetryThresholds


@cache
def load() -> Thresholds:
    """Read the file that comes with the package."""
    text = resources.files(__package__).joinpath("thresholds.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    return Thresholds(
        StragglerThresholds(**tables["straggler"]),
        HangThresholds(**tables["hang"]),
        TelemetryThresholds(**tables["telemetry"]),
    )
