"""Stores with jobs in them, made by hand."""

from __future__ import annotations

from stepwatch.collector.store import Store, StoredSegment
from stepwatch.collector.store.slices import Slice
from stepwatch.signals import wire
from stepwatch.signals.wire import Segment
from tests.collector.made import EPOCH, JOB, run_segments

OTHER = "other-job"
DAY_NS = 86_400_000_000_000
RECEIVED = EPOCH * 1_000_000_000
"""When segments are received that do not say otherwise, in wall nanoseconds."""


def stored(segments: list[Segment]) -> list[StoredSegment]:
    """Segments with their bytes."""
    return [StoredSegment(item, wire.encode(item)) for item in segments]


def fill(store: Store) -> list[bytes]:
    """Segments of two jobs, alternating; returns those of `JOB`."""
    pairs = zip(run_segments(30), run_segments(30, job=OTHER), strict=True)
    stored_segments = stored([item for pair in pairs for item in pair])
    assert all(added.new for added in store.add_segments(stored_segments, RECEIVED))
    return [segment.data for segment in stored_segments if segment.segment.key.job == JOB]


def add_run(store: Store, job: str, day: int, steps: int = 30) -> None:
    """A run that sent all on a day after `EPOCH`, with its clock right, from a spool of the day."""
    received_ns = RECEIVED + day * DAY_NS
    moved = [
        segment._replace(
            key=segment.key._replace(spool=day),
            clock=segment.clock._replace(wall_ns=received_ns + number),
        )
        for number, segment in enumerate(run_segments(steps, job=job))
    ]
    store.add_segments(stored(moved), received_ns)


def add_evaluation(store: Store, job: str, state: str) -> None:
    """Two slices, and an incident in a state."""
    slices = [Slice(EPOCH + 10 * n, 1, 7.5, 10.0, 40, 41, 7.5 * n, 10.0 * n) for n in range(2)]
    common = {"job": job, "kind": "hang", "opened_at": EPOCH - 86400.0, "detail": {"text": "ü\n"}}
    incident = {"id": f"of-{job}"[:16], "state": state, **common}
    store.save_evaluation(job, [("goodput", part) for part in slices], [incident])


def positions(store: Store, job: str = JOB) -> list[int]:
    """Positions of the segments that a job has."""
    return [item.position for item in store.segments(job)]
