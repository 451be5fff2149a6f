"""The job's log, read once from the store: keys, digests, positions, and its STEP records."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepwatch.collector.store import Store
from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Segment

from .receipts import DIGEST, KEY, identify

STORED = np.dtype([("position", "<i8"), *KEY, *DIGEST])
"""One stored segment."""
PLACE = np.dtype([("wall_ns", "<i8"), ("offset", "<i8"), ("size", "<i8")])
"""When a node packed a segment by its own clock, and the position of its bytes in the copy."""
STEP = np.dtype(
    [("rank", "<i4"), ("step", "<i8"), ("end_ns", "<i8"), ("seconds", "<f8"), ("pauses", "<f8")]
)
"""A STEP record's end (wall time), its seconds, and its seconds of pauses."""
_BATCH_SEGMENTS = 256
_NEVER = 1 << 62
"""Unix nanoseconds of an event that did not occur."""


class StoredLog(NamedTuple):
    """All that a job has at rest: rows of `STORED` and `PLACE`, a copy of the bytes, rows of
    `STEP`, and when its first rank began (Unix nanoseconds)."""

    stored: Rows
    places: Rows
    copy: Path
    steps: Rows
    began_ns: int

    def bodies(self) -> Iterator[tuple[int, bytes]]:
        """(wall time, bytes) of each segment in the order in which nodes packed them."""
        with open(self.copy, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            for place in self.places[np.argsort(self.places["wall_ns"], kind="stable")]:
                first = int(place["offset"])
                yield int(place["wall_ns"]), mapped[first : first + int(place["size"])]
            mapped.close()


def read_log(store: Store, job: str, copy: Path) -> StoredLog:
    """Read and decode every stored segment of a job; `copy` becomes a file of their bytes."""
    stored: list[tuple[int | bytes, ...]] = []
    places: list[tuple[int, int, int]] = []
    steps = _StepBuffer()
    began_ns = _NEVER
    with open(copy, "wb") as file:
        for payload, _, position in store.segments(job):
            segment = wire.decode(payload)
            stored.append((position, *identify(payload).row(0)[1:]))
            places.append((segment.clock.wall_ns, file.tell(), len(payload)))
            file.write(payload)
            steps.add(segment)
            began_ns = min(began_ns, _began_ns(segment))
    return StoredLog(
        np.array(stored, dtype=STORED),
        np.array(places, dtype=PLACE),
        copy,
        steps.rows(),
        0 if began_ns == _NEVER else began_ns,
    )


class _StepBuffer:
    """STEP rows of many segments, turned into `STEP` some hundred segments at a time."""

    def __init__(self) -> None:
        self._converted: list[Rows] = []
        self._waiting: list[Rows] = []
        self._offsets: list[int] = []

    def add(self, segment: Segment) -> None:
        rows = segment.tables.get(Kind.STEP)
        if rows is None or not len(rows):
            return
        self._waiting.append(rows)
        self._offsets.append(segment.clock.wall_ns - segment.clock.monotonic_ns)
        if len(self._waiting) == _BATCH_SEGMENTS:
            self._turn()

    def rows(self) -> Rows:
        self._turn()
        return np.concatenate([np.zeros(0, dtype=STEP), *self._converted])

    def _turn(self) -> None:
        if not self._waiting:
            return
        records = np.concatenate(self._waiting)
        offsets = np.repeat(np.array(self._offsets), [len(rows) for rows in self._waiting])
        steps = np.zeros(len(records), dtype=STEP)
        steps["rank"], steps["step"] = records["rank"], records["step"]
        steps["end_ns"] = records["time_ns"].astype(np.int64) + offsets
        steps["seconds"] = records["duration_ns"] / 1e9
        steps["pauses"] = (records["checkpoint_ns"] + records["eval_ns"]) / 1e9
        self._converted.append(steps)
        self._waiting, self._offsets = [], []


def _began_ns(segment: Segment) -> int:
    """Return when the first rank of a segment started, in Unix nanoseconds; `_NEVER` if none
    did."""
    rows = segment.tables.get(Kind.LIFECYCLE)
    if rows is None:
        return _NEVER
    started = rows[rows["event"] == LifecycleEvent.START]
    offset = segment.clock.wall_ns - segment.clock.monotonic_ns
    ends = started["time_ns"].astype(np.int64) + offset
    return int(ends.min()) if len(ends) else _NEVER
