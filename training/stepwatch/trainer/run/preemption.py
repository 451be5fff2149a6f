"""Preemption: SIGTERM sets a flag that the training loop reads between steps."""

from __future__ import annotations

import signal
import time
from types import FrameType

EXIT_PREEMPTED = 75
"""Exit code after a preemption: EX_TEMPFAIL in sysexits(3), start the job again."""


class StopRequest:
    """Records SIGTERM, by which a scheduler announces that it takes the machine away.

    Args:
        grace_seconds: time that the scheduler allows between SIGTERM and SIGKILL.
    """

    def __init__(self, grace_seconds: float) -> None:
        self.since: float | None = None
        self._grace_seconds = grace_seconds

    def install(self) -> None:
        """Handle SIGTERM from now on; only the main thread may call this."""
        signal.signal(signal.SIGTERM, self._received)

    def remove(self) -> None:
        """Restore the default: SIGTERM ends the process."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    @property
    def is_requested(self) -> bool:
        """Return whether SIGTERM was received."""
        return self.since is not None

    def seconds_left(self) -> float:
        """Return the remaining seconds of the grace period, at least one."""
        spent = time.monotonic() - self.since if self.since is not None else 0.0
        return max(1.0, self._grace_seconds - spent)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.since is None:
            self.since = time.monotonic()
            # A rank that waits for a dead peer never returns to the loop: SIGALRM ends it.
            signal.setitimer(signal.ITIMER_REAL, self._grace_seconds + 1.0)
