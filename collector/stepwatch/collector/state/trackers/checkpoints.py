"""Checkpoint facts, folded together from the ranks' records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.ingest import validation
from stepwatch.collector.ingest.validation import UNKNOWN
from stepwatch.collector.state.totals import FAILED, VERIFIED
from stepwatch.collector.state.tracker import Batch, Batches, TrackedAttempt, Tracker
from stepwatch.collector.state.trackers.checkpoints_in_flight import CheckpointsInFlight
from stepwatch.collector.state.trackers.lifecycle import LifecycleEvents
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import CheckpointEvent, Kind, Phase
from stepwatch.signals.wire import Rows

MAX_CHECKPOINTS = 10_000
"""Maximum number of checkpoints per attempt; the first recorded ones are dropped first."""


class Checkpoint(NamedTuple):
    """Facts about one checkpoint; None until a rank reports the value."""

    step: int
    stall_seconds: float | None = None
    durable_seconds: float | None = None
    size_bytes: int | None = None
    verified: bool | None = None
    reason: str = ""


class Checkpoints(Tracker):
    """Checkpoints by step in `by_step`, and saves under way in `in_flight`."""

    kinds = frozenset({Kind.CHECKPOINT, Kind.RANK_STATE})
    order = 40

    def __init__(self) -> None:
        self.by_step: dict[int, Checkpoint] = {}
        self.in_flight = CheckpointsInFlight()

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in batches; batches with only RANK_STATE rows count if a rank is in a save."""
        saves, states = batches.table(Kind.CHECKPOINT), batches.table(Kind.RANK_STATE)
        inside = states.origin[states.rows["phase"] == Phase.CHECKPOINT]
        for number in np.union1d(np.flatnonzero(saves.counts), inside).tolist():
            self.apply(batches[number], attempt)

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Apply CHECKPOINT rows, and the ranks' progress within a save from RANK_STATE rows."""
        if (rows := batch.rows(Kind.CHECKPOINT)) is not None:
            began_ns = attempt.tracker(LifecycleEvents).began_ns.get(batch.node, 0)
            valid = validation.checkpoints(rows, began_ns)
            self.in_flight.add(valid, attempt.world, batch.to_wall_ns)
            attempt.totals.add_checkpoints(fold(self.by_step, valid))
        if (states := batch.rows(Kind.RANK_STATE)) is not None:
            self.in_flight.add_states(states)


def fold(by_step: dict[int, Checkpoint], rows: Rows) -> Counter[str]:
    """Fold validated CHECKPOINT rows (`validation.checkpoints`) into `by_step`.

    Returns the number of checkpoints that reached each outcome in `totals` with these rows.
    """
    decided: Counter[str] = Counter()
    for row in rows:
        step = int(row["step"])
        if step not in by_step and len(by_step) >= MAX_CHECKPOINTS:
            by_step.pop(next(iter(by_step)))
        previous = by_step.get(step, Checkpoint(step))
        by_step[step] = merged(previous, row)
        if by_step[step].verified is not previous.verified:
            decided[VERIFIED if by_step[step].verified else FAILED] += 1
    return decided


def merged(checkpoint: Checkpoint, row: np.void) -> Checkpoint:
    """Fold one record in; the slowest rank's time and the worst rank's outcome count."""
    event, text = int(row["event"]), bytes(row["text"]).decode("utf-8", "replace")
    stall, durable, size = int(row["stall_ns"]), int(row["durable_ns"]), int(row["bytes"])
    if stall not in (0, UNKNOWN):
        checkpoint = checkpoint._replace(
            stall_seconds=max(checkpoint.stall_seconds or 0.0, stall / NANOSECONDS)
        )
    if event == CheckpointEvent.WRITTEN:
        if durable != UNKNOWN:
            longest = max(checkpoint.durable_seconds or 0.0, durable / NANOSECONDS)
            checkpoint = checkpoint._replace(durable_seconds=longest)
        if size != UNKNOWN:
            checkpoint = checkpoint._replace(size_bytes=max(checkpoint.size_bytes or 0, size))
    elif event == CheckpointEvent.VERIFIED and checkpoint.verified is None:
        checkpoint = checkpoint._replace(verified=True)
    elif event in (CheckpointEvent.FAILED, CheckpointEvent.REJECTED):
        checkpoint = checkpoint._replace(verified=False, reason=text)
    return checkpoint


def failures_in_a_row(attempts: Iterable[Mapping[int, Checkpoint]]) -> int | None:
    """Return the number of failed or unverified checkpoints since a verified one.

    Attempts are in order. None before any outcome; an undecided checkpoint does not count.
    """
    ends = [item.verified for by_step in attempts for item in by_step.values()]
    reported = [verified for verified in ends if verified is not None]
    return reported[::-1].index(True) if True in reported else len(reported) or None
