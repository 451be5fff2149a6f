"""Supervised threads: a failure is counted and logged, and the thread restarts."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

from stepwatch.signals.clock import NANOSECONDS, Clock

logger = logging.getLogger(__name__)

LONGEST_DELAY_SECONDS = 60.0


class SupervisedThread:
    """A daemon thread that `check` restarts after an error.

    The first restart is immediate, later ones wait 1, 2, 4, ... seconds, at most
    `LONGEST_DELAY_SECONDS`. The delay resets when a thread has worked for longer than that. Python
    prints the traceback to stderr; `check` logs and counts the error.
    """

    def __init__(self, name: str, target: Callable[[], None], clock: Clock) -> None:
        self.name = name
        self.failures = 0
        self._target = target
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._delay = 0.0
        self._started_ns = 0
        self._restart_ns: int | None = None

    def start(self) -> None:
        """Start the thread."""
        self._error = None
        self._restart_ns = None
        self._started_ns = self._clock.monotonic_ns()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # no resources for a thread: `check` tries again
            self._error = error

    def check(self) -> None:
        """Restart the thread if it ended with an error; call this regularly."""
        if self._thread is None or self._thread.is_alive() or self._error is None:
            return
        now = self._clock.monotonic_ns()
        if self._restart_ns is None:
            self._restart_ns = now + round(self._next_delay(now) * NANOSECONDS)
            self.failures += 1
            logger.error(
                "the %s thread ended with %r; it starts again in %.0f s",
                self.name,
                self._error,
                (self._restart_ns - now) / NANOSECONDS,
            )
        if now >= self._restart_ns:
            self.start()

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def started(self) -> bool:
        """Whether the thread was ever started."""
        return self._thread is not None

    def join(self, seconds: float | None) -> bool:
        """Wait for the thread to end, without limit if None; return whether it has ended."""
        if self._thread is not None:
            self._thread.join(seconds)
        return not self.is_alive()

    def _run(self) -> None:
        try:
            self._target()
        finally:
            self._error = sys.exc_info()[1]

    def _next_delay(self, now_ns: int) -> float:
        if now_ns - self._started_ns > LONGEST_DELAY_SECONDS * NANOSECONDS:
            self._delay = 0.0
        delay = self._delay
        self._delay = min(max(1.0, 2 * delay), LONGEST_DELAY_SECONDS)
        return delay
