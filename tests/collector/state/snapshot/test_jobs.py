"""A job restored from a snapshot and the rest of its log is the job of the whole log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.registry import discover
from stepwatch.collector.state.snapshot import (
    STATE_VERSION,
    About,
    packed,
    put_together,
    taken_apart,
    unpacked,
)
from tests.collector.histories import History, Taken, differences
from tests.collector.made import JOB

SHAPE = Path(__file__).parents[3] / "data" / "state_shape.txt"


def job_of(segments: list[Taken], job: LiveJob | None = None) -> LiveJob:
    job = job or LiveJob(JOB)
    for segment, received in segments:
        job.append(segment, received)
    job.fold()
    return job


def stored(job: LiveJob) -> LiveJob:
    restored = put_together(unpacked(packed(taken_apart(job), About(job.name, 1, 0.0)))[1])
    assert isinstance(restored, LiveJob)
    return restored


@settings(max_examples=30)
@given(st.integers(0, 1 << 32), st.integers(0, 60), st.floats(0.0, 1.0))
def test_a_snapshot_and_the_rest_of_the_log_give_the_state_of_the_whole_log(
    seed: int, count: int, cut: float
) -> None:
    segments = list(History(seed).segments(count + 1))
    cut_index = 1 + int(cut * (len(segments) - 1))
    snapshot = stored(job_of(segments[:cut_index]))
    assert differences(job_of(segments[cut_index:], snapshot), job_of(segments)) == []


def test_a_snapshot_leaves_the_job_as_it_was() -> None:
    segments = list(History(3).segments(80))
    job = job_of(segments[:40])
    stored(job)
    assert differences(job_of(segments[40:], job), job_of(segments)) == []


def test_a_job_on_another_machine_was_received_just_now() -> None:
    job = job_of(list(History(5).segments(60)))
    now = job.current.received_monotonic_s
    later = put_together(taken_apart(job), 1e6)
    assert later.current.staleness(now + 1e6) == pytest.approx(job.current.staleness(now))


def test_the_shape_of_the_state_has_a_version() -> None:
    """Run with an empty file to write it anew, and raise `STATE_VERSION`."""
    lines = sorted({line for seed in range(32) for line in shape_of(seed)})
    text = "\n".join([f"state version {STATE_VERSION}", *lines, ""])
    if not SHAPE.read_text():
        SHAPE.write_text(text)
    assert SHAPE.read_text() == text, (
        "the classes of the state changed: old snapshots cannot be read any more. "
        f"Raise STATE_VERSION, empty {SHAPE.name} and run this test again."
    )


def shape_of(seed: int) -> set[str]:
    """Each class that a snapshot of a random history names, with its fields, and its row types."""
    document = taken_apart(job_of(list(History(seed).segments(80))))
    lines = {f"rows {array.dtype.descr}" for array in document.arrays if array.dtype.names}
    _shapes(document.tree, lines)
    return lines


def _shapes(tree: Any, lines: set[str]) -> None:
    if not isinstance(tree, list) or not tree:
        return
    if tree[0] == "object":
        lines.add(f"{tree[2]}: {' '.join(map(str, tree[3::2]))}")
    if tree[0] == "record":
        lines.add(f"{tree[1]}: {len(tree) - 2} fields")
    for child in tree:
        _shapes(child, lines)


def test_random_histories_reach_every_tracker() -> None:
    missing = set(discover())
    for seed in range(64):  # a new field shifts the random rows: the rarest come in other seeds
        job = job_of(list(History(seed).segments(80)))
        missing -= {
            type(tracker)
            for attempt in job.attempts.values()
            for tracker in attempt._trackers.values()
            if any(map(_holds_something, vars(tracker).values()))
        }
        if not missing:
            return
    raise AssertionError(f"no history reaches {missing}")


def _holds_something(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return bool(value.size)
    return (
        any(map(_holds_something, vars(value).values()))
        if hasattr(value, "__dict__")
        else bool(value)
    )
