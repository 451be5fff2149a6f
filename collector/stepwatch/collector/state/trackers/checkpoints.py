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
from stepwatch.signals.records import CheckpointEvent, Kind, Phase, Verification
from stepwatch.signals.wire import Rows

MAX_CHECKPOINTS = 10_000
"""Maximum number of checkpoints per attempt; the first recorded ones are dropped first."""


KEPT_CHECKPOINTS = 100
"""Maximum number of checkpoints that remain of a run once a later run with its number makes steps.
"""
MAX_FILES = 16_384
"""Maximum number of paths per attempt whose states are held; the first steps are dropped first."""


class Checkpoint(NamedTuple):
    """Facts about one checkpoint; None until a rank reports the value.

    `is_damaged` is an agent's verdict, `is_rejected` that of a run that tried to resume.
    `saved_s` is when it began, Unix seconds. `file` below `path` is the one that `reason` is about.
    `unknown` says why an agent could not verify the files. `is_removed` is true once files were
    deleted or replaced, `was_good` if damage came after a verification.
    """

    step: int
    stall_seconds: float | None = None
    durable_seconds: float | None = None
    size_bytes: int | None = None
    verified: bool | None = None
    reason: str = ""
    saved_s: float | None = None
    path: str = ""
    file: str = ""
    unknown: str = ""
    is_removed: bool = False
    was_good: bool = False
    is_damaged: bool = False
    is_rejected: bool = False

    @property
    def is_good(self) -> bool:
        """Whether a job can resume from it: it verified and is still there."""
        return self.verified is True and not self.is_removed


class Checkpoints(Tracker):
    """Checkpoints by step in `by_step`, and saves under way in `in_flight`."""

    kinds = frozenset({Kind.CHECKPOINT, Kind.RANK_STATE, Kind.VERIFICATION})
    order = 40

    def __init__(self) -> None:
        self.by_step: dict[int, Checkpoint] = {}
        self.in_flight = CheckpointsInFlight()
        self.files: dict[int, dict[int, int]] = {}
        """By step, the `Verification` of each path; a key is the rank and the path's number."""
        self.earlier_files: dict[int, dict[int, int]] = {}
        """The same for saves of an earlier run with the attempt's number, at its end."""

    def continue_from(self, earlier: Checkpoints) -> None:
        """Follow the saves of an earlier run: agents report their files to the newest one."""
        self.earlier_files = {**earlier.earlier_files, **earlier.files}

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in batches; batches with only RANK_STATE rows count if a rank is in a save."""
        saves, states = batches.table(Kind.CHECKPOINT), batches.table(Kind.RANK_STATE)
        inside = states.origin[states.rows["phase"] == Phase.CHECKPOINT]
        read = np.flatnonzero(batches.table(Kind.VERIFICATION).counts)
        reported = np.union1d(np.flatnonzero(saves.counts), read)
        for number in np.union1d(reported, inside).tolist():
            self.apply(batches[number], attempt)

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Apply CHECKPOINT rows, and the ranks' progress within a save from RANK_STATE rows."""
        if (rows := batch.rows(Kind.CHECKPOINT)) is not None:
            began_ns = attempt.tracker(LifecycleEvents).began_ns.get(batch.node, 0)
            valid = validation.checkpoints(rows, began_ns)
            self._begin_again(valid)
            self.in_flight.add(valid, attempt.world, batch.to_wall_ns)
            attempt.totals.add_checkpoints(fold(self.by_step, valid, int(batch.to_wall_ns)))
        if (read := batch.rows(Kind.VERIFICATION)) is not None:
            attempt.totals.add_checkpoints(self._verify(read))
        if (states := batch.rows(Kind.RANK_STATE)) is not None:
            self.in_flight.add_states(states)

    @property
    def cells(self) -> int:
        """Number of paths whose state is held."""
        return sum(map(len, (*self.files.values(), *self.earlier_files.values())))

    def keep_newest(self) -> None:
        """Keep the newest `KEPT_CHECKPOINTS`, without the states of their paths."""
        newest = sorted(self.by_step)[-KEPT_CHECKPOINTS:]
        self.by_step = {step: self.by_step[step] for step in newest}
        self.in_flight, self.files, self.earlier_files = CheckpointsInFlight(), {}, {}

    def _verify(self, rows: Rows) -> Counter[str]:
        """Fold in VERIFICATION rows; a checkpoint verified once all its known paths did."""
        decided: Counter[str] = Counter()
        for row in rows:
            step = int(row["step"])
            states = self.files.setdefault(step, {**self.earlier_files.get(step, {})})
            number = int(row["rank"]) << 32 | int(row["path_number"])
            states[number] = int(row["state"])
            complete = set(states.values()) == {int(Verification.VERIFIED)}
            known = self.by_step.get(step, Checkpoint(step))
            _put(self.by_step, verified(known, row, complete), decided)
        while self.earlier_files and self.cells > MAX_FILES:
            del self.earlier_files[next(iter(self.earlier_files))]
        while len(self.files) > 1 and self.cells > MAX_FILES:
            del self.files[next(iter(self.files))]
        return decided

    def _begin_again(self, rows: Rows) -> None:
        """Forget the files of an earlier run's save of a step that this run saves, too."""
        for step in rows["step"][rows["event"] == CheckpointEvent.BEGIN].tolist():
            if self.earlier_files.pop(step, None) is not None:
                known = self.by_step.get(step)
                if known is not None and known.saved_s is None:
                    del self.by_step[step]
                    self.files.pop(step, None)


def fold(by_step: dict[int, Checkpoint], rows: Rows, to_wall_ns: int = 0) -> Counter[str]:
    """Fold validated CHECKPOINT rows (`validation.checkpoints`) into `by_step`.

    Returns the number of checkpoints that reached each outcome in `totals` with these rows.
    """
    decided: Counter[str] = Counter()
    for row in rows:
        known = by_step.get(int(row["step"]), Checkpoint(int(row["step"])))
        _put(by_step, merged(known, row, to_wall_ns), decided)
    return decided


def _put(by_step: dict[int, Checkpoint], item: Checkpoint, decided: Counter[str]) -> None:
    """Store a step's checkpoint, and count an outcome that it reaches."""
    previous = by_step.get(item.step)
    if previous is None and len(by_step) >= MAX_CHECKPOINTS:
        by_step.pop(next(iter(by_step)))
    by_step[item.step] = item
    if item.verified is not (None if previous is None else previous.verified):
        decided[VERIFIED if item.verified else FAILED] += 1


def verified(checkpoint: Checkpoint, row: np.void, complete: bool) -> Checkpoint:
    """Fold one VERIFICATION row in; `complete` is whether all known paths verified."""
    state, size = int(row["state"]), int(row["bytes"])
    reason, file, path = (
        bytes(row[name]).decode("utf-8", "replace") for name in ("reason", "file", "path")
    )
    if 0 < size <= validation.MAX_STEP_BYTES:
        checkpoint = checkpoint._replace(size_bytes=max(checkpoint.size_bytes or 0, size))
    if state == Verification.DAMAGED:
        was_good = bool(row["again"]) or checkpoint.was_good or checkpoint.verified is True
        checkpoint = checkpoint._replace(
            verified=False, is_damaged=True, reason=reason, was_good=was_good, is_removed=False
        )
        return checkpoint._replace(file=file, path=path, unknown="")
    if checkpoint.is_damaged:
        return checkpoint._replace(is_removed=state == Verification.REMOVED)
    checkpoint = checkpoint._replace(path=path, file=file)
    if state == Verification.VERIFIED:
        checkpoint = checkpoint._replace(is_removed=False)
        if complete and checkpoint.verified is None:
            checkpoint = checkpoint._replace(verified=True)
        return checkpoint._replace(unknown="" if complete else checkpoint.unknown)
    if state == Verification.REMOVED:
        return checkpoint._replace(is_removed=True)
    return checkpoint._replace(unknown=reason, is_removed=False)


def merged(checkpoint: Checkpoint, row: np.void, to_wall_ns: int = 0) -> Checkpoint:
    """Fold one record in; the slowest rank's time and the worst rank's outcome count."""
    if checkpoint.saved_s is None and to_wall_ns:
        saved_s = (int(row["time_ns"]) + to_wall_ns) / NANOSECONDS
        checkpoint = checkpoint._replace(saved_s=saved_s)
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
        is_rejected = event == CheckpointEvent.REJECTED or checkpoint.is_rejected
        checkpoint = checkpoint._replace(verified=False, reason=text, is_rejected=is_rejected)
    return checkpoint


def failures_in_a_row(runs: Iterable[Mapping[int, Checkpoint]]) -> int | None:
    """Return the number of failed or unverified checkpoints since a verified one.

    Runs are in order. None before any outcome; an undecided checkpoint does not count. A good
    one that is damaged now counts twice: a resume was to begin there, and its storage is suspect.
    """
    ends = [item for by_step in runs for item in by_step.values() if item.verified is not None]
    failures = 0
    for item in reversed(ends):
        if item.verified:
            return failures
        failures += 2 if item.was_good else 1
    return failures or None
