"""The dashboards' inputs from the alerts: thresholds and runbook addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Alert thresholds as panel lines, and each alert's runbook.

    `slowdown_ratio` and `coverage_ratio` are ratios, `stalled_seconds` and `stale_seconds` seconds.
    `failed_checkpoints` counts consecutive failures, `looping_attempts` attempts within half an
    hour. `lag_seconds` is the maximum evaluation time, `page` the collector's page address.
    `runbooks` maps an alert's name to its page address, and `paging` names the alerts that page.
    """

    slowdown_ratio: float
    coverage_ratio: float
    stalled_seconds: float
    stale_seconds: float
    failed_checkpoints: float
    looping_attempts: float
    lag_seconds: float
    page: str
    runbooks: Mapping[str, str]
    paging: frozenset[str]
