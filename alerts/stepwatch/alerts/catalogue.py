"""All alerts, in output order."""

from __future__ import annotations

from .families import (
    broken,
    budget,
    checkpoint,
    hang,
    non_finite,
    restart,
    slow,
    straggler,
    telemetry,
)
from .itself import agent, collector, watchdog
from .spec import Alert

ALERTS: tuple[Alert, ...] = (
    hang.ALERT,
    straggler.ALERT,
    telemetry.ALERT,
    *restart.ALERTS,
    checkpoint.ALERT,
    *budget.ALERTS,
    non_finite.ALERT,
    *broken.ALERTS,
    *slow.ALERTS,
    collector.ALERT,
    agent.ALERT,
    watchdog.ALERT,
)
"""Every alert that stepwatch ships."""
