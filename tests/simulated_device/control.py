"""Settings of a running device, to be changed from its own process or from another one."""

from __future__ import annotations

import math
from enum import IntEnum
from pathlib import Path

import numpy as np

FIELDS = (
    "slow",
    "default_seconds",
    "link_seconds",
    "bytes_per_second",
    "depth",
    "hang",
    "lost",
)
"""Float64 each, in this order: `Settings` in source/settings.h."""

INITIAL = (1.0, 0.0, 0.0, math.inf, 1024.0, 0.0, 0.0)


class Hang(IntEnum):
    """Operations that never end."""

    NONE = 0
    KERNEL = 1
    COLLECTIVE = 2


class Control:
    """The settings of one device in a file that its process maps. A change works at once.

    Args:
        path: the file; created with the settings of a healthy device if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists() or path.stat().st_size == 0:
            path.write_bytes(np.array(INITIAL, np.float64).tobytes())
        self._values = np.memmap(path, np.float64, "r+", shape=(len(FIELDS),))

    def _set(self, field: str, value: float) -> None:
        self._values[FIELDS.index(field)] = value

    def get(self, field: str) -> float:
        """Return one of `FIELDS`."""
        return float(self._values[FIELDS.index(field)])

    def set_slow(self, factor: float) -> None:
        """Multiply the stated time of every operation from now on; 1 is healthy."""
        self._set("slow", factor)

    def set_default_seconds(self, seconds: float) -> None:
        """State the time of operations without one of their own; NaN: the CPU's time."""
        self._set("default_seconds", seconds)

    def set_link(self, seconds: float, bytes_per_second: float = math.inf) -> None:
        """State the time of a collective. The slowest rank of its group counts."""
        self._set("link_seconds", seconds)
        self._set("bytes_per_second", bytes_per_second)

    def set_depth(self, operations: int) -> None:
        """Let the host run this many operations ahead on a stream, then block; 0: no limit."""
        self._set("depth", operations)

    def set_hang(self, hang: Hang) -> None:
        """Make the next kernel, or the next collective, last until `Hang.NONE` is set."""
        self._set("hang", hang)

    def set_lost(self, lost: bool = True) -> None:
        """Lose the device: from now on every event, and every wait for it, raises."""
        self._set("lost", float(lost))
