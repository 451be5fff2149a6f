"""The list entries of all jobs: evaluated here, by other collectors, or not at all."""

from __future__ import annotations

import json
import threading
import time

import sqlalchemy as sa

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web import withheld_view
from stepwatch.collector.web.documents import LINE, Texts, dated, encoded, texts_of
from stepwatch.collector.web.schema.job import JobLineAnswer

KEPT_SECONDS = 1.0
"""Time for which a reading serves all requests for figures and searches."""


class JobLines:
    """Reads all list entries, latest written first, then known jobs without evaluation."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reading = threading.Lock()
        self._kept: tuple[float, list[JobLineAnswer]] | None = None

    def texts(self) -> list[Texts]:
        """Return the entries as JSON.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        service = self._service
        published = [*service.answers(LINE), *service.answers_of_others(LINE)]
        now = service.now()
        withheld = [encoded(withheld_view.line(*job)) for job in service.withheld().items()]
        entries = [texts_of(answer, now) for answer in published]
        return [*entries, *(Texts(text, text) for text in withheld)]

    def read(self) -> list[JobLineAnswer]:
        """Return the entries, at most `KEPT_SECONDS` old; while the store is down, of jobs here."""
        with self._reading:
            if self._kept is None or time.monotonic() - self._kept[0] > KEPT_SECONDS:
                self._kept = time.monotonic(), [json.loads(text) for text in self._known_texts()]
            return self._kept[1]

    def _known_texts(self) -> list[bytes]:
        try:
            return [entry.answer for entry in self.texts()]
        except sa.exc.SQLAlchemyError:
            now = self._service.now()
            return [dated(published, now) for published in self._service.answers(LINE)]
