"""One row per step of an attempt, for its whole life: what SLIs, quantiles and progress need."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import chosen, put
from stepwatch.signals.arrays import Integers, Mask
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.wire import Rows

MAX_STEPS = 1 << 20
"""Steps kept per attempt; a hostile step number cannot make the step_history grow beyond them."""
WARMUP_STEPS, BASELINE_STEPS, LEAST_BASELINE_STEPS = 3, 20, 5
"""Steps left out at the start of an attempt (compilation, allocation, caches, loader workers), by
detectors too; steps of its own median; the fewest of those."""
NEWEST_STEPS = 8
"""Steps whose latest end is that of the newest."""

_Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
_Integers = np.ndarray[tuple[int], np.dtype[np.int64]]

UNSETTLED, ON_HOST, ON_DEVICE = 0, 1, 2
"""Which clock a step is counted on; unsettled until that is known."""

ROW = np.dtype(
    [
        ("reported", "<u4"),
        ("end_wall_ns", "<u8"),
        ("longest", "<f8"),
        ("busy", "<f8"),
        ("tokens", "<u8"),
        ("loss", "<f8"),
        ("loss_sum", "<f8"),
        ("loss_ranks", "<u4"),
        ("flags", "<u2"),
        ("clock", "u1"),
    ]
)
"""Seconds but for `end_wall_ns`; `longest` and `busy` exclude checkpoint and evaluation.

`loss` is the mean over the `loss_ranks` that recorded a finite one, NaN where none did; `loss_sum`
is their sum, so that the mean is the same however the rows came. `clock` is written by
`settled_steps`; every other column is what the hosts said.
"""


class StepFacts(NamedTuple):
    """Per-step facts of one attempt, in step order; times in seconds, arrays of one length.

    `end_s` is Unix time of the step's end on the last rank, `busy` the device-seconds of all ranks
    in the step without checkpoint and evaluation, `longest` the slowest rank's step time,
    `observed` the ranks that reported (0: the step is known from its neighbours only), `lost` marks
    steps that a later attempt redoes. `on_device` marks those of which `end_s`, `busy` and
    `longest` are the devices'; of the others they are the hosts'.
    """

    world: int
    began_s: float
    end_s: _Floats
    busy: _Floats
    longest: _Floats
    observed: _Integers
    lost: np.ndarray[tuple[int], np.dtype[np.bool_]]
    on_device: np.ndarray[tuple[int], np.dtype[np.bool_]]


class StepHistory:
    """Steps `first` to `first + len - 1` of one attempt."""

    def __init__(self) -> None:
        self.first = 0
        self._rows = np.zeros(0, dtype=ROW)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def rows(self) -> Rows:
        """The rows so far, oldest step first."""
        return self._rows[: self._used]

    @property
    def steps(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Step number of each row."""
        return np.arange(self.first, self.first + self._used, dtype=np.int64)

    def add(self, steps: Rows, to_wall_ns: int | Integers) -> None:
        """Add STEP rows that `make_room` let through, each (rank, step) once.

        `to_wall_ns` turns monotonic into wall time, the same for all rows or one each. Sums are
        taken row after row (`np.add.at`), so they do not depend on which rows come in one call.
        """
        index = steps["step"].astype(np.int64) - self.first
        rows = self._rows
        pauses = steps["checkpoint_ns"] + steps["eval_ns"]
        seconds = np.maximum(steps["duration_ns"].astype(np.float64) - pauses, 0.0) / NANOSECONDS
        touched, at = np.unique(index, return_inverse=True)
        part = chosen(rows, touched)
        ends = steps["time_ns"].astype(np.int64) + to_wall_ns
        _accumulate(np.add, part, "reported", at, np.ones(len(at)))
        _accumulate(np.add, part, "busy", at, seconds)
        _accumulate(np.add, part, "tokens", at, steps["tokens"])
        _accumulate(np.maximum, part, "longest", at, seconds)
        _accumulate(np.maximum, part, "end_wall_ns", at, ends)
        _accumulate(np.bitwise_or, part, "flags", at, steps["flags"])
        known = np.isfinite(steps["loss"])
        _accumulate(np.add, part, "loss_sum", at[known], steps["loss"][known])
        _accumulate(np.add, part, "loss_ranks", at[known], np.ones(int(known.sum())))
        some = part["loss_ranks"] > 0
        part["loss"][some] = part["loss_sum"][some] / part["loss_ranks"][some]
        put(rows, touched, part)

    def complete_until(self, world: int) -> int:
        """Newest step that `world` ranks and all steps before it reported; first - 1 if none."""
        short = np.flatnonzero(self.rows["reported"] < world)
        return self.first + (int(short[0]) if len(short) else self._used) - 1

    def baseline(self) -> float:
        """Median step time in seconds of the attempt's first steps after its warm-up, on the hosts.

        It is fixed once they are over, so that a run that slows down later is compared with what it
        was, and history does not change. NaN until there are enough.
        """
        longest = self.rows["longest"][WARMUP_STEPS : WARMUP_STEPS + BASELINE_STEPS]
        known = longest[longest > 0]
        return float(np.median(known)) if len(known) >= LEAST_BASELINE_STEPS else float("nan")

    def newest_end_ns(self) -> int:
        """Wall time in nanoseconds at which the newest steps ended; 0 before the first.

        Of a few steps, as ranks report one after the other; not of all, so that a clock that was
        set back is believed.
        """
        return int(self.rows["end_wall_ns"][-NEWEST_STEPS:].max(initial=0))

    def facts(self, world: int, began_s: float, resumed_at: int | None) -> StepFacts:
        """The steps as the hosts have them; those from `resumed_at` on are lost to a later attempt.

        A step that no rank reported is expected all the same; its end is put between those of its
        neighbours. `began_s` is 0 where the start was not received: then the first step began it.
        """
        rows = self.rows
        seen = rows["reported"] > 0
        ends = rows["end_wall_ns"] / NANOSECONDS
        if not seen.all():
            ends = np.interp(self.steps, self.steps[seen], ends[seen])
        lost = np.zeros(self._used, dtype=np.bool_)
        if resumed_at is not None:
            lost = self.steps >= resumed_at
        if not began_s and self._used:
            began_s = float(ends[0] - rows["longest"][0])
        return StepFacts(
            world,
            began_s,
            ends,
            rows["busy"].astype(np.float64),
            rows["longest"].astype(np.float64),
            rows["reported"].astype(np.int64),
            lost,
            np.zeros(self._used, dtype=np.bool_),
        )

    def moves(self, first: Integers, last: Integers) -> Mask:
        """Whether rows of steps `first` to `last` make it begin elsewhere, or have no place in it.

        Element by element.
        """
        if not self._used:
            return last >= first
        return (first < self.first) | (last >= self.first + MAX_STEPS)

    def make_room(self, steps: Rows) -> Rows:
        """The STEP rows that fit into `MAX_STEPS`, after making room for them."""
        found: Rows = steps[self.room_for(steps)]
        return found

    def room_for(self, steps: Rows) -> Mask:
        """Which STEP rows fit into `MAX_STEPS`, after making room for them."""
        numbers = steps["step"].astype(np.int64)
        if not self._used and len(numbers):
            self.first = int(numbers.min())
        if len(numbers) and 0 < self.first - int(numbers.min()) <= MAX_STEPS - self._used:
            self._shift(self.first - int(numbers.min()))
        fits: Mask = (numbers >= self.first) & (numbers < self.first + MAX_STEPS)
        if not fits.any():
            return fits
        used = max(self._used, int(numbers[fits].max()) - self.first + 1)
        if used > len(self._rows):
            # A power of two: the same length whether it grows at once or little by little.
            grown = np.zeros(min(MAX_STEPS, max(1024, 1 << (used - 1).bit_length())), dtype=ROW)
            grown["loss"] = np.nan
            grown[: self._used] = self.rows
            self._rows = grown
        self._used = used
        return fits

    def _shift(self, count: int) -> None:
        earlier = np.zeros(count, dtype=ROW)
        earlier["loss"] = np.nan
        self._rows = np.concatenate([earlier, self.rows])
        self._used += count
        self.first -= count


def _accumulate(
    how: np.ufunc, rows: Rows, name: str, at: Integers, values: np.ndarray[Any, np.dtype[Any]]
) -> None:
    """`how.at(rows[name], at, values)`, in a copy: in place, a field is fifteen times slower."""
    column = np.ascontiguousarray(rows[name])
    how.at(column, at, values.astype(column.dtype))
    rows[name] = column
