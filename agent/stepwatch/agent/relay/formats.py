"""Holds back a segment whose wire format the collector did not announce."""

from __future__ import annotations

import logging
from typing import NamedTuple

from stepwatch.signals import wire
from stepwatch.signals.errors import StepwatchError

logger = logging.getLogger(__name__)


class NoCommonFormatError(StepwatchError):
    """The collector does not read the segment's format."""


class Outgoing(NamedTuple):
    """A segment in its sent form."""

    sequence: int
    data: bytes
    format: int


class Formats:
    """The collector's newest announcement; None before its first answer."""

    def __init__(self) -> None:
        self.announced: frozenset[int] | None = None

    def learn(self, announced: frozenset[int]) -> bool:
        """Record an announcement, and return whether it is new."""
        if announced == self.announced:
            return False
        if self.announced is not None or wire.WRITTEN_FORMAT not in announced:
            logger.info("the collector reads segment formats %s", _list(announced))
        self.announced = announced
        return True

    def prepare(self, sequence: int, data: bytes) -> Outgoing:
        """Return the segment as it is sent.

        Raises:
            NoCommonFormatError: the collector announced other formats.
            SegmentError: the segment is damaged.
        """
        # A wrong size would make the collector split the whole request incorrectly.
        wire.check(data)
        number = wire.format_of(data)
        if self.announced is not None and number not in self.announced:
            readable = _list(self.announced)
            raise NoCommonFormatError(f"it has format {number}, the collector reads {readable}")
        return Outgoing(sequence, data, number)


def _list(formats: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(formats)))
