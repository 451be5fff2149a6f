"""The presence file for local ranks: the agent runs, its collector, and open incident counts."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

from stepwatch.agent.keys import AttemptKey
from stepwatch.agent.options import AgentOptions
from stepwatch.agent.relay.answers import read_body
from stepwatch.agent.relay.relay import Relay
from stepwatch.signals import presence
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.errors import RingError
from stepwatch.signals.http import Client, HttpError

logger = logging.getLogger(__name__)

ASK_SECONDS = 5.0
"""Seconds between two requests for a job's incidents."""


class IncidentCounts:
    """Incident counts, from the collector, for attempts whose rank 0 runs on this node."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._asked_ns = 0
        self.attempts: frozenset[AttemptKey] = frozenset()
        self.by_job: Mapping[str, int] = {}
        """Incident count by job; unknown jobs are missing. Another thread reads it: replace, never
        mutate."""

    def ask(self) -> None:
        """Request the counts every `ASK_SECONDS`; a count without an answer stays unknown."""
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
        except (HttpError, ValueError, TypeError, KeyError, RecursionError) as error:
            logger.debug("incidents of %s are unknown: %s", key.job, error)
            return None


def _of_attempt(answer: Any, attempt: int) -> int:
    return sum(item["attempt"] == attempt for item in answer["incidents"])


class Announcement:
    """Keep this agent's presence file fresh."""

    def __init__(self, options: AgentOptions, relay: Relay, clock: Clock) -> None:
        self._options = options
        self._relay = relay
        self._clock = clock
        self._written_ns = 0
        self._written: tuple[str, Mapping[str, int]] | None = None
        self._failed = False
        self.incidents = IncidentCounts(relay.client, clock)

    def follow(self, keys: Iterable[AttemptKey]) -> None:
        """Set the attempts whose incidents are requested."""
        self.incidents.attempts = frozenset(keys)

    def update(self) -> None:
        """Write the file if it says something new or is older than `presence.EVERY_SECONDS`."""
        now, news = self._clock.monotonic_ns(), (self._relay.link, self.incidents.by_job)
        is_due = now - self._written_ns >= presence.EVERY_SECONDS * NANOSECONDS
        if news == self._written and not is_due:
            return
        self._written_ns, self._written = now, news
        collector, page = self._options.collector, self._options.page_url
        announcement = presence.Presence(
            os.getpid(), collector, page or collector, news[0], now, news[1]
        )
        try:
            presence.write(self._options.ring_dir, announcement)
        except (OSError, RingError) as error:
            if not self._failed:
                logger.warning("ranks cannot learn that this agent runs: %s", error)
            self._failed = True

    def withdraw(self) -> None:
        """Remove the file when this agent ends."""
        try:
            presence.remove(self._options.ring_dir, os.getpid())
        except OSError as error:
            logger.debug("the presence file stays: %s", error)
