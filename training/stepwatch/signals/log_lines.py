"""Log records as JSON, one object a line."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any


class JsonLines(logging.Formatter):
    """One JSON object a line: time in Unix seconds, level, logger, message, and an exception.

    `constants` are fields of every line. Everything is ASCII: no text in it can end the line or
    control a terminal.
    """

    def __init__(self, **constants: str) -> None:
        super().__init__()
        self._constants = constants

    def fields(self, record: logging.LogRecord) -> Mapping[str, Any]:
        """Return the record's other fields; none here."""
        return {}

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line: dict[str, Any] = {
            "time": record.created,
            "level": record.levelname,
            **self._constants,
            "logger": record.name,
            "message": record.getMessage(),
            **self.fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
