"""The newest DEVICE_COLLECTIVE rows: how long compute streams were blocked by collectives.

They arrive after the COLLECTIVE rows for the same calls, or never.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.newest_rows import NewestRows
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.collector.state.trackers.communication.collective_records import (
    MAX_ROWS,
    CollectiveRecords,
    Group,
)
from stepwatch.signals.arrays import Integers, Mask
from stepwatch.signals.clock import MAX_DURATION_NS, NANOSECONDS
from stepwatch.signals.records import OP_NAMES, Kind
from stepwatch.signals.wire import Rows

DEVICE_CALL = np.dtype(
    [("step", "<u4"), ("rank", "<i4"), ("group", "<u4"), ("op", "<u2"), ("exposed", "<f4")]
)
"""One rank's calls of one operation in one group within one step.

`exposed` is in seconds for all calls, extrapolated from the timed calls.
"""
_MAX_SECONDS = MAX_DURATION_NS / NANOSECONDS


class DeviceCollectives(JoinedTracker):
    """Keeps the newest rows; older ones are overwritten."""

    kinds = frozenset({Kind.DEVICE_COLLECTIVE})
    order = 32
    given_back = True

    def __init__(self) -> None:
        self._rows = NewestRows(DEVICE_CALL, MAX_ROWS)

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        return len(self._rows)

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in DEVICE_COLLECTIVE rows."""
        rows = batches.rows(Kind.DEVICE_COLLECTIVE)
        if rows is not None:
            attempt.refused_records += self.add(rows, attempt.world)

    def add(self, rows: Rows, world: int) -> int:
        """Add DEVICE_COLLECTIVE rows; returns the number of refused invalid rows.

        A row without a timed call carries no information and is ignored.
        """
        possible = chosen(rows, _possible(rows, world))
        timed = possible[(possible["timed"] > 0) & ~np.isnan(possible["exposed_seconds"])]
        columns = {name: timed[name] for name in ("step", "rank", "group", "op")}
        all_calls = timed["exposed_seconds"] * (timed["count"] / timed["timed"])
        self._rows.add({**columns, "exposed": all_calls})
        return len(rows) - len(possible)

    def of_steps(self, first: int, last: int) -> Rows:
        """Return `DEVICE_CALL` rows for steps `first` to `last`, in arrival order."""
        return self._rows.of_steps(first, last)


class DeviceCalls:
    """An attempt's collectives with the devices' exposed time in place of the host's.

    A call without a device row is left out: then a member is missing, and the transfer time for
    that collective is unknown.
    """

    def __init__(self, host: CollectiveRecords, device: DeviceCollectives) -> None:
        self._host, self._device = host, device

    @property
    def groups(self) -> dict[int, Group]:
        """Process groups by number."""
        return self._host.groups

    def of_steps(self, first: int, last: int) -> Rows:
        """Return `CALL` rows for steps `first` to `last`, in arrival order."""
        host, device = (records.of_steps(first, last) for records in (self._host, self._device))
        groups = np.unique(device["group"])
        host = host[np.isin(host["group"], groups)]
        if not len(host) or not len(device):
            return host[:0]
        wanted, keys = _keys(host, first, groups), _keys(device, first, groups)
        order = np.argsort(keys, kind="stable")  # the last repeated row counts
        places = np.searchsorted(keys[order], wanted, side="right") - 1
        matches = (places >= 0) & (keys[order][places] == wanted)
        calls: Rows = host[matches].copy()
        calls["exposed"] = device["exposed"][order[places[matches]]]
        return calls


def _possible(rows: Rows, world: int) -> Mask:
    """Return the rows with a valid rank, operation and time; NaN is unknown."""
    possible: Mask = (rows["rank"] >= 0) & (rows["rank"] < world) & (rows["op"] < len(OP_NAMES))
    seconds = rows["exposed_seconds"]
    possible &= np.isnan(seconds) | ((seconds >= 0) & (seconds <= _MAX_SECONDS))
    return np.asarray(possible & (rows["timed"] <= rows["count"]))


def _keys(rows: Rows, first: int, groups: Integers) -> Integers:
    """Return one number per (step, rank, group, op): 25, 17, 17 and 4 bits; `groups` are sorted.

    Step 7 from step 5 on, rank 3, second group, op 1: 2 << 38 | 3 << 21 | 1 << 4 | 1.
    """
    step = rows["step"].astype(np.int64) - max(first, 0)
    group = np.searchsorted(groups, rows["group"]).astype(np.int64)
    rank, op = rows["rank"].astype(np.int64), rows["op"].astype(np.int64)
    return np.asarray(step << 38 | rank << 21 | group << 4 | op)
