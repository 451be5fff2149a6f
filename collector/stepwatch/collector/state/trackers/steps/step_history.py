"""One row per step of an attempt, newest steps only, for SLIs, quantiles and progress.

Complete old steps leave it once their slices are stored; a small summary stays (`dropped_steps`).
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import accumulate, chosen, put
from stepwatch.collector.state.trackers.steps.dropped_steps import DroppedSteps
from stepwatch.signals.arrays import Integers, Mask, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import StepFlag
from stepwatch.signals.wire import Rows

MAX_STEPS = 1 << 20
"""Maximum steps per attempt; a hostile step number cannot make the history grow further."""
WARMUP_STEPS, BASELINE_STEPS, LEAST_BASELINE_STEPS = 3, 20, 5
"""Warm-up steps; steps in the baseline median; the fewest valid ones.

The warm-up covers compilation, allocation, caches and loader workers; detectors skip it, too.
"""
NEWEST_STEPS = 8
"""Number of newest steps whose latest end counts as the newest end."""

_Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
_Integers = np.ndarray[tuple[int], np.dtype[np.int64]]

UNSETTLED, ON_HOST, ON_DEVICE = 0, 1, 2
"""Clock that a step counts on; unsettled until decided."""

SPENT = ("data", "collective", "pipeline_wait", "checkpoint", "eval")
"""Columns with seconds summed over all ranks in a step."""
PARTS = (*SPENT, "least_collective")
"""`SPENT`, and the shortest collective time of any rank, infinite before a report."""
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
"""Seconds except the ends; `longest` and `busy` exclude checkpoint and evaluation.

`end_unset_ns` is `end_wall_ns` without the clock changes since the attempt began.

`received_s` is the first row's receive time, Unix seconds, infinite before it.

`loss` is the mean over the `loss_ranks` with a finite loss, NaN without any; `loss_sum` is their
sum, so the mean does not depend on the row order. `settled_steps` writes `clock`; all other columns
are host values.
"""


def no_rows(count: int) -> Rows:
    """Return rows for steps without any report."""
    rows = np.zeros(count, dtype=ROW)
    rows["loss"], rows["least_collective"], rows["received_s"] = np.nan, np.inf, np.inf
    return rows


class _StepColumns(NamedTuple):
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


class StepFacts(_StepColumns):
    """Per-step facts about one attempt, in step order; times in seconds, arrays with equal length.

    Moments are whole nanoseconds: as a float, Unix time is rounded to 2.4e-7 s, which is 1.5e-5
    device-seconds for 64 ranks.

    Attributes:
        began_ns: start of the attempt, or of the first step in memory.
        end_ns: the step's end on the last rank, Unix nanoseconds.
        busy: all ranks' device-seconds in the step without checkpoint and evaluation.
        longest: the slowest rank's step time.
        observed: number of reporting ranks (0: the step is known from its neighbours only).
        lost: steps that a later attempt redoes.
        allocated: seconds since the previous step's end or the attempt's start; clock changes do
            not count.
        on_device: whether `end_s`, `busy` and `longest` are device values, else host values.
        parts: columns `PARTS`, on the same clock, NaN while unknown.
        tokens: all ranks' tokens.
        unfinished: steps that a rank left by an exception: their work is not kept, and missing
            ranks will never report.
        expected: number of ranks that should report: all except ranks that are done.
    """

    @cached_property
    def end_s(self) -> _Floats:
        """End of each step on the last rank, Unix seconds (steps,)."""
        return np.asarray(self.end_ns / NANOSECONDS)

    @cached_property
    def pauses(self) -> _Floats:
        """Device-seconds of evaluations and saves in each step (steps,); 0 while unknown."""
        parts = [self.parts[name].astype(np.float64) for name in ("eval", "checkpoint")]
        evaluated, saved = (np.where(part == part, part, 0.0) for part in parts)
        return np.asarray(evaluated + saved)


class StepHistory:
    """Steps `first` to `first + len - 1` of one attempt; steps before `held_from` were dropped.

    `beginning` holds the first steps' rows, from the first drop on.
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
        """First step with a row."""
        return self.first + self.dropped.count

    @property
    def rows(self) -> Rows:
        """Rows in memory, oldest step first."""
        return self._rows[: self._used]

    @property
    def steps(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Step number of each row in memory."""
        return np.arange(self.held_from, self.held_from + self._used, dtype=np.int64)

    @property
    def longest(self) -> float:
        """Longest step in seconds; 0 before the first."""
        return max(self.dropped.longest, float(self.rows["longest"].max(initial=0.0)))

    def part(self, steps: slice) -> tuple[Integers, Rows]:
        """Return numbers and rows for some steps, relative to the attempt's first step.

        Among the dropped steps only the `beginning` is known.
        """
        start, stop, _ = steps.indices(len(self))
        if stop <= len(self.beginning):
            rows = self.beginning[start:stop]
        else:
            start = max(start, self.dropped.count)
            rows = self.rows[start - self.dropped.count : stop - self.dropped.count]
        return np.arange(self.first + start, self.first + start + len(rows)), rows

    def drop(self, count: int) -> None:
        """Drop the first `count` rows."""
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
        """Add STEP rows that `make_room` accepted, each (rank, step) once.

        `to_wall_ns` converts monotonic to wall time, `set_ns` is the clock change until then,
        `received_s` the receive time: one value, or one per row. Sums are added row by row
        (`np.add.at`), so the split into calls makes no difference.
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
            if spent.any():  # usually all zero
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
        """Return the newest step up to which all `expected` ranks reported; first - 1 if none.

        `expected` is one value, or (held,). Dropped steps count as reported.
        """
        short = self.rows["reported"] < expected
        return self.held_from + (int(np.argmax(short)) if short.any() else self._used) - 1

    def baseline(self) -> float:
        """Return the median host time of the first steps after the warm-up, in seconds.

        It is fixed once these are over: a run that slows down is compared with its own start, and
        history does not change. NaN until there are enough.
        """
        _, first = self.part(slice(WARMUP_STEPS, WARMUP_STEPS + BASELINE_STEPS))
        return _usual_of(first["longest"].tobytes())

    def newest_end_ns(self) -> int:
        """Return the newest steps' latest end, wall nanoseconds; 0 before the first.

        It covers a few steps, as ranks report one by one; not all, so a clock that was set back is
        believed.
        """
        return int(self.rows["end_wall_ns"][-NEWEST_STEPS:].max(initial=0))

    def set_s_of(self, place: int) -> float:
        """Return how far clocks were set between the attempt's start and the step's end."""
        row = self.rows[place : place + 1]
        if row["reported"].all():  # nearly always: then no earlier step is needed
            return int((row["end_wall_ns"] - row["end_unset_ns"]).astype(np.int64)[0]) / NANOSECONDS
        return int(self._clock_set_ns()[place]) / NANOSECONDS

    def facts(self, world: int, began_ns: int, resumed_at: int | None) -> StepFacts:
        """Return the host facts for the steps in memory.

        Steps from `resumed_at` on are lost to a later attempt. A step without reports is still
        expected; its end is interpolated. `began_ns` (Unix nanoseconds) is 0 without a start
        report: then the first step began the attempt.
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
        """Return the seconds between step ends (held,), without clock changes.

        The first interval starts at `began_ns`; an unknown start is derived from the first end.
        """
        set_ns = self._clock_set_ns()[: len(ends_ns)]
        from_first = not began_known and not self.dropped.count and len(set_ns) > 0
        set_before_ns = int(set_ns[0]) if from_first else self.dropped.clock_set_ns
        ends = np.concatenate([[began_ns - set_before_ns], ends_ns - set_ns])
        return np.asarray(np.maximum(np.diff(ends), 0) / NANOSECONDS)

    def _clock_set_ns(self) -> _Integers:
        """Return the clock change in nanoseconds at each step's end (held,).

        A step without a report takes the previous step's value.
        """
        rows = self.rows
        offsets = (rows["end_wall_ns"] - rows["end_unset_ns"]).astype(np.int64)
        if offsets.any():
            newest_reported = np.where(rows["reported"] > 0, np.arange(len(rows)), -1)
            last = np.maximum.accumulate(newest_reported)
            offsets = np.where(last < 0, self.dropped.clock_set_ns, offsets[last])
        return np.asarray(offsets)

    def _ends_ns(self) -> _Integers:
        """Return each step's end, Unix nanoseconds (held,): reported, or interpolated."""
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
        # Relative to the first, so the interpolated floats are exact to a nanosecond.
        offsets = np.rint(np.interp(self.steps, steps, reported - reported[0]))
        return np.asarray(reported[0] + offsets.astype(np.int64))

    def moves(self, first: Integers, last: Integers) -> Mask:
        """Return whether steps `first` to `last` change its start or do not fit, elementwise."""
        if not len(self):
            return last >= first
        return (first < self.first) | (last >= self.held_from + MAX_STEPS)

    def make_room(self, steps: Rows) -> Rows:
        """Return the STEP rows that fit into `MAX_STEPS`, after making room for them."""
        fitting: Rows = steps[self.room_for(steps)]
        return fitting

    def room_for(self, steps: Rows) -> Mask:
        """Return which STEP rows fit into `MAX_STEPS`, after making room for them.

        Rows for dropped steps are late and do not fit.
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
            # A power of two: the length is the same whether it grows at once or in small steps.
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
    """Return the median of the reported first steps; cached because it rarely changes."""
    longest = np.frombuffer(seconds)
    reported = longest[longest > 0]
    return float(np.median(reported)) if len(reported) >= LEAST_BASELINE_STEPS else float("nan")


def _places(index: Integers) -> tuple[Integers, Integers]:
    """Return sorted row numbers that include `index`, and each entry's position among them.

    Rows usually cover a few neighbouring steps: then the full range is used, without sorting. 7, 9,
    7 -> (7, 8, 9), (0, 2, 0); 7, 1000, 7 -> (7, 1000), (0, 1, 0).
    """
    if len(index):
        least, most = int(index.min()), int(index.max())
        if most - least < 2 * len(index):
            return np.arange(least, most + 1), index - least
    return np.unique(index, return_inverse=True)
