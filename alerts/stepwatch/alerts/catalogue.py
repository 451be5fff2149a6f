"""All alerts, in the order in which they are written."""

from __future__ import annotations

from . import hang, straggler, telemetry
from .spec import Alert

ALERTS: tuple[Alert, ...] = (hang.ALERT, straggler.ALERT, telemetry.ALERT)
"""Every alert that stepwatch ships."""
