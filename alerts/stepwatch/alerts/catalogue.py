"""All alerts, in the order in which they are written."""

from __future__ import annotations

from . import broken, budget, checkpoint, hang, restart, slow, straggler, telemetry
from .spec import Alert

ALERTS: tuple[Alert, ...] = (
    hang.ALERT,
    straggler.ALERT,
    telemetry.ALERT,
    restart.ALERT,
    checkpoint.ALERT,
    *budget.ALERTS,
    *broken.ALERTS,
    *slow.ALERTS,
)
"""Every alert that stepwatch ships."""
