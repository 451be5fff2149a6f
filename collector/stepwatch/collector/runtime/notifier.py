"""Delivers what the outbox holds to one URL, until it is taken."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping

import httpx
import sqlalchemy as sa

from stepwatch.collector.store.outage import Outage
from stepwatch.collector.store.outbox import Claimed, Outbox
from stepwatch.signals import places

logger = logging.getLogger(__name__)

KEY_HEADER = "Idempotency-Key"
POLL_SECONDS = 1.0
AT_ONCE = 20
ANSWER_SECONDS = 2.5
"""How long a receiver has to answer: all that is claimed at once is sent before others may try."""
PRUNE_SECONDS = 3600.0
_WORTH_ANOTHER_TRY = (408, 425, 429)

Post = Callable[[str, bytes, Mapping[str, str]], int]
"""Sends a body with headers to a URL; returns the status of the answer."""


def post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Send over HTTP, following no redirection.

    Raises:
        httpx.HTTPError: nobody answered.
    """
    answer = httpx.post(
        url,
        content=body,
        headers=dict(headers),
        timeout=ANSWER_SECONDS,
        trust_env=places.may_use_proxy(url),
    )
    return answer.status_code


class Notifier:
    """Sends each notice by POST as JSON, with its key as a header; 2xx says that it was taken.

    Another answer from 400 to 499 says that it never will be; anything else is tried again.
    `counts` holds the notices of the store by state.
    """

    def __init__(self, outbox: Outbox, url: str, post: Post = post) -> None:
        self.counts: dict[str, int] = {}
        self._outbox = outbox
        self._url = url
        self._post = post
        self._failing = False
        self._pruned_at = -PRUNE_SECONDS
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
            if time.monotonic() - self._pruned_at >= PRUNE_SECONDS:
                self._outbox.prune()
                self._pruned_at = time.monotonic()
            self.counts = self._outbox.counts()
        except sa.exc.SQLAlchemyError as error:
            self._reading.noted(error)
            return
        self._reading.over()

    def _deliver(self, claimed: Claimed) -> None:
        body = json.dumps(claimed.document, allow_nan=False).encode()
        headers = {"content-type": "application/json", KEY_HEADER: claimed.key}
        try:
            status, reason = self._post(self._url, body, headers), ""
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            status, reason = 0, type(error).__name__
        if 200 <= status < 300:
            self._failing = False
            self._outbox.delivered(claimed.key)
            return
        for_good = 400 <= status < 500 and status not in _WORTH_ANOTHER_TRY
        self._outbox.not_delivered(claimed, for_good=for_good)
        if for_good or not self._failing:
            then = "it is given up" if for_good else "it is tried again"
            logger.error("notice %s: %s; %s", claimed.key, reason or f"HTTP {status}", then)
        self._failing = True
