"""What the agent lets ranks of its node know: that it runs, whom it sends to, what is wrong."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from stepwatch.agent.keys import AttemptKey
from stepwatch.agent.options import AgentOptions
from stepwatch.agent.relay.answers import read_body
from stepwatch.agent.relay.relay import Relay
from stepwatch.signals import presence
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.errors import RingError

logger = logging.getLogger(__name__)

ASK_SECONDS = 5.0
"""Between two questions for the incidents of a job."""


class IncidentCounts:
    """Incidents of the attempts whose rank 0 runs on this node, as the collector counts them."""

    def __init__(self, client: httpx.Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._asked_ns = 0
        self.attempts: frozenset[AttemptKey] = frozenset()
        self.by_job: Mapping[str, int] = {}
        """Replaced as a whole: another thread reads it. A job that is not known is not in it."""

    def ask(self) -> None:
        """Ask once in a while; what the collector does not answer stays unknown."""
        now = self._clock.monotonic_ns()
        if now - self._asked_ns >= ASK_SECONDS * NANOSECONDS:
            self._asked_ns = now
            counts = {key.job: self._count(key) for key in self.attempts}
            self.by_job = {job: count for job, count in counts.items() if count is not None}

    def _count(self, key: AttemptKey) -> int | None:
        try:
            with self._client.stream("GET", "/v1/incidents", params={"job": key.job}) as response:
                body = read_body(response)
            return _of_attempt(json.loads(body), key.attempt)
        except (httpx.HTTPError, ValueError, TypeError, KeyError, RecursionError) as error:
            logger.debug("incidents of %s are unknown: %s", key.job, error)
            return None


def _of_attempt(answer: Any, attempt: int) -> int:
    return sum(item["attempt"] == attempt for item in answer["incidents"])


class Announcement:
    """Keeps the presence file of this agent fresh."""

    def __init__(self, options: AgentOptions, relay: Relay, clock: Clock) -> None:
        self._options = options
        self._relay = relay
        self._clock = clock
        self._written_ns = 0
        self._failed = False
        self.incidents = IncidentCounts(relay.client, clock)

    def follow(self, keys: Iterable[AttemptKey]) -> None:
        """Ask from now on for the incidents of these attempts."""
        self.incidents.attempts = frozenset(keys)

    def update(self) -> None:
        """Write the file if it has become old."""
        now = self._clock.monotonic_ns()
        if now - self._written_ns < presence.EVERY_SECONDS * NANOSECONDS:
            return
        self._written_ns = now
        collector, page = self._options.collector, self._options.page_url
        incident_counts = self.incidents.by_job
        announcement = presence.Presence(
            os.getpid(), collector, page or collector, self._relay.link, now, incident_counts
        )
        try:
            presence.write(self._options.ring_dir, announcement)
        except (OSError, RingError) as error:
            if not self._failed:
                logger.warning("ranks cannot learn that this agent runs: %s", error)
            self._failed = True

    def withdraw(self) -> None:
        """Remove the file: this agent ends."""
        try:
            presence.remove(self._options.ring_dir, os.getpid())
        except OSError as error:
            logger.debug("the presence file stays: %s", error)
