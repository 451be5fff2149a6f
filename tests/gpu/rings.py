"""The records that this process's hooks wrote, read back from its ring."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from stepwatch.hooks import Watch
from stepwatch.signals import places
from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.records import Kind, LifecycleEvent, make_rows

from .place import Place

_BEATS_SECONDS = 0.6
"""The side thread polls twice a second, and resolves passed events within this time."""


def finish(watch: Watch, place: Place) -> None:
    """Wait for the device, and let the hooks write their remaining records."""
    place.wait()
    time.sleep(_BEATS_SECONDS)
    watch.close()


def timed_step_count(job: str) -> int:
    """Return how many steps of a job the device timed; 0 also if device timing was given up."""
    events = rows_of(job, Kind.LIFECYCLE)
    given_up = events[events["event"] == LifecycleEvent.DEVICE_TIMING]["value"] == 0
    return 0 if given_up.any() else len(rows_of(job, Kind.DEVICE_STEP))


def rows_of(job: str, kind: Kind) -> Any:
    """Rows of one kind that a rank of this process wrote, oldest first.

    Raises:
        LookupError: the job has no ring.
    """
    for path in find_rings(Path(os.environ[places.ENV_RING_DIR])):
        reader = RingReader(path)
        try:
            if reader.identity.job == job:
                return reader.read().rows.get(kind, make_rows(kind, 0)).copy()
        finally:
            reader.close()
    raise LookupError(f"no ring of {job}")
