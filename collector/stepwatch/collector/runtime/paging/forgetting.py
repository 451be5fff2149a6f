"""A receiver that forgets: Alertmanager holds alerts in memory, so that one which was restarted is
sent those again that are still open, as Prometheus does, before it is sent an end."""

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
"""Between two looks at what it knows."""
BEFORE_THE_END_SECONDS = 45.0
"""From an alert that is sent again to its end: Alertmanager sends no end of what it did not notify
of, and waits for a group first, 30 s by default (`group_wait`)."""


class Forgetting:
    """What one Alertmanager was sent, compared with what it knows."""

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
        """Send again what it was sent and does not know, if it is time to look.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; it is looked at again.
        """
        if self._monotonic() < self._due:
            return
        self._due = self._monotonic() + EVERY_SECONDS
        # Read first: what opens or ends meanwhile must not look forgotten.
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
        """Whether it does not know the beginning of what ended, and took it again just now."""
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
        """What it answers; None where it does not: what is due is tried again and counted."""
        try:
            return self._post(outgoing())
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError):
            return None
