"""Sums and end times for steps dropped from an attempt's history."""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.state.trackers.steps.dropped_curves import DroppedCurves
from stepwatch.signals.arrays import Integers, Mask, Vector
from stepwatch.signals.wire import Rows

NEVER = -(1 << 63)
"""Unix nanoseconds for "not ended": before every time in a row."""
REDOABLE = np.dtype([("first_step", "<i8"), ("start_s", "<i8"), ("kept", "<f8"), ("redone", "<f8")])
"""Contribution from steps `first_step` up to the next row's to their slice's good device-seconds.

The slice starts at `start_s` (Unix seconds). `kept` is the value while the steps count, `redone`
the value after a redo.
"""
SUMS = np.dtype(
    [
        ("start_s", "<i8"),
        ("good", "<f8"),
        ("total", "<f8"),
        ("observed", "<i8"),
        ("expected", "<i8"),
    ]
)
"""Contribution from dropped steps to the slice that starts at `start_s` (Unix seconds).

Device-seconds, and records received and expected. `good` leaves out the part in `REDOABLE` rows.
"""


class DroppedSteps:
    """An attempt's first `count` steps, and their contribution to the slices.

    Attributes:
        count: dropped steps.
        closed_before_s: end of their last slice, Unix seconds.
        end_ns: last step's end, Unix nanoseconds; `NEVER` before.
        fixed_end_ns: last device-timed step's end.
        seen_step, seen_end_ns: the last step that a rank reported.
        clock_set_ns: how far clocks were set at that step.
        paused: evaluation and save time in the last step, device-seconds.
        tokens, longest (seconds), newest_end_ns, loss_first, loss_last: over all dropped steps.
        timed: seconds per step for the first device-timed steps.
        sums: `SUMS` rows by SLI, in time order.
        redoable: `REDOABLE` rows by SLI, in step order.
        accounts: microseconds of device time by the day's Unix time, in the order of
            `slo.waste.CAUSES`.
        curves: lengths, rates and device time over time.
        late_rows: rank rows that arrived after their step was dropped.
    """

    def __init__(self) -> None:
        self.count = 0
        self.closed_before_s = -math.inf
        self.end_ns = self.fixed_end_ns = self.seen_end_ns = NEVER
        self.clock_set_ns = 0
        self.paused = 0.0
        self.seen_step = -1
        self.tokens = 0
        self.longest = 0.0
        self.newest_end_ns = 0
        self.loss_first = self.loss_last = math.nan
        self.timed = np.zeros(0)
        self.sums: dict[str, Rows] = {}
        self.redoable: dict[str, Rows] = {}
        self.accounts: dict[int, Integers] = {}
        self.curves = DroppedCurves()
        self.late_rows = 0

    def add(self, first_step: int, rows: Rows) -> None:
        """Add history rows for the next steps, from `first_step` on."""
        self.tokens += int(rows["tokens"].sum(dtype=np.uint64))
        self.longest = max(self.longest, float(rows["longest"].max(initial=0.0)))
        self.newest_end_ns = max(self.newest_end_ns, int(rows["end_wall_ns"].max(initial=0)))
        losses = rows["loss"][~np.isnan(rows["loss"])]
        if len(losses):
            first, self.loss_last = float(losses[0]), float(losses[-1])
            self.loss_first = first if math.isnan(self.loss_first) else self.loss_first
        reported = np.flatnonzero(rows["reported"])
        if len(reported):
            self.seen_step = first_step + int(reported[-1])
            last = rows[reported[-1]]
            self.seen_end_ns = int(last["end_wall_ns"])
            self.clock_set_ns = self.seen_end_ns - int(last["end_unset_ns"])
        self.count += len(rows)

    def end(
        self, ends_ns: Integers, on_device: Mask, pauses: Vector, closed_before_s: float
    ) -> None:
        """Record the steps' ends, each on its clock, the device-timed steps, and the pauses.

        `pauses` are device-seconds.
        """
        self.closed_before_s = max(self.closed_before_s, closed_before_s)
        if len(ends_ns):
            self.end_ns, self.paused = int(ends_ns[-1]), float(pauses[-1])
        if on_device.any():
            self.fixed_end_ns = int(ends_ns[on_device][-1])
