"""What ranks write of their steps, as rows of many steps at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
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
    return np.full(count, _blank_row(kind))


@cache
def _blank_row(kind: Kind) -> Any:
    row = np.zeros((), dtype=DTYPES[kind])
    for name, unknown in UNKNOWN[kind].items():
        row[name] = unknown
    return row


def ns(seconds: Any) -> Any:
    """Nanoseconds on a node's monotonic clock; shapes follow the argument."""
    return ((np.asarray(seconds) + BOOTED_SECONDS) * NANOSECONDS).astype(np.uint64)


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
        columns: dict[str, list[Any]] = defaultdict(list)
        for one in written:
            for call in self._merged(one):
                for name, values in call.items():
                    columns[name].append(values)
        if not columns:
            return blank(Kind.COLLECTIVE, 0)
        each = [len(ranks) for ranks in columns["rank"]]
        rows = blank(Kind.COLLECTIVE, sum(each))
        for name, values in columns.items():
            whole = np.concatenate(values) if np.ndim(values[0]) else np.repeat(values, each)
            if name in _MOMENTS:
                whole = _MOMENTS[name](whole)
            rows[name] = whole
        rows["longest_ns"] = length(np.concatenate(columns["longest_ns"]))
        return rows

    def _merged(self, one: Written) -> Iterator[dict[str, Any]]:
        """Columns of the rows of a step; a number stands for all of its ranks."""
        seen: dict[tuple[Op, tuple[int, ...]], dict[str, Any]] = {}
        for number, call in enumerate([*one.step.calls, *one.step.exchanges]):
            key = call.op, call.groups
            exposed = call.exposed[one.ranks]
            if (known := seen.get(key)) is not None:
                known["count"] += call.times
                known["bytes"] += call.nbytes
                inside = known.pop("inside")
                known["exposed_ns"] = known["exposed_ns"] + exposed[inside]
                known["longest_ns"] = np.maximum(known["longest_ns"], exposed[inside])
                known["inside"] = inside
            else:
                seen[key] = self._columns(one, number, call, exposed)
        for columns in seen.values():
            del columns["inside"]
            if len(columns["rank"]):
                yield columns

    def _columns(self, one: Written, number: int, call: Call, exposed: Vector) -> dict[str, Any]:
        groups, member = self._of(call.groups)
        inside = member[one.ranks]
        ranks = one.ranks[inside]
        return {
            "inside": inside,
            "rank": ranks,
            "step": one.step.number,
            "time_ns": one.step.end[ranks],
            "seq": one.first[inside] + number,
            "group": groups[ranks],
            "op": int(call.op),
            "count": call.times,
            "bytes": call.nbytes * call.times,
            "exposed_ns": exposed[inside],
            "longest_ns": exposed[inside],
            "first_arrival_ns": call.arrived[ranks],
        }

    def _of(self, groups: tuple[int, ...]) -> tuple[Integers, Any]:
        """The number of each rank's group (ranks,), and whether it is in one."""
        if groups not in self._groups:
            places = np.array(groups)
            self._groups[groups] = self._numbers[places], places >= 0
        return self._groups[groups]


_MOMENTS = {"time_ns": ns, "first_arrival_ns": ns, "exposed_ns": length, "longest_ns": length}
