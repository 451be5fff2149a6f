"""Logs a store outage once, and its end once."""

from __future__ import annotations

import logging
import math
import threading
import time

import sqlalchemy as sa

logger = logging.getLogger(__name__)


class Outage:
    """Consecutive failures of one store operation; `doing` names it, such as "read"."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._began: float | None = None
        self._newest = -math.inf
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether the last try failed."""
        return self._began is not None

    @property
    def age_seconds(self) -> float:
        """Seconds since the newest failure; infinite without one."""
        return time.monotonic() - self._newest

    def noted(self, error: sa.exc.SQLAlchemyError) -> None:
        """Record a failure; the first in a row is logged."""
        with self._lock:
            self._newest = time.monotonic()
            first, self._began = self._began is None, self._began or self._newest
        if first:
            logger.error("cannot %s: %s; it is tried again", self._doing, reason_of(error))

    def over(self) -> None:
        """Record a success; the first after a failure is logged."""
        if self._began is None:  # nearly always
            return
        with self._lock:
            began, self._began = self._began, None
        if began is not None:
            seconds = time.monotonic() - began
            logger.info("can %s again, after %.0f s", self._doing, seconds)


def reason_of(error: sa.exc.SQLAlchemyError) -> str:
    """Return a database error's message in one line, without statement and values."""
    message = str(getattr(error, "orig", None) or error) or type(error).__name__
    return message.splitlines()[0][:300]
