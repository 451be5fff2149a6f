"""Resends open alerts to an Alertmanager that lost them.

Alertmanager holds alerts in memory. After its restart it gets open alerts again, as from
Prometheus, before it gets an end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from stepwatch.collector.incidents.notices import OPENED
from stepwatch.collector.store.response.pages import Pages

from .receivers import Alertmanager, Answer, Outgoing
from .sending import Post

EVERY_SECONDS = 15.0
"""Interval between checks of the receiver's alerts."""
BEFORE_THE_END_SECONDS = 45.0
"""Delay between a resent alert and its end.

Alertmanager sends no end for an alert that it did not notify about, and first waits for a group, 30
s by default (`group_wait`).
"""


class Forgetting:
    """Compares the alerts sent to one Alertmanager with the alerts it holds."""

    def __init__(
        self,
        receiver: Alertmanager,
        pages: Pages,
        post: Post,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._receiver = receiver
        self._pages = pages
        self._post = post
        self._monotonic = monotonic
        self._due = 0.0

    def remind(self) -> None:
        """Resend lost alerts, if a check is due.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; the check is repeated.
        """
        if self._monotonic() < self._due:
            return
        self._due = self._monotonic() + EVERY_SECONDS
        # Read first: incidents that open or end meanwhile must not appear lost.
        known_incidents = self._known_incidents("")
        if known_incidents is None:
            return
        lost = [
            document
            for document in self._pages.reported_open()
            if document["incident"]["id"] not in known_incidents
        ]
        if lost:
            self._exchange(lambda: self._receiver.alerts(lost))

    def has_forgotten(self, end: Mapping[str, Any]) -> bool:
        """Return whether the receiver had lost an ended incident's alert and accepted it again."""
        known_incidents = self._known_incidents(end["incident"]["id"])
        if known_incidents is None or known_incidents:
            return False
        beginning = {**end, "transition": OPENED}
        answer = self._exchange(lambda: self._receiver.alerts([beginning]))
        return answer is not None and self._receiver.takes(answer)

    def _known_incidents(self, incident: str) -> set[str] | None:
        answer = self._exchange(lambda: self._receiver.asking(incident))
        return None if answer is None else self._receiver.known_incidents(answer)

    def _exchange(self, outgoing: Callable[[], Outgoing]) -> Answer | None:
        """Return the receiver's answer, or None on failure: due notices are retried and counted."""
        try:
            return self._post(outgoing())
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError):
            return None
