"""Selects the segments' wire format from those that the collector announced."""

from __future__ import annotations

import logging
from typing import NamedTuple

from stepwatch.signals import wire
from stepwatch.signals.errors import StepwatchError

logger = logging.getLogger(__name__)


class NoCommonFormatError(StepwatchError):
    """The agent writes no format that the collector reads."""


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
        """Return the segment in the newest common format, unchanged before the first answer.

        Raises:
            NoCommonFormatError: there is no common format.
            SegmentError: the segment is damaged.
        """
        # A wrong size would make the collector split the whole request incorrectly.
        wire.check(data)
        number = wire.format_of(data)
        if self.announced is None or number in self.announced:
            return Outgoing(sequence, data, number)
        common = self.announced.intersection(wire.READABLE_FORMATS)
        if not common or number not in wire.READABLE_FORMATS:
            readable = _list(self.announced)
            raise NoCommonFormatError(f"it has format {number}, the collector reads {readable}")
        return Outgoing(sequence, wire.transcode(data, max(common)), max(common))


def _list(formats: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(formats)))
