"""Inputs of the dashboards from the alerts: thresholds, and addresses of runbooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Lines drawn on panels, each the threshold of an alert, and the runbook of each alert.

    `slowdown_ratio` and `coverage_ratio` are ratios, `stalled_seconds` and `stale_seconds` seconds;
    `failed_checkpoints` counts failures in a row, `looping_attempts` attempts within half an hour;
    `lag_seconds` is how long an evaluation may take; `page` is the address of the collector's page;
    `runbooks` maps an alert's name to the address of its page; `paging` names the alerts that page.
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
