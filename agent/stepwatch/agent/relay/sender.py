"""The sending thread: it drains the spool after each written segment."""

from __future__ import annotations

import threading
from collections.abc import Callable

from stepwatch.agent.supervision import SupervisedThread
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.presence import CONNECTING

from .relay import Relay

ASK_SECONDS = 60.0
"""Seconds between format requests while segments are held."""

GREET_SECONDS = 10.0
"""Seconds between availability requests while nothing else is sent."""

RETRY_SECONDS = 3600.0
"""Seconds between retries of segments whose requests failed."""


class Sender:
    """Run `relay` in a supervised thread until `stop`, then a last time for the last segment."""

    def __init__(self, relay: Relay, clock: Clock) -> None:
        self.relay = relay
        self.thread = SupervisedThread("relay", self._run, clock)
        self._stopping = threading.Event()
        self._written = threading.Event()
        self._last_written = threading.Event()
        self._clock = clock
        self._asked_ns = self._retried_ns = self._greeted_ns = clock.monotonic_ns()
        self.after_drain: Callable[[], None] | None = None
        """Called in the thread after the spool is drained; it must not raise."""

    def wake(self) -> None:
        """Announce a written segment."""
        self._written.set()

    def stop(self) -> None:
        """Stop waiting for a collector that does not answer; safe in a signal handler."""
        self._stopping.set()
        self._written.set()

    def finish(self, seconds: float) -> bool:
        """Send the last flush, and return whether the thread ended in time."""
        self._last_written.set()
        return self.thread.join(seconds)

    def _ask_formats(self) -> None:
        """Request the formats periodically while segments are held and nothing is sent."""
        now = self._clock.monotonic_ns()
        if len(self.relay.spool) or not self.relay.spool.held_segments:
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
        """Check at the start, then periodically, whether the collector answers."""
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
        self._last_written.wait()  # else the last segment would wait until an agent runs here again
        self.relay.drain(lambda _: True)
