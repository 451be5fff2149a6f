"""Medians of an attempt's first steps, kept for good: a degradation never becomes the baseline.

The steps after the warm-up are collected, and reduced to medians once they are over. Until then,
and if the collector missed them, the baseline is unknown. It holds a number per rank, so it is
released with the window. `exchanged` is small whatever the world, and stays for later attempts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from stepwatch.collector.state.collective_timing import (
    grouped_medians,
    waits,
)
from stepwatch.collector.state.evidence.step_window import WORK, seconds_of
from stepwatch.collector.state.trackers.communication.collective_records import Group
from stepwatch.collector.state.trackers.steps.step_history import (
    BASELINE_STEPS,
    LEAST_BASELINE_STEPS,
    WARMUP_STEPS,
)
from stepwatch.signals.arrays import Integers, Mask
from stepwatch.signals.wire import Rows

GRACE_STEPS = 64
"""Steps beyond the last baseline step after which it closes, even with missing reports."""

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


class BaselineCollective(NamedTuple):
    """Medians for one operation in one group: transfer in seconds, bytes and calls per rank."""

    transfer: float
    bytes: float
    calls: float


class Exchange(NamedTuple):
    """A rank's exchange per step by one operation in all its groups with one size.

    Values are medians over ranks and steps.
    """

    calls: float
    bytes: float


Exchanged = dict[tuple[int, int], Exchange]
"""Exchanges by operation and group size."""


class Calls(Protocol):
    """Collectives with their exposed time, on one clock."""

    @property
    def groups(self) -> Mapping[int, Group]:
        """Process groups by number."""
        ...

    def of_steps(self, first: int, last: int) -> Rows:
        """Return `CALL` rows for steps `first` to `last`, in arrival order."""
        ...


class Baseline:
    """Collects the first steps of an attempt's ranks, then holds their medians.

    `work` maps each of `pipeline.WORK` to seconds per step (ranks,), NaN if fewer than
    `LEAST_BASELINE_STEPS` are known. `calls` maps (group, op) to its medians. `exchanged` is small
    whatever the world. All are empty until the steps are over.
    """

    def __init__(self) -> None:
        self.work: dict[str, Vector] = {}
        self.calls: dict[tuple[int, int], BaselineCollective] = {}
        self.exchanged: Exchanged = {}
        self._closed = False
        self._seconds = np.zeros((len(WORK), BASELINE_STEPS, 0), dtype=np.float32)
        self._known = 0

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        return int(self._seconds[0].size) + len(self.calls)

    def add(self, rows: Rows, first: int, world: int, calls: Calls) -> None:
        """Add new STEP or DEVICE_STEP rows, with ranks below `world`.

        `first` is the attempt's first step, `calls` its collectives so far.
        """
        if self._closed or not len(rows):
            return
        self._grow(world)
        index = rows["step"].astype(np.int64) - first - WARMUP_STEPS
        wanted = (index >= 0) & (index < BASELINE_STEPS)
        self._known += int(wanted.sum())
        for plane, name in zip(self._seconds, WORK, strict=True):
            plane[index[wanted], rows["rank"][wanted]] = seconds_of(rows, name)[wanted]
        is_over = int(index.max()) >= BASELINE_STEPS + GRACE_STEPS
        if is_over or self._known >= BASELINE_STEPS * world:
            self._close(calls, first)

    def may_close(self, first: Integers, last: Integers, rows: Integers, world: int) -> Mask:
        """Return where it may close in a run of batches, if all their rows are new.

        Arguments are per batch: first and last step, relative to the attempt's first step, and the
        number of rows.
        """
        if self._closed:
            return np.zeros(len(rows), dtype=np.bool_)
        begin, end = WARMUP_STEPS, WARMUP_STEPS + BASELINE_STEPS
        touches = (last >= begin) & (first < end)
        collected = self._known + np.cumsum(np.where(touches, rows, 0))
        full = touches & (collected >= BASELINE_STEPS * world)
        return np.asarray(full | (last >= end + GRACE_STEPS))

    def work_of(self, world: int) -> dict[str, Vector]:
        """Return `work`, or an empty mapping if it has another number of ranks."""
        return self.work if all(len(seconds) == world for seconds in self.work.values()) else {}

    def _grow(self, world: int) -> None:
        width = self._seconds.shape[2]
        if width < world:
            grown = np.full((len(WORK), BASELINE_STEPS, world), np.nan, dtype=np.float32)
            grown[:, :, :width] = self._seconds
            self._seconds = grown

    def _close(self, calls: Calls, first: int) -> None:
        self._closed = True
        enough = (~np.isnan(self._seconds[0])).sum(axis=0) >= LEAST_BASELINE_STEPS
        for plane, name in zip(self._seconds, WORK, strict=True):
            medians = np.full(len(enough), np.nan)
            medians[enough] = np.nanmedian(plane[:, enough], axis=0)
            self.work[name] = medians
        self._seconds = self._seconds[:, :, :0].copy()
        begin = first + WARMUP_STEPS
        rows = calls.of_steps(begin, begin + BASELINE_STEPS + GRACE_STEPS)
        self.calls = _medians(rows, calls.groups)
        first_rows = rows[rows["step"] < begin + BASELINE_STEPS]
        self.exchanged = _exchanged(first_rows, calls.groups)

    def released(self) -> Baseline:
        """Return a copy with only the data that does not grow with the world."""
        retained = Baseline()
        retained.exchanged = self.exchanged
        return retained


def _medians(rows: Rows, groups: Mapping[int, Group]) -> dict[tuple[int, int], BaselineCollective]:
    timing = waits(rows, groups)
    heads, transfer = timing.rows[timing.first], timing.transfer[timing.first]
    is_known = ~np.isnan(transfer)
    heads, transfer = heads[is_known], transfer[is_known]
    keys = heads["group"].astype(np.int64) << 16 | heads["op"]
    pairs, transfers, counts = grouped_medians(keys, transfer)
    sizes, calls = (grouped_medians(keys, heads[name])[1] for name in ("bytes", "count"))
    lines = zip(pairs.tolist(), transfers.tolist(), sizes.tolist(), calls.tolist(), strict=True)
    return {
        (key >> 16, key & 0xFFFF): BaselineCollective(seconds, size, count)
        for (key, seconds, size, count), steps in zip(lines, counts.tolist(), strict=True)
        if steps >= LEAST_BASELINE_STEPS
    }


def _exchanged(rows: Rows, groups: Mapping[int, Group]) -> Exchanged:
    """Return the exchanges that occur in most of `BASELINE_STEPS` steps.

    An occasional barrier is left out, and so are groups with unknown size. If a tensor group and a
    data group both have two ranks, their exchanges are added.
    """
    numbers, places = np.unique(rows["group"], return_inverse=True)
    group_sizes = [groups[number].size if number in groups else 0 for number in numbers.tolist()]
    sizes = np.array(group_sizes, dtype=np.int64)[places]
    rows, sizes = rows[sizes > 0], sizes[sizes > 0]
    if not len(rows):
        return {}
    step = rows["step"].astype(np.int64) - int(rows["step"].min())
    # Operation (16 bits), size, step and rank side by side: sizes and ranks are below 2**18.
    keys = rows["op"].astype(np.int64) << 18 | sizes
    cells, cell = np.unique(keys << 25 | step << 18 | rows["rank"], return_inverse=True)
    sums = [np.bincount(cell, rows[name]) for name in ("count", "bytes")]
    exchanged: Exchanged = {}
    for key in np.unique(cells >> 25).tolist():
        in_key = cells >> 25 == key
        if len(np.unique(cells[in_key] >> 18)) >= LEAST_BASELINE_STEPS:
            medians = (float(np.median(values[in_key])) for values in sums)
            exchanged[key >> 18, key & 0x3_FFFF] = Exchange(*medians)
    return exchanged
