"""One row per step of an attempt, the newest of them: what SLIs, quantiles and progress need.

Steps that are complete and old leave it once the slices that they are in are stored; what is needed
of them later is small (`dropped_steps`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import accumulate, chosen, put
from stepwatch.collector.state.trackers.steps.dropped_steps import DroppedSteps
from stepwatch.signals.arrays import Integers, Mask, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import StepFlag
from stepwatch.signals.wire import Rows

MAX_STEPS = 1 << 20
"""Steps held per attempt; a hostile step number cannot make the step_history grow beyond them."""
WARMUP_STEPS, BASELINE_STEPS, LEAST_BASELINE_STEPS = 3, 20, 5
"""Steps left out at the start of an attempt (compilation, allocation, caches, loader workers), by
detectors too; steps of its own median; the fewest of those."""
NEWEST_STEPS = 8
"""Steps whose latest end is that of the newest."""

_Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
_Integers = np.ndarray[tuple[int], np.dtype[np.int64]]

UNSETTLED, ON_HOST, ON_DEVICE = 0, 1, 2
"""Which clock a step is counted on; unsettled until that is known."""

SPENT = ("data", "collective", "pipeline_wait", "checkpoint", "eval")
"""Columns of which the seconds of all ranks of a step are summed."""
PARTS = (*SPENT, "least_collective")
"""The same, and how long the rank was in collectives that was so for the shortest time, infinite
before any reported."""
ROW = np.dtype(
    [
        ("reported", "<u4"),
        ("end_wall_ns", "<u8"),
        ("end_unset_ns", "<u8"),
        ("longest", "<f8"),
        ("busy", "<f8"),
        ("tokens", "<u8"),
        ("loss", "<f8"),
        ("loss_sum", "<f8"),
        ("loss_ranks", "<u4"),
        ("flags", "<u2"),
        ("clock", "u1"),
        ("received_s", "<f8"),
        *((name, "<f4") for name in PARTS),
    ]
)
"""Seconds but for the ends; `longest` and `busy` exclude checkpoint and evaluation.

`end_unset_ns` is what `end_wall_ns` would be if nobody had set a clock since the attempt began.

`received_s` is when the collector received the first row, Unix time, infinite before it.

`loss` is the mean over the `loss_ranks` that recorded a finite one, NaN where none did; `loss_sum`
is their sum, so that the mean is the same however the rows came. `clock` is written by
`settled_steps`; every other column is what the hosts said.
"""


def no_rows(count: int) -> Rows:
    """Rows of steps of which nothing was received."""
    rows = np.zeros(count, dtype=ROW)
    rows["loss"], rows["least_collective"], rows["received_s"] = np.nan, np.inf, np.inf
    return rows


class StepFacts(NamedTuple):
    """Per-step facts of one attempt, in step order; times in seconds, arrays of one length.

    Moments are whole nanoseconds: as a float, Unix time is rounded to 2.4e-7 s, which is 1.5e-5
    device-seconds of 64 ranks. `began_ns` is when the attempt, or the first step held, began.

    `end_ns` is Unix nanoseconds of the step's end on the last rank, `busy` the device-seconds of
    all ranks in the step without checkpoint and evaluation, `longest` the slowest rank's step time,
    `observed` the ranks that reported (0: the step is known from its neighbours only), `lost` marks
    steps that a later attempt redoes. `allocated` are the seconds since the step before ended, or
    since the attempt began: also where somebody set the clock in between. `on_device` marks those
    of which `end_s`, `busy` and `longest` are the devices'; of the others they are the hosts'.
    `parts` has the columns `PARTS`: where the ranks were in the step, on the same clock, NaN where
    that is not known. `tokens` are those of all ranks. `unfinished` marks steps that some rank left
    by an exception: nothing of them is kept, and who has not reported them never will. `expected`
    is how many ranks should have reported: all but those that are done.
    """

    world: int
    began_ns: int
    end_ns: _Integers
    busy: _Floats
    longest: _Floats
    observed: _Integers
    lost: np.ndarray[tuple[int], np.dtype[np.bool_]]
    allocated: _Floats
    on_device: np.ndarray[tuple[int], np.dtype[np.bool_]]
    parts: Rows
    tokens: _Integers
    unfinished: np.ndarray[tuple[int], np.dtype[np.bool_]]
    expected: _Integers

    @property
    def end_s(self) -> _Floats:
        """When each step ended on the last rank, Unix seconds (steps,)."""
        return np.asarray(self.end_ns / NANOSECONDS)

    @property
    def pauses(self) -> _Floats:
        """Device-seconds of evaluations and saves in each step (steps,); 0 where unknown."""
        parts = [self.parts[name].astype(np.float64) for name in ("eval", "checkpoint")]
        return np.asarray(np.nansum(parts, axis=0))


class StepHistory:
    """Steps `first` to `first + len - 1` of one attempt; those before `held_from` were dropped.

    `beginning` are the rows of the first steps, from the first drop on.
    """

    def __init__(self) -> None:
        self.first = 0
        self.dropped = DroppedSteps()
        self.beginning = np.zeros(0, dtype=ROW)
        self._rows = np.zeros(0, dtype=ROW)
        self._used = 0

    def __len__(self) -> int:
        return self.dropped.count + self._used

    @property
    def held_from(self) -> int:
        """The first step of which there is a row."""
        return self.first + self.dropped.count

    @property
    def rows(self) -> Rows:
        """The rows held, oldest step first."""
        return self._rows[: self._used]

    @property
    def steps(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Step number of each row held."""
        return np.arange(self.held_from, self.held_from + self._used, dtype=np.int64)

    @property
    def longest(self) -> float:
        """Seconds of the longest step; 0 before the first."""
        return max(self.dropped.longest, float(self.rows["longest"].max(initial=0.0)))

    def part(self, steps: slice) -> tuple[Integers, Rows]:
        """Numbers and rows of some steps, counted from the first one of the attempt.

        Of those that were dropped only the `beginning` is known.
        """
        start, stop, _ = steps.indices(len(self))
        if stop <= len(self.beginning):
            rows = self.beginning[start:stop]
        else:
            start = max(start, self.dropped.count)
            rows = self.rows[start - self.dropped.count : stop - self.dropped.count]
        return np.arange(self.first + start, self.first + start + len(rows)), rows

    def drop(self, count: int) -> None:
        """Let the first `count` rows go."""
        if not self.dropped.count:
            self.beginning = self.rows[: WARMUP_STEPS + BASELINE_STEPS].copy()
        self.dropped.add(self.held_from, self.rows[:count])
        self._rows, self._used = self.rows[count:].copy(), self._used - count

    def add(
        self,
        steps: Rows,
        to_wall_ns: int | Integers,
        set_ns: int | Integers = 0,
        received_s: float | Vector = math.inf,
    ) -> None:
        """Add STEP rows that `make_room` let through, each (rank, step) once.

        `to_wall_ns` turns monotonic into wall time, `set_ns` is by how much the wall clock was set
        by then, `received_s` when they were received: the same for all rows or one each. Sums are
        taken row after row (`np.add.at`), so they do not depend on which rows come in one call.
        """
        index = steps["step"].astype(np.int64) - self.held_from
        rows = self._rows
        pauses = steps["checkpoint_ns"] + steps["eval_ns"]
        seconds = np.maximum(steps["duration_ns"].astype(np.float64) - pauses, 0.0) / NANOSECONDS
        touched, places = _places(index)
        part = chosen(rows, touched)
        ends = steps["time_ns"].astype(np.int64) + to_wall_ns
        accumulate(np.add, part, "reported", places, np.ones(len(places)))
        accumulate(np.add, part, "busy", places, seconds)
        accumulate(np.add, part, "tokens", places, steps["tokens"])
        accumulate(np.maximum, part, "longest", places, seconds)
        accumulate(np.maximum, part, "end_wall_ns", places, ends)
        accumulate(np.maximum, part, "end_unset_ns", places, ends - set_ns)
        accumulate(np.bitwise_or, part, "flags", places, steps["flags"])
        accumulate(
            np.minimum, part, "received_s", places, np.broadcast_to(received_s, places.shape)
        )
        for name in SPENT:
            spent = steps[f"{name}_ns"]
            if spent.any():  # most are 0 in most steps
                accumulate(np.add, part, name, places, spent / NANOSECONDS)
        waited = steps["collective_ns"] / NANOSECONDS
        accumulate(np.minimum, part, "least_collective", places, waited)
        finite = np.isfinite(steps["loss"])
        accumulate(np.add, part, "loss_sum", places[finite], steps["loss"][finite])
        accumulate(np.add, part, "loss_ranks", places[finite], np.ones(int(finite.sum())))
        has_loss = part["loss_ranks"] > 0
        part["loss"][has_loss] = part["loss_sum"][has_loss] / part["loss_ranks"][has_loss]
        put(rows, touched, part)

    def complete_until(self, expected: int | _Integers) -> int:
        """Newest step that all `expected` ranks reported, as all steps before it; first - 1 if
        none.

        `expected` is the same for all steps, or (held,). What was dropped counts as reported.
        """
        short = self.rows["reported"] < expected
        return self.held_from + (int(np.argmax(short)) if short.any() else self._used) - 1

    def baseline(self) -> float:
        """Median step time in seconds of the attempt's first steps after its warm-up, on the hosts.

        It is fixed once they are over, so that a run that slows down later is compared with what it
        was, and history does not change. NaN until there are enough.
        """
        _, first = self.part(slice(WARMUP_STEPS, WARMUP_STEPS + BASELINE_STEPS))
        return _usual_of(first["longest"].tobytes())

    def newest_end_ns(self) -> int:
        """Wall time in nanoseconds at which the newest steps ended; 0 before the first.

        Of a few steps, as ranks report one after the other; not of all, so that a clock that was
        set back is believed.
        """
        return int(self.rows["end_wall_ns"][-NEWEST_STEPS:].max(initial=0))

    def set_s_of(self, place: int) -> float:
        """By how much clocks were set since the attempt began when the step of a row ended."""
        row = self.rows[place : place + 1]
        if row["reported"].all():  # nearly always: then no step before it is asked
            return int((row["end_wall_ns"] - row["end_unset_ns"]).astype(np.int64)[0]) / NANOSECONDS
        return int(self._clock_set_ns()[place]) / NANOSECONDS

    def facts(self, world: int, began_ns: int, resumed_at: int | None) -> StepFacts:
        """The steps held as the hosts have them; those from `resumed_at` on are lost to a later
        attempt.

        A step that no rank reported is expected all the same; its end is put between those of its
        neighbours. `began_ns` (Unix nanoseconds) is 0 where the start was not received: then the
        first step began it.
        """
        rows, ends, began_known = self.rows, self._ends_ns(), bool(began_ns)
        lost = np.zeros(self._used, dtype=np.bool_)
        if resumed_at is not None:
            lost = self.steps >= resumed_at
        if self.dropped.count:
            began_ns = self.dropped.end_ns
        elif not began_ns and self._used:
            began_ns = int(ends[0]) - round(float(rows["longest"][0]) * NANOSECONDS)
        return StepFacts(
            world,
            began_ns,
            ends,
            rows["busy"].astype(np.float64),
            rows["longest"].astype(np.float64),
            rows["reported"].astype(np.int64),
            lost,
            self.allocated(began_ns, ends, began_known=began_known),
            np.zeros(self._used, dtype=np.bool_),
            rows[[*PARTS]],
            rows["tokens"].astype(np.int64),
            rows["flags"] & StepFlag.UNFINISHED > 0,
            np.full(self._used, world),
        )

    def allocated(self, began_ns: int, ends_ns: _Integers, *, began_known: bool) -> _Floats:
        """Seconds between steps that end at `ends_ns` (held,), the first since `began_ns`, without
        changes of the clock. An unknown beginning is derived from the first end."""
        set_ns = self._clock_set_ns()[: len(ends_ns)]
        from_first = not began_known and not self.dropped.count and len(set_ns) > 0
        set_before_ns = int(set_ns[0]) if from_first else self.dropped.clock_set_ns
        ends = np.concatenate([[began_ns - set_before_ns], ends_ns - set_ns])
        return np.asarray(np.maximum(np.diff(ends), 0) / NANOSECONDS)

    def _clock_set_ns(self) -> _Integers:
        """Nanoseconds by which clocks were set when the step of each row ended (held,). A step
        without a report takes the value of the step before."""
        rows = self.rows
        offsets = (rows["end_wall_ns"] - rows["end_unset_ns"]).astype(np.int64)
        if offsets.any():
            newest_reported = np.where(rows["reported"] > 0, np.arange(len(rows)), -1)
            last = np.maximum.accumulate(newest_reported)
            offsets = np.where(last < 0, self.dropped.clock_set_ns, offsets[last])
        return np.asarray(offsets)

    def _ends_ns(self) -> _Integers:
        """When the step of each row ended, Unix nanoseconds (held,): reported, or interpolated
        between its neighbours."""
        is_reported = self.rows["reported"] > 0
        ends: _Integers = self.rows["end_wall_ns"].astype(np.int64)
        if is_reported.all():
            return ends
        steps, reported = self.steps[is_reported], ends[is_reported]
        if self.dropped.seen_step >= 0:
            steps = np.concatenate([[self.dropped.seen_step], steps])
            reported = np.concatenate([[self.dropped.seen_end_ns], reported])
        if not len(steps):
            return ends
        # Relative to the first, so that the floats in between are exact to a nanosecond.
        offsets = np.rint(np.interp(self.steps, steps, reported - reported[0]))
        return np.asarray(reported[0] + offsets.astype(np.int64))

    def moves(self, first: Integers, last: Integers) -> Mask:
        """Whether rows of steps `first` to `last` make it begin elsewhere, or have no place in it.

        Element by element.
        """
        if not len(self):
            return last >= first
        return (first < self.first) | (last >= self.held_from + MAX_STEPS)

    def make_room(self, steps: Rows) -> Rows:
        """The STEP rows that fit into `MAX_STEPS`, after making room for them."""
        fitting: Rows = steps[self.room_for(steps)]
        return fitting

    def room_for(self, steps: Rows) -> Mask:
        """Which STEP rows fit into `MAX_STEPS`, after making room for them.

        Not those of steps that were dropped: they are late.
        """
        numbers = steps["step"].astype(np.int64)
        if not len(self) and len(numbers):
            self.first = int(numbers.min())
        if self.dropped.count:
            self.dropped.late_rows += int((numbers < self.held_from).sum())
        elif len(numbers) and 0 < self.first - int(numbers.min()) <= MAX_STEPS - self._used:
            self._shift(self.first - int(numbers.min()))
        fits: Mask = (numbers >= self.held_from) & (numbers < self.held_from + MAX_STEPS)
        if not fits.any():
            return fits
        used = max(self._used, int(numbers[fits].max()) - self.held_from + 1)
        if used > len(self._rows):
            # A power of two: the same length whether it grows at once or little by little.
            grown = no_rows(min(MAX_STEPS, max(1024, 1 << (used - 1).bit_length())))
            grown[: self._used] = self.rows
            self._rows = grown
        self._used = used
        return fits

    def _shift(self, count: int) -> None:
        self._rows = np.concatenate([no_rows(count), self.rows])
        self._used += count
        self.first -= count


@lru_cache(maxsize=1024)
def _usual_of(seconds: bytes) -> float:
    """Median of those of the first steps that ranks reported: asked for several times in each
    evaluation, and nearly always they are those of before."""
    longest = np.frombuffer(seconds)
    reported = longest[longest > 0]
    return float(np.median(reported)) if len(reported) >= LEAST_BASELINE_STEPS else float("nan")


def _places(index: Integers) -> tuple[Integers, Integers]:
    """Numbers of rows, rising, all of `index` among them, and where among these each of it is.

    Rows come of a few neighbouring steps: then all between them are taken, without sorting.
    7, 9, 7 -> (7, 8, 9), (0, 2, 0); 7, 1000, 7 -> (7, 1000), (0, 1, 0).
    """
    if len(index):
        least, most = int(index.min()), int(index.max())
        if most - least < 2 * len(index):
            return np.arange(least, most + 1), index - least
    return np.unique(index, return_inverse=True)
