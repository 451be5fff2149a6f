"""Stamps the user's own log lines with job, attempt, rank, step and trace id.

    handler.addFilter(LogStamp())
    handler.setFormatter(logging.Formatter(TEXT_FORMAT))     # or JsonLines()

A filter on a handler sees the lines from every logger that ends there. The trace id is the step's
trace id, whether or not the step is traced.
"""

from __future__ import annotations

import logging
from typing import Any

from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals import log_lines, traces
from stepwatch.signals.blackbox import Identity

FIELDS = ("job", "attempt", "rank", "step", "trace_id")
UNKNOWN = "unknown"
TEXT_FORMAT = (
    "%(asctime)s %(levelname)s %(job)s/%(attempt)s rank %(rank)s step %(step)s "
    "trace %(trace_id)s %(name)s: %(message)s"
)
"""A format for `logging.Formatter` that shows every field."""

_Stamp = tuple[Identity, int, dict[str, Any]]
_NOBODY = dict.fromkeys(FIELDS, UNKNOWN)
_recorder: Recorder | None = None


def follow(recorder: Recorder) -> None:
    """Stamp lines from now on with `recorder`'s identity and step."""
    global _recorder
    _recorder = recorder


class LogStamp(logging.Filter):
    """Adds `FIELDS` to every record; lets every record pass.

    Without a Watch they are `unknown`. A field that the line already has, through `extra`, stays.
    It costs a few attributes a line, and a hash in a new step; any thread may log.
    """

    def __init__(self) -> None:
        super().__init__()
        self._newest: _Stamp | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields."""
        fields = vars(record)
        for name, value in self._fields().items():
            fields.setdefault(name, value)
        return True

    def _fields(self) -> dict[str, Any]:
        recorder = _recorder
        ring = None if recorder is None else recorder.ring
        if recorder is None or ring is None:
            return _NOBODY
        # The identity changes when the rank is numbered. Another thread replaces the whole tuple.
        newest, identity, step = self._newest, ring.identity, recorder.step_number
        if newest is None or newest[0] is not identity or newest[1] != step:
            newest = self._newest = (identity, step, _stamp(identity, step))
        return newest[2]


def _stamp(identity: Identity, step: int) -> dict[str, Any]:
    trace = f"{traces.trace_id(identity.job, identity.attempt, step):032x}"
    values = (identity.job, identity.attempt, identity.rank, step, trace)
    return dict(zip(FIELDS, values, strict=True))


class JsonLines(log_lines.JsonLines):
    """One JSON object a line: time in Unix seconds, level, logger, message, and the stamp.

    Unknown fields are left out.
    """

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the stamp's known fields."""
        stamp = {name: getattr(record, name, UNKNOWN) for name in FIELDS}
        return {name: value for name, value in stamp.items() if value != UNKNOWN}
