"""The agent's report about itself: one AGENT row in every segment."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from stepwatch.agent.options import AgentOptions
from stepwatch.agent.pace import FlushPace
from stepwatch.agent.spool import Spool
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import DTYPES, UNKNOWN_RANK, Kind, text_bytes
from stepwatch.signals.version import version
from stepwatch.signals.wire import Rows

_MOST = 0xFFFFFFFF
"""Maximum value for a row's counter."""
_UNKNOWN_BYTES = (1 << 64) - 1


def self_report(options: AgentOptions, pace: FlushPace, spool: Spool, now: ClockPair) -> Rows:
    """Return one `Kind.AGENT` row: read intervals and the spool's state."""
    rows = np.zeros(1, dtype=DTYPES[Kind.AGENT])
    row = rows[0]
    row["rank"], row["time_ns"] = UNKNOWN_RANK, now.monotonic_ns
    row["flush_seconds"] = pace.seconds
    row["early"] = pace.is_early
    row["poll_seconds"] = options.poll_seconds
    row["spool_bytes"] = spool.waiting_bytes + spool.held_bytes
    row["dropped_segments"] = min(spool.dropped, _MOST)
    row["held_segments"] = min(spool.held_segments, _MOST)
    row["ring_free_bytes"] = _free_bytes(options.ring_dir)
    row["version"] = text_bytes(version(), row.dtype["version"].itemsize)
    return rows


def _free_bytes(folder: Path) -> int:
    """Return free bytes for new rings; a folder that does not exist yet is in its parent."""
    for place in (folder, folder.parent):
        try:
            volume = os.statvfs(place)
        except OSError:
            continue
        return volume.f_bavail * volume.f_frsize
    return _UNKNOWN_BYTES
