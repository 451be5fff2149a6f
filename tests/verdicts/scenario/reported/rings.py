"""What ranks write of their steps, as rows of many steps at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.arrays import IntegerMatrix, Integers, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import DTYPES, UNKNOWN, Kind, Op, StepFlag
from tests.verdicts.scenario.course.steps import Call, Step, Steps, together

BOOTED_SECONDS = 40_000.0


class Written(NamedTuple):
    """Steps of the ranks that ended them, the number of the first record of each (steps, ranks),
    and when the last rank ended each (steps,)."""

    steps: Steps
    ranks: Integers
    first: IntegerMatrix
    end: Vector

    def kind(self) -> tuple[object, ...]:
        """What those have in common whose rows are made together."""
        return (id(self.ranks), *self.steps.kind())


def blank(kind: Kind, count: int) -> Rows:
    """Rows in which every field is unknown."""
    # As plain bytes: numpy fills rows field by field.
    return np.frombuffer(bytearray(_blank_row(kind) * count), dtype=DTYPES[kind])


@cache
def _blank_row(kind: Kind) -> bytes:
    row = np.zeros(1, dtype=DTYPES[kind])
    for name, unknown in UNKNOWN[kind].items():
        row[name] = unknown
    return row.tobytes()


def ns(seconds: Any) -> Any:
    """Nanoseconds on a node's monotonic clock; shapes follow the argument.

    What never comes is no moment, and nobody writes it.
    """
    with np.errstate(invalid="ignore"):
        return ((np.asarray(seconds) + BOOTED_SECONDS) * NANOSECONDS).astype(np.uint64)


def moment_ns(second: float) -> int:
    """The same of one moment."""
    return int((second + BOOTED_SECONDS) * NANOSECONDS)


def length(seconds: Any) -> Any:
    """A duration in nanoseconds."""
    return (np.maximum(np.asarray(seconds), 0.0) * NANOSECONDS).astype(np.uint64)


def records(step: Step | Steps) -> int:
    """How many records a rank writes of a step."""
    return 1 + len(step.calls) + len(step.exchanges)


def joined(written: Sequence[Written]) -> Written:
    """Those of one `kind` that follow each other as one."""
    if len(written) == 1:
        return written[0]
    return Written(
        together([part.steps for part in written]),
        written[0].ranks,
        np.concatenate([part.first for part in written]),
        np.concatenate([part.end for part in written]),
    )


def step_rows(written: Written, microbatches: int) -> RingRows:
    """STEP rows (steps, ranks)."""
    steps, ranks = written.steps, written.ranks
    count = len(steps.end)
    numbers = steps.number + np.arange(count)[:, None]
    rows = blank(Kind.STEP, count * len(ranks)).reshape(count, len(ranks))
    rows["rank"], rows["step"] = ranks, numbers
    rows["seq"] = written.first + (records(steps) - 1)
    rows["time_ns"] = ns(steps.end[:, ranks])
    rows["duration_ns"] = length(steps.end[:, ranks] - steps.began[:, ranks])
    for name, seconds in steps.spent.items():
        rows[f"{name}_ns"] = length(seconds[:, ranks])
    rows["tokens"] = steps.tokens[:, ranks]
    rows["microbatches"] = microbatches
    first = np.where(numbers == 0, StepFlag.FIRST, StepFlag(0))
    rows["flags"] = first | (StepFlag.AFTER_PAUSE if steps.after_pause else StepFlag(0))
    rows["loss"] = 1.7 + 6.0 * (numbers + 10.0) ** -0.3
    rows["grad_norm"] = 1.0
    return RingRows(rows, ranks)


class RingRows(NamedTuple):
    """Rows (steps, each) of which those of a step are of these `ranks` (each,)."""

    rows: Any
    ranks: Integers

    def select(self, steps: slice) -> Rows:
        """Those of some steps, as they lie in the rings: of one rank after the other."""
        rows = self.rows[steps]
        order = _rank_after_rank(self.ranks.tobytes(), len(rows))
        plain = rows.reshape(-1).view(np.dtype((np.void, rows.dtype.itemsize)))
        selection: Rows = plain[order].view(rows.dtype)
        return selection


@lru_cache(maxsize=1024)
def _rank_after_rank(ranks: bytes, steps: int) -> Integers:
    every = np.tile(np.frombuffer(ranks, dtype=np.int64), steps)
    return np.argsort(every, kind="stable")


class CallRows:
    """Makes COLLECTIVE rows: one for each group and operation of a step, however many calls.

    `numbers` are those that the collector knows the groups of the layout by.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = np.array([*numbers, 0])
        self._groups: dict[tuple[int, ...], tuple[Integers, Any]] = {}

    def rows(self, written: Written) -> RingRows:
        """The rows of these steps, those of a step in the order of its calls."""
        steps, ranks = written.steps, written.ranks
        calls = [*steps.calls, *steps.exchanges]
        parts = [self._part(numbers, calls[numbers[0]], ranks) for numbers in _same_calls(calls)]
        parts = [part for part in parts if len(part.ranks)]
        count, width = len(steps.end), sum(len(part.ranks) for part in parts)
        table, offset = blank(Kind.COLLECTIVE, count * width).reshape(count, width), 0
        times = ns(steps.end)
        for part in parts:
            rows = table[:, offset : offset + len(part.ranks)]
            rows["step"] = steps.number + np.arange(count)[:, None]
            rows["time_ns"] = times[:, part.ranks]
            rows["seq"] = written.first[:, part.inside] + part.numbers[0]
            part.fill(rows, [calls[number] for number in part.numbers])
            offset += len(part.ranks)
        return RingRows(table, np.concatenate([ranks[:0], *(part.ranks for part in parts)]))

    def _part(self, numbers: Sequence[int], call: Call, ranks: Integers) -> _Calls:
        groups, member = self._group_numbers(call.groups)
        inside = member[ranks]
        return _Calls(numbers, ranks[inside], inside, groups[ranks[inside]])

    def _group_numbers(self, groups: tuple[int, ...]) -> tuple[Integers, Any]:
        """The number of each rank's group (ranks,), and whether it is in one."""
        if groups not in self._groups:
            places = np.array(groups)
            self._groups[groups] = self._numbers[places], places >= 0
        return self._groups[groups]


class _Calls(NamedTuple):
    """Calls of each step, by their `numbers` in it, that are one row for each of `ranks`: those
    `inside` (ranks that write,) a group, whose number is in `groups` (ranks,)."""

    numbers: Sequence[int]
    ranks: Integers
    inside: Any
    groups: Integers

    def fill(self, rows: Any, calls: Sequence[Call]) -> None:
        """Write what `calls` took into `rows` (steps, ranks)."""
        rows["rank"], rows["group"], rows["op"] = self.ranks, self.groups, int(calls[0].op)
        rows["count"] = sum(call.times for call in calls)
        rows["bytes"] = calls[0].nbytes * calls[0].times + sum(call.nbytes for call in calls[1:])
        rows["first_arrival_ns"] = ns(calls[0].arrived[:, self.ranks])
        exposures = [call.exposed[:, self.ranks] for call in calls]
        exposed = longest = exposures[0]
        for more in exposures[1:]:
            exposed, longest = exposed + more, np.maximum(longest, more)
        rows["exposed_ns"], rows["longest_ns"] = length(exposed), length(longest)


def _same_calls(calls: Sequence[Call]) -> list[list[int]]:
    """Numbers of calls of one group and operation, together."""
    numbers: dict[tuple[Op, tuple[int, ...]], list[int]] = {}
    for number, call in enumerate(calls):
        numbers.setdefault((call.op, call.groups), []).append(number)
    return list(numbers.values())
