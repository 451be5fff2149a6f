"""The clocks that measure a step."""

from __future__ import annotations

from typing import Literal

StepClock = Literal["device", "host"]
"""Step clock: timing events on the compute stream, or the host's clock."""
DEVICE: StepClock = "device"
HOST: StepClock = "host"
