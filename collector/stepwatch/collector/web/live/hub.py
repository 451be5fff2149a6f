"""All event streams: who is told, when the jobs are read, and how many streams there may be."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.concurrency import run_in_threadpool

from stepwatch.collector.runtime.service import Service
from stepwatch.signals import names

from .feed import Feed
from .log import FROM_START, EventLog
from .topics import Topics, joined

logger = logging.getLogger(__name__)

MOST_STREAMS = 1000
"""Maximum number of open streams; a stream holds no thread and about 30 KiB."""
MOST_JOBS = 10_000
"""Jobs with events, about 2 kB each: without a stream on the fleet, old ones stay."""
READING_SECONDS = 0.5
"""Shortest time between two readings of the jobs, whatever the pace of evaluations."""
UNTOLD_SECONDS = 5.0
"""Time without an evaluation after which the jobs are read all the same: answers become stale."""


class Subscription:
    """One stream's topics and position. `woken` is set if there may be something to send.

    `ready`: a reading covered the topics. `is_over`: a reading failed, and the stream ends.
    """

    def __init__(self, topics: Topics, position: int) -> None:
        self.topics, self.position = topics, position
        self.woken = asyncio.Event()
        self.ready = self.is_over = False


class Hub:
    """Open streams; the event loop's thread uses it. Without streams it reads nothing.

    A slow client costs nothing: events wait in the log, which is bounded, and not with a stream.
    """

    def __init__(self, service: Service, most: int = MOST_STREAMS) -> None:
        self.is_closed = False
        self.log = EventLog()
        self._service = service
        self._most = min(most, MOST_STREAMS)
        self._feed = Feed(service)
        self._subscriptions: set[Subscription] = set()
        self._refused = 0
        self._next_wake_s = 0.0
        """Loop time at which all streams are woken without an event: they send their beat."""
        self._due = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    def refuses(self) -> bool:
        """Return whether there is no room for another stream, and count a refusal."""
        refuses = self.is_closed or len(self._subscriptions) >= self._most
        self._refused += refuses
        return refuses

    def enter(self, topics: Topics, position: int = FROM_START) -> Subscription:
        """Add a stream that has all events up to a position."""
        subscription = Subscription(topics, position)
        self._subscriptions.add(subscription)
        self._due.set()
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_all(asyncio.get_running_loop()))
            self._reading.add_done_callback(self._read_failed)
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Remove a stream; without any, no job is read."""
        self._subscriptions.discard(subscription)
        if not self._subscriptions:
            self._due.set()

    def text_for(self, subscription: Subscription) -> bytes:
        """Return a stream's next events, empty without any, and move it on."""
        if not subscription.ready:
            return b""
        text = self.log.since(subscription.topics, subscription.position)
        subscription.position = self.log.position
        return text

    def close(self) -> None:
        """End all streams, and refuse new ones."""
        self.is_closed = True
        self._wake()

    def _wake(self) -> None:
        for subscription in self._subscriptions:
            subscription.woken.set()

    async def _read_all(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the jobs after each round of evaluations, until the last stream leaves."""

        def told() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._due.set)

        self._service.when_evaluated = told
        try:
            while self._subscriptions:
                self._due.clear()
                await self._read()
                await asyncio.sleep(READING_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(UNTOLD_SECONDS):
                        await self._due.wait()
        finally:
            self._service.when_evaluated = _nothing

    def _read_failed(self, reading: asyncio.Task[None]) -> None:
        """End all streams if the reading raised: their clients come again, and start another."""
        error = None if reading.cancelled() else reading.exception()
        if error is not None:
            logger.error("event streams end: the jobs cannot be read", exc_info=error)
            for subscription in self._subscriptions:
                subscription.is_over = True
            self._wake()

    def _begin_again(self) -> None:
        """Forget all events; open streams get all fields again, and older cursors a resync."""
        self._feed, self.log = Feed(self._service), EventLog()
        for subscription in self._subscriptions:
            subscription.position = FROM_START

    async def _read(self) -> None:
        if self._feed.size > MOST_JOBS:
            self._begin_again()
        covered = [*self._subscriptions]
        topics = joined(subscription.topics for subscription in covered)
        has_events = self.log.add(await run_in_threadpool(self._feed.read, topics))
        for subscription in covered:
            if not subscription.ready:
                subscription.ready = True
                subscription.woken.set()
        now = asyncio.get_running_loop().time()
        if has_events or now >= self._next_wake_s:
            self._next_wake_s = now + UNTOLD_SECONDS
            self._wake()

    def collect(self) -> Iterator[Metric]:
        """Yield the numbers of open and refused streams."""
        is_open, refused = names.COLLECTOR_EVENT_STREAMS, names.COLLECTOR_EVENT_STREAMS_REFUSED
        yield GaugeMetricFamily(is_open.name, is_open.help, value=len(self._subscriptions))
        yield CounterMetricFamily(refused.name, refused.help, value=self._refused)


def _nothing() -> None:
    """Do nothing: no stream is open."""
