"""The thread that sends: it drains the spool whenever a segment was written."""

from __future__ import annotations

import threading
from collections.abc import Callable

from stepwatch.agent.supervision import SupervisedThread
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.presence import CONNECTING

from .relay import Relay

ASK_SECONDS = 60.0
"""Between two questions for the formats that the collector reads, while segments are held."""

GREET_SECONDS = 10.0
"""Between two questions whether the collector answers, while nothing is sent that would show it."""

RETRY_SECONDS = 3600.0
"""Between two tries of segments that were held because requests with them failed."""


class Sender:
    """Runs `relay` in a supervised thread until `stop`, then once more for the last segment."""

    def __init__(self, relay: Relay, clock: Clock) -> None:
        self.relay = relay
        self.thread = SupervisedThread("relay", self._run, clock)
        self._stopping = threading.Event()
        self._written = threading.Event()
        self._last_written = threading.Event()
        self._clock = clock
        self._asked_ns = self._retried_ns = self._greeted_ns = clock.monotonic_ns()
        self.after_drain: Callable[[], None] | None = None
        """Called in the thread after everything was sent; it must not raise."""

    def wake(self) -> None:
        """Say that a segment was written."""
        self._written.set()

    def stop(self) -> None:
        """Give up waiting for a collector that does not answer; safe in a signal handler."""
        self._stopping.set()
        self._written.set()

    def finish(self, seconds: float) -> bool:
        """Send what the last flush wrote; returns whether the thread ended in time."""
        self._last_written.set()
        return self.thread.join(seconds)

    def _ask_formats(self) -> None:
        """Ask once in a while if segments are held and none is sent that would bring the answer."""
        now = self._clock.monotonic_ns()
        if len(self.relay.spool) or not self.relay.spool.held:
            self._asked_ns = now
        elif now - self._asked_ns >= ASK_SECONDS * NANOSECONDS:
            self._asked_ns = now
            self.relay.ask_formats()

    def _retry_failed(self) -> None:
        now = self._clock.monotonic_ns()
        if now - self._retried_ns >= RETRY_SECONDS * NANOSECONDS:
            self._retried_ns = now
            self.relay.retry_failed()

    def _greet(self) -> None:
        """Ask at the start, then once in a while, whether the collector answers."""
        now = self._clock.monotonic_ns()
        due = now - self._greeted_ns >= GREET_SECONDS * NANOSECONDS
        if len(self.relay.spool):
            self._greeted_ns = now
        elif due or self.relay.link == CONNECTING:
            self._greeted_ns = now
            self.relay.ask_formats()

    def _run(self) -> None:
        self._greet()
        while not self._stopping.is_set():
            self._written.wait(1.0)
            self._written.clear()
            self._ask_formats()
            self._retry_failed()
            self.relay.drain(self._stopping.wait)
            self._greet()
            if self.after_drain is not None:
                self.after_drain()
        self._last_written.wait()  # or the last segment would stay until an agent runs here again
        self.relay.drain(lambda _: True)
