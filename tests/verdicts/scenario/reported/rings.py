"""Steps in the rings of a node's ranks, on the clock of the node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stepwatch.cli.simulate.rows import Calls, call_rows, step_rows
from stepwatch.signals.arrays import AnyRows, IntegerMatrix, Integers, Rows
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, Op, StepFlag
from tests.verdicts.scenario.course.layout import Layout
from tests.verdicts.scenario.course.program import MICROBATCHES
from tests.verdicts.scenario.course.steps import Call, Step, Steps

BOOTED_SECONDS = 40_000.0


def ns(seconds: Any) -> Any:
    """Return nanoseconds on a node's monotonic clock; shapes follow the argument.

    An event that never comes has no moment, and no rank writes it.
    """
    with np.errstate(invalid="ignore"):
        return ((np.asarray(seconds) + BOOTED_SECONDS) * NANOSECONDS).astype(np.uint64)


def length(seconds: Any) -> Any:
    """Return a duration in nanoseconds."""
    return (np.maximum(np.asarray(seconds), 0.0) * NANOSECONDS).astype(np.uint64)


def records(step: Step | Steps) -> int:
    """Return the number of records that a rank writes in a step."""
    return 1 + len(step.calls) + len(step.exchanges)


class Written:
    """Steps that `ranks` have written, partly sent.

    `first` (ranks, steps) are the numbers of their first records, `groups` those of the groups.
    """

    def __init__(
        self, steps: Steps, ranks: Integers, first: IntegerMatrix, groups: Integers, layout: Layout
    ) -> None:
        self._end = steps.end[:, ranks].max(axis=1)
        self._sent = 0
        number, end = steps.number + np.arange(len(steps.end)), steps.end.T[ranks]
        flags = {"flags": StepFlag.AFTER_PAUSE} if steps.after_pause else {}
        rows = step_rows(
            *first.shape,
            rank=ranks[:, None],
            step=number,
            seq=first + (records(steps) - 1),
            time_ns=ns(end),
            duration_ns=length(end - steps.began.T[ranks]),
            spent_ns={name: length(seconds.T[ranks]) for name, seconds in steps.spent.items()},
            tokens=steps.tokens.T[ranks],
            microbatches=MICROBATCHES if layout.stages > 1 else 1,
            **flags,
        )
        calls = [*steps.calls, *steps.exchanges]
        same = _same_calls(calls)
        merged = [
            _merged(len(calls) - places[0], [calls[place] for place in places], ranks, groups)
            for places in same
        ]
        inside = [np.array(calls[places[0]].groups)[ranks] >= 0 for places in same]
        self._tables: list[tuple[Kind, AnyRows, Any]] = [(Kind.STEP, rows, True)]
        """Rows (ranks, steps, ...), and which of them exist."""
        if merged:
            wrote = np.stack(inside, axis=-1)[:, None]
            self._tables.append((Kind.COLLECTIVE, call_rows(rows, merged), wrote))

    @property
    def is_over(self) -> bool:
        """Whether all steps were sent."""
        return self._sent == len(self._end)

    def due(self, now: float) -> Iterator[tuple[Kind, Rows]]:
        """Yield the rows written by `now` that were not sent yet, one rank after the other."""
        steps = slice(self._sent, int(np.searchsorted(self._end, now, side="right")))
        if steps.stop <= steps.start:
            return
        self._sent = steps.stop
        for kind, table, wrote in self._tables:
            rows = table[:, steps]
            # As plain bytes: numpy copies rows field by field.
            plain = rows.view(np.dtype((np.void, rows.dtype.itemsize)))
            if not np.all(wrote):
                plain = plain[np.broadcast_to(wrote, rows.shape)]
            yield kind, plain.reshape(-1).view(rows.dtype)


def _merged(distance: int, calls: Sequence[Call], ranks: Integers, groups: Integers) -> Calls:
    """Return calls with one group and operation as one row; `groups` are the groups' numbers."""
    exposures = [call.exposed.T[ranks] for call in calls]
    exposed = longest = exposures[0]
    for more in exposures[1:]:
        exposed, longest = exposed + more, np.maximum(longest, more)
    first = calls[0]
    return Calls(
        distance,
        first.op,
        groups[np.array(first.groups)[ranks]][:, None],
        sum(call.times for call in calls),
        first.nbytes * first.times + sum(call.nbytes for call in calls[1:]),
        ns(first.arrived.T[ranks]),
        length(exposed),
        length(longest),
    )


def _same_calls(calls: Sequence[Call]) -> list[list[int]]:
    """Return the numbers of calls, together where group and operation are the same."""
    numbers: dict[tuple[Op, tuple[int, ...]], list[int]] = {}
    for number, call in enumerate(calls):
        numbers.setdefault((call.op, call.groups), []).append(number)
    return list(numbers.values())
