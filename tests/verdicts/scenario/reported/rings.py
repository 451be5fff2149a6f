"""The ranks' step records, as rows for many steps at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.arrays import IntegerMatrix, Integers, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import DTYPES, UNKNOWN, Kind, Op, StepFlag
from tests.verdicts.scenario.course.steps import Call, Step, Steps, join_steps

BOOTED_SECONDS = 40_000.0


class Written(NamedTuple):
    """Steps that ranks have written.

    Args:
        steps: the steps.
        ranks: the ranks that ended them.
        first: the number of each step's first record (steps, ranks).
        end: when the last rank ended each step (steps,).
    """

    steps: Steps
    ranks: Integers
    first: IntegerMatrix
    end: Vector

    def kind(self) -> tuple[object, ...]:
        """Return the properties that steps must share so that their rows are made together."""
        return (id(self.ranks), *self.steps.kind())


def blank(kind: Kind, count: int) -> Rows:
    """Return rows in which every field is unknown."""
    # As plain bytes: numpy fills rows field by field.
    return np.frombuffer(bytearray(_blank_row(kind) * count), dtype=DTYPES[kind])


@cache
def _blank_row(kind: Kind) -> bytes:
    row = np.zeros(1, dtype=DTYPES[kind])
    for name, unknown in UNKNOWN[kind].items():
        row[name] = unknown
    return row.tobytes()


def ns(seconds: Any) -> Any:
    """Return nanoseconds on a node's monotonic clock; shapes follow the argument.

    An event that never comes has no moment, and no rank writes it.
    """
    with np.errstate(invalid="ignore"):
        return ((np.asarray(seconds) + BOOTED_SECONDS) * NANOSECONDS).astype(np.uint64)


def moment_ns(second: float) -> int:
    """Return one moment in nanoseconds on a node's monotonic clock."""
    return int((second + BOOTED_SECONDS) * NANOSECONDS)


def length(seconds: Any) -> Any:
    """Return a duration in nanoseconds."""
    return (np.maximum(np.asarray(seconds), 0.0) * NANOSECONDS).astype(np.uint64)


def records(step: Step | Steps) -> int:
    """Return the number of records that a rank writes in a step."""
    return 1 + len(step.calls) + len(step.exchanges)


def join_written(written: Sequence[Written]) -> Written:
    """Join consecutive steps of one `kind`."""
    if len(written) == 1:
        return written[0]
    return Written(
        join_steps([part.steps for part in written]),
        written[0].ranks,
        np.concatenate([part.first for part in written]),
        np.concatenate([part.end for part in written]),
    )


def step_rows(written: Written, microbatches: int) -> RingRows:
    """Return STEP rows (steps, ranks)."""
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
    """Rows (steps, ranks); `ranks` are the ranks of each step's rows."""

    rows: Any
    ranks: Integers

    def select(self, steps: slice) -> Rows:
        """Return the rows of some steps in ring order: one rank after the other."""
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
    """Makes COLLECTIVE rows: one for each group and operation in a step, for any number of calls.

    `numbers` are the collector's numbers of the layout's groups.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = np.array([*numbers, 0])
        self._groups: dict[tuple[int, ...], tuple[Integers, Any]] = {}

    def rows(self, written: Written) -> RingRows:
        """Return the rows of these steps, within a step in call order."""
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
        """Return the number of each rank's group (ranks,), and whether it is in one."""
        if groups not in self._groups:
            places = np.array(groups)
            self._groups[groups] = self._numbers[places], places >= 0
        return self._groups[groups]


class _Calls(NamedTuple):
    """Calls of each step that are one row for each rank.

    Args:
        numbers: numbers of the calls in the step.
        ranks: ranks in a group.
        inside: whether each writing rank is in a group (ranks that write,).
        groups: the groups' numbers (ranks,).
    """

    numbers: Sequence[int]
    ranks: Integers
    inside: Any
    groups: Integers

    def fill(self, rows: Any, calls: Sequence[Call]) -> None:
        """Write the times of `calls` into `rows` (steps, ranks)."""
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
    """Return the numbers of calls, together where group and operation are the same."""
    numbers: dict[tuple[Op, tuple[int, ...]], list[int]] = {}
    for number, call in enumerate(calls):
        numbers.setdefault((call.op, call.groups), []).append(number)
    return list(numbers.values())
