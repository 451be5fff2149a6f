"""What is kept of the steps that left the history of an attempt: sums, and where they ended."""

from __future__ import annotations

import math

import numpy as np

from stepwatch.signals.arrays import Integers, Mask, Vector
from stepwatch.signals.wire import Rows

NEVER = -(1 << 63)
"""Unix nanoseconds of what has not ended: before every time that a row holds."""
REDOABLE = np.dtype([("first_step", "<i8"), ("start_s", "<i8"), ("kept", "<f8"), ("redone", "<f8")])
"""What steps from `first_step` to the next row's add to the good device-seconds of the slice that
starts at `start_s` (Unix seconds): while they count, and once a later attempt redoes them."""
SUMS = np.dtype(
    [
        ("start_s", "<i8"),
        ("good", "<f8"),
        ("total", "<f8"),
        ("observed", "<i8"),
        ("expected", "<i8"),
    ]
)
"""What dropped steps add to the slice that starts at `start_s` (Unix seconds): device-seconds, and
records that came and should have. `good` leaves out what is in rows of `REDOABLE`."""


class DroppedSteps:
    """The first `count` steps of an attempt, and what they add to the slices that they are in.

    The last of those slices ends at `closed_before_s`, Unix seconds. `end_ns` is when the last step
    ended (Unix nanoseconds, `NEVER` before), `fixed_end_ns` when the last of those on the devices'
    clock did, and `seen_step` with `seen_end_ns` the last that a rank reported; `clock_set_ns` is
    by how much clocks were set then. `paused` are the device-seconds of evaluations and saves in
    the last step.
    `tokens`, `longest` (seconds), `newest_end_ns`, `loss_first` and `loss_last` are over all of
    them; `timed` holds the seconds of the first ones on the devices' clock. `sums` holds rows of
    `SUMS` by SLI, in the order of time, and `redoable` rows of `REDOABLE`, in step order.
    `accounts` holds microseconds of device-time by the Unix time of the day, and by what they went
    to, in the order of `slo.waste.CAUSES`.
    `late_rows` counts rows of ranks that came after their step was dropped.
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
        self.late_rows = 0

    def add(self, first_step: int, rows: Rows) -> None:
        """Add up rows of the history, of the steps that follow: the first is `first_step`."""
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
        """Take up when those steps ended, each on its clock, which did so on the devices', and the
        device-seconds of their pauses."""
        self.closed_before_s = max(self.closed_before_s, closed_before_s)
        if len(ends_ns):
            self.end_ns, self.paused = int(ends_ns[-1]), float(pauses[-1])
        if on_device.any():
            self.fixed_end_ns = int(ends_ns[on_device][-1])
