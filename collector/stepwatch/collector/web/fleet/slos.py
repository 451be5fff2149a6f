"""The objectives of all jobs: a small part of the job list, which a page asks for all the time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any, cast

from stepwatch.collector.web.documents import encoded
from stepwatch.collector.web.schema.slo import SloBudget, SlosOfJob

from .jobs import KEPT_SECONDS, JobLines

_FIELDS = (*SloBudget.__annotations__,)


class SloList:
    """Answers with all objectives; requests within `KEPT_SECONDS` share an answer."""

    def __init__(self, lines: JobLines) -> None:
        self._lines = lines
        self._reading = threading.Lock()
        self._kept: tuple[float, bytes] | None = None

    def text(self) -> bytes:
        """Return the objectives as JSON.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        with self._reading:
            if self._kept is None or time.monotonic() - self._kept[0] > KEPT_SECONDS:
                began_s = time.monotonic()
                lines = (json.loads(entry.answer) for entry in self._lines.texts())
                self._kept = began_s, encoded({"jobs": [slos_of(line) for line in lines]})
            return self._kept[1]


def slos_of(line: Mapping[str, Any]) -> SlosOfJob:
    """Return the objectives in a list entry, numbers with four significant digits."""
    slos = [cast(SloBudget, {name: _short(slo[name]) for name in _FIELDS}) for slo in line["slos"]]
    return {"job": line["job"], "job_class": line["job_class"], "slos": slos}


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value
