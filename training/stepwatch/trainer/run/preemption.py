"""SIGTERM as a flag that the training loop reads between steps."""

from __future__ import annotations

import signal
import time
from types import FrameType


class StopRequest:
    """Set by SIGTERM: the scheduler wants the machine back, and gives a grace period."""

    def __init__(self, grace_seconds: float) -> None:
        self.since: float | None = None
        self._grace_seconds = grace_seconds

    def install(self) -> None:
        """Take SIGTERM over; call it from the main thread, once steps can be trained."""
        signal.signal(signal.SIGTERM, self._received)

    def remove(self) -> None:
        """Let SIGTERM end the process again."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    @property
    def asked(self) -> bool:
        """Whether the signal came."""
        return self.since is not None

    def seconds_left(self) -> float:
        """What is left of the grace period, at least one second."""
        spent = time.monotonic() - self.since if self.since is not None else 0.0
        return max(1.0, self._grace_seconds - spent)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.since is None:
            self.since = time.monotonic()
            # A rank that waits for a dead peer never comes back to the loop: the kernel ends it.
            signal.setitimer(signal.ITIMER_REAL, self._grace_seconds + 1.0)
