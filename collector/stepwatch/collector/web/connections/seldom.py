"""Rate limit for log messages that clients cause: each at most once a minute."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

EVERY_SECONDS = 60.0


class Seldom(logging.Filter):
    """Passes a message up to WARNING once per `EVERY_SECONDS` and counts the others.

    Messages are equal if their templates are. An error always passes.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._shown: dict[object, tuple[float, int]] = {}
        """By template: the time of the last message, and the number suppressed since."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the record."""
        if record.levelno > logging.WARNING:
            return True
        now = self._seconds()
        shown, omitted = self._shown.get(record.msg, (-EVERY_SECONDS, 0))
        if now - shown < EVERY_SECONDS:
            self._shown[record.msg] = shown, omitted + 1
            return False
        self._shown[record.msg] = now, 0
        if omitted:
            record.msg, record.args = f"{record.getMessage()} (and {omitted} times before)", ()
        return True
