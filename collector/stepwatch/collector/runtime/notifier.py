"""Delivers what the outbox holds to one URL, until it is taken."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import sqlalchemy as sa

from stepwatch.collector.incidents.model import OPEN
from stepwatch.collector.incidents.notices import CHANGED_CAUSE, OPENED
from stepwatch.collector.store.outage import Outage
from stepwatch.collector.store.outbox import OVER, REFUSED, Claimed, Outbox
from stepwatch.signals import places

logger = logging.getLogger(__name__)

KEY_HEADER = "Idempotency-Key"
POLL_SECONDS = 1.0
AT_ONCE = 20
ANSWER_SECONDS = 2.5
"""How long a receiver has from the connection to the whole head of its answer: all that is claimed
at once is sent before others may try."""
LATE_SECONDS = 3600.0
"""A notice that is sent later says so, and is not sent if its incident is over."""
_WORTH_ANOTHER_TRY = (408, 425, 429)

Post = Callable[[str, bytes, Mapping[str, str]], int]
"""Sends a body with headers to a URL; returns the status of the answer."""


def post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Send over HTTP, following no redirection; the body of the answer is not read.

    Raises:
        httpx.HTTPError: nobody answered.
        TimeoutError: there was no whole answer in time.
    """
    return asyncio.run(_post(url, body, headers))


async def _post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    # httpx has limits for each read alone: an answer that comes byte by byte would never end.
    async with (
        asyncio.timeout(ANSWER_SECONDS),
        httpx.AsyncClient(timeout=None, trust_env=places.may_use_proxy(url)) as client,
        client.stream("POST", url, content=body, headers=dict(headers)) as answer,
    ):
        return answer.status_code


class Notifier:
    """Sends each notice by POST as JSON, with its key as a header; 2xx says that it was taken.

    Another answer from 400 to 499 says that it never will be; anything else is tried again.
    `counts` holds the notices of the store by state, `given_up` those that are never sent by why.
    """

    def __init__(self, outbox: Outbox, url: str, post: Post = post) -> None:
        self.counts: dict[str, int] = {}
        self.given_up: dict[str, int] = {}
        self._outbox = outbox
        self._url = url
        self._post = post
        self._failing = False
        self._reading = Outage("read what is to be sent")

    def run(self, stopping: threading.Event) -> None:
        """Deliver until `stopping` is set."""
        while not stopping.wait(POLL_SECONDS):
            self.advance(stopping)

    def advance(self, stopping: threading.Event | None = None) -> None:
        """Send what is due, as far as there is time until `stopping` is set."""
        try:
            for claimed in self._outbox.claim(AT_ONCE):
                if stopping is not None and stopping.is_set():
                    return  # the rest is due again when the claim runs out
                self._deliver(claimed)
            self.counts, self.given_up = self._outbox.counts(), self._outbox.given_up()
        except sa.exc.SQLAlchemyError as error:
            self._reading.noted(error)
            return
        self._reading.over()

    def _deliver(self, claimed: Claimed) -> None:
        document = self._still_to_tell(claimed)
        if document is None:
            self._outbox.give_up(claimed, OVER)
            logger.warning("notice %s is too late: it is over, and not sent", claimed.key)
            return
        body = json.dumps(document, allow_nan=False).encode()
        headers = {"content-type": "application/json", KEY_HEADER: claimed.key}
        try:
            status, reason = self._post(self._url, body, headers), ""
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            status, reason = 0, type(error).__name__
        if 200 <= status < 300:
            self._failing = False
            self._outbox.delivered(claimed.key)
            return
        for_good = 400 <= status < 500 and status not in _WORTH_ANOTHER_TRY
        if for_good:
            self._outbox.give_up(claimed, REFUSED)
        else:
            self._outbox.not_delivered(claimed)
        if for_good or not self._failing:
            then = "it is given up" if for_good else "it is tried again"
            logger.error("notice %s: %s; %s", claimed.key, reason or f"HTTP {status}", then)
        self._failing = True

    def _still_to_tell(self, claimed: Claimed) -> dict[str, Any] | None:
        """What is sent of a notice; None where it would tell of an incident that is long over."""
        document = claimed.document
        begins = document.get("transition") in (OPENED, CHANGED_CAUSE)
        if not begins or claimed.age_seconds <= LATE_SECONDS:
            return document
        incident = document["incident"]
        state = self._outbox.state_of(incident["id"])
        if state is None:  # nobody knows what became of it
            return {**document, "late_seconds": claimed.age_seconds}
        if state != OPEN:
            return None
        since = {"late_seconds": claimed.age_seconds, "open_since": incident["opened_at"]}
        return {**document, **since}
