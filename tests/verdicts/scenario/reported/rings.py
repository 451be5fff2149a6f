"""What ranks write of their steps, as rows of many steps at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.arrays import Integers, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import DTYPES, UNKNOWN, Kind, Op, StepFlag
from tests.verdicts.scenario.course.steps import Call, Step

BOOTED_SECONDS = 40_000.0


class Written(NamedTuple):
    """A step of the ranks that ended it, and the number of their first record of it (ranks,)."""

    step: Step
    ranks: Integers
    first: Integers

    @property
    def at(self) -> float:
        """When the last of them ended it."""
        return float(self.step.end[self.ranks].max())


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
    """Nanoseconds on a node's monotonic clock; shapes follow the argument."""
    return ((np.asarray(seconds) + BOOTED_SECONDS) * NANOSECONDS).astype(np.uint64)


def moment_ns(second: float) -> int:
    """The same of one moment."""
    return int((second + BOOTED_SECONDS) * NANOSECONDS)


def length(seconds: Any) -> Any:
    """A duration in nanoseconds."""
    return (np.maximum(np.asarray(seconds), 0.0) * NANOSECONDS).astype(np.uint64)


def records(step: Step) -> int:
    """How many records a rank writes of a step."""
    return 1 + len(step.calls) + len(step.exchanges)


def step_rows(written: Sequence[Written], microbatches: int) -> Rows:
    """STEP rows."""
    each, steps = [len(one.ranks) for one in written], [one.step for one in written]
    rows = blank(Kind.STEP, sum(each))
    rows["rank"] = np.concatenate([one.ranks for one in written])
    rows["step"] = np.repeat([step.number for step in steps], each)
    last = np.repeat([records(step) - 1 for step in steps], each)
    rows["seq"] = np.concatenate([one.first for one in written]) + last
    rows["time_ns"] = ns(_picked(written, [step.end for step in steps]))
    rows["duration_ns"] = length(_picked(written, [step.end - step.began for step in steps]))
    nothing = np.zeros(len(steps[0].end))
    for name in sorted({name for step in steps for name in step.spent}):
        spent = [step.spent.get(name, nothing) for step in steps]
        rows[f"{name}_ns"] = length(_picked(written, spent))
    rows["tokens"] = _picked(written, [step.tokens for step in steps])
    rows["microbatches"] = microbatches
    rows["flags"] = np.repeat([_flags(step) for step in steps], each)
    rows["loss"] = 1.7 + 6.0 * (rows["step"] + 10.0) ** -0.3
    rows["grad_norm"] = 1.0
    return rows


def _picked(written: Sequence[Written], values: Sequence[Vector]) -> Vector:
    """Of each step's values (ranks,) those of the ranks that wrote it, one step after the other.

    Worked example: values [1 2], [3 4] of steps that rank 1, and both ranks wrote: 2 3 4.
    """
    ranks = written[0].ranks
    if all(one.ranks is ranks for one in written):
        return np.array(values)[:, ranks].ravel()
    chosen = zip(values, written, strict=True)
    return np.concatenate([each[one.ranks] for each, one in chosen])


def _flags(step: Step) -> int:
    first = StepFlag.FIRST if step.number == 0 else StepFlag(0)
    return int(first | (StepFlag.AFTER_PAUSE if step.after_pause else StepFlag(0)))


class CallRows:
    """Makes COLLECTIVE rows: one for each group and operation of a step, however many calls.

    `numbers` are those that the collector knows the groups of the layout by.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = np.array([*numbers, 0])
        self._groups: dict[tuple[int, ...], tuple[Integers, Any]] = {}

    def rows(self, written: Sequence[Written]) -> Rows:
        """The rows of these steps, those of a step in the order of its calls."""
        parts = [self._run([*run]) for _, run in itertools.groupby(written, key=_signature)]
        return np.concatenate([blank(Kind.COLLECTIVE, 0), *parts])

    def _run(self, run: Sequence[Written]) -> Rows:
        """The rows of steps in which the same ranks have the same calls."""
        ranks, calls = run[0].ranks, [_all_calls(one.step) for one in run]
        parts = [self._part(numbers, calls[0], ranks) for numbers in _same_calls(calls[0])]
        parts = [part for part in parts if len(part.ranks)]
        ends = np.array([one.step.end for one in run])
        first = np.array([one.first for one in run])
        steps = np.array([one.step.number for one in run])[:, None]
        width = sum(len(part.ranks) for part in parts)
        found, at = blank(Kind.COLLECTIVE, len(run) * width).reshape(len(run), width), 0
        for part in parts:
            rows = found[:, at : at + len(part.ranks)]
            rows["step"], rows["time_ns"] = steps, ns(ends[:, part.ranks])
            rows["seq"] = first[:, part.inside] + part.numbers[0]
            part.fill(rows, calls)
            at += len(part.ranks)
        return found.ravel()

    def _part(self, numbers: Sequence[int], calls: Sequence[Call], ranks: Integers) -> _Calls:
        groups, member = self._of(calls[numbers[0]].groups)
        inside = member[ranks]
        return _Calls(numbers, ranks[inside], inside, groups[ranks[inside]])

    def _of(self, groups: tuple[int, ...]) -> tuple[Integers, Any]:
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

    def fill(self, rows: Any, calls: Sequence[Sequence[Call]]) -> None:
        """Write what the `calls` of each step took into `rows` (steps, ranks)."""
        ours = [calls[0][number] for number in self.numbers]
        rows["rank"], rows["group"], rows["op"] = self.ranks, self.groups, int(ours[0].op)
        rows["count"] = sum(call.times for call in ours)
        rows["bytes"] = ours[0].nbytes * ours[0].times + sum(call.nbytes for call in ours[1:])
        arrived = np.array([each[self.numbers[0]].arrived for each in calls])[:, self.ranks]
        rows["first_arrival_ns"] = ns(arrived)
        taken = [
            np.array([each[number].exposed for each in calls])[:, self.ranks]
            for number in self.numbers
        ]
        exposed = longest = taken[0]
        for more in taken[1:]:
            exposed, longest = exposed + more, np.maximum(longest, more)
        rows["exposed_ns"], rows["longest_ns"] = length(exposed), length(longest)


def _all_calls(step: Step) -> list[Call]:
    return [*step.calls, *step.exchanges]


def _signature(one: Written) -> tuple[object, ...]:
    """What steps have in common whose rows are made together."""
    calls = _all_calls(one.step)
    return id(one.ranks), *((each.op, each.groups, each.nbytes, each.times) for each in calls)


def _same_calls(calls: Sequence[Call]) -> list[list[int]]:
    """Numbers of calls of one group and operation, together."""
    found: dict[tuple[Op, tuple[int, ...]], list[int]] = {}
    for number, call in enumerate(calls):
        found.setdefault((call.op, call.groups), []).append(number)
    return list(found.values())
