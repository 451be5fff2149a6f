"""Ring positions from acknowledged segments, kept in `cursors.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from stepwatch.agent.keys import Cursors, advance, cursors_of
from stepwatch.signals.durable import write_durably
from stepwatch.signals.errors import ConfigurationError

from .files import Spooled

MOST_RINGS = 65_536


class CursorFile:
    """Cursors for data that the collector has; rings without news for longest are forgotten first.

    Raises:
        ConfigurationError: the file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "cursors.json"
        self.cursors = self._load()

    def advance(self, segments: Iterable[Spooled]) -> None:
        """Advance to segments that the collector is done with; call `save` next."""
        for spooled in segments:
            advance(self.cursors, spooled.cursors)
        while len(self.cursors) > MOST_RINGS:
            self.cursors.pop(next(iter(self.cursors)))

    def forget(self, ring_id: int) -> None:
        """Forget a removed ring, which is not read again."""
        self.cursors.pop(ring_id, None)

    def save(self) -> None:
        """Write the file.

        Raises:
            OSError: the disk is full or gone; the earlier file is unchanged.
        """
        write_durably(self._path, json.dumps({"cursors": self.cursors}).encode())

    def _load(self) -> Cursors:
        if not self._path.exists():
            return {}
        try:
            state = json.loads(self._path.read_text())
            return {int(ring): int(seq) for ring, seq in state["cursors"].items()}
        except (ValueError, OverflowError, LookupError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"{self._path} is damaged ({error}); move the spool away: the agent then reads the "
                "rings again"
            ) from error


def superseded(segments: Iterable[Spooled]) -> list[int]:
    """Return sequences whose cursors a newer segment covers: losing them loses nothing.

    Sequence 1 read ring A up to 5, 2 read ring A up to 9, 3 read ring B up to 4: only 1 is
    superseded, by 2.
    """
    later: Cursors = {}
    superseding = []
    for spooled in sorted(segments, key=lambda segment: segment.sequence, reverse=True):
        cursors = cursors_of(spooled.cursors)
        if all(later.get(ring, 0) >= seq for ring, seq in cursors.items()):
            superseding.append(spooled.sequence)
        later |= {ring: seq for ring, seq in cursors.items() if ring not in later}
    return superseding
