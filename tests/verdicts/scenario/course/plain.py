"""Makes many uninterrupted steps at once, equal to the last bit to the single steps of `timeline`.

Moments follow from each other, so they are added step by step as plain numbers: for a few ranks an
array takes ten times as long. Everything that follows from the moments is computed for all steps
together.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stepwatch.signals.arrays import Cube, Matrix, Vector
from stepwatch.signals.records import Op, Phase
from tests.verdicts.scenario.plan import Scenario

from .layout import Layout
from .noise import WorkOfSteps
from .program import (
    COLLECTIVE_BYTES,
    EXCHANGE_BYTES,
    MICROBATCHES,
    Meets,
    Part,
    Passes,
    Works,
    exchange_ways,
    link_seconds,
    stage_order,
)
from .steps import Call, Steps

Moments = list[float]
"""Seconds since the ranks began, by rank."""
Advance = Callable[[int, Moments], Moments]
"""Returns when each rank finishes a part of the step at an index, from the moments it begins."""
_NEVER = np.inf


class PlainSteps:
    """Makes the steps of `layout` by its `program`."""

    def __init__(self, scenario: Scenario, layout: Layout, program: Sequence[Part]) -> None:
        self._usual = scenario.step_seconds
        self._layout, self._program = layout, program

    def steps(self, number: int, began: Vector, work: WorkOfSteps) -> Steps:
        """Return the steps from `number`, which begin at `began` (ranks,) and take `work`."""
        passes = {
            place: _Pass(part, self._layout, work)
            for place, part in enumerate(self._program)
            if isinstance(part, Passes)
        }
        advances = [
            passes[place].advance if place in passes else self._advance(part, work)
            for place, part in enumerate(self._program)
        ]
        moments: list[list[Moments]] = [[] for _ in range(len(advances) + 1)]
        now = began.tolist()
        for index in range(len(work.tokens)):
            moments[0].append(now)
            for place, advance in enumerate(advances, 1):
                now = advance(index, now)
                moments[place].append(now)
        builder = _StepBuilder(np.array(moments))
        for place, part in enumerate(self._program):
            builder.add(part, place, self._layout, passes.get(place))
        return builder.steps(number, work)

    def _advance(self, part: Part, work: WorkOfSteps) -> Advance:
        if isinstance(part, Works):
            seconds: list[Moments] = part.seconds(work.seconds, self._usual).tolist()
            return lambda index, now: list(map(operator.add, now, seconds[index]))
        assert isinstance(part, Meets)
        transfer, groups = part.transfer(work.seconds).tolist(), part.groups
        members = [
            [rank for rank, group in enumerate(groups) if group == number]
            for number in sorted({*groups})
        ]
        if len(members) == 1:
            return lambda index, now: [max(now) + transfer[index]] * len(now)

        place = {groups[ranks[0]]: number for number, ranks in enumerate(members)}
        places = [place[group] for group in groups]
        pick = [operator.itemgetter(*ranks) if len(ranks) > 1 else None for ranks in members]

        def meet(index: int, now: Moments) -> Moments:
            more = transfer[index]
            over = [
                (max(getter(now)) if getter is not None else now[ranks[0]]) + more
                for ranks, getter in zip(members, pick, strict=True)
            ]
            return [over[place] for place in places]

        return meet


class _Pass:
    """Microbatches on their way through the stages in some steps; lists of (steps, ranks)."""

    def __init__(self, part: Passes, layout: Layout, work: WorkOfSteps) -> None:
        ranks = work.tokens.shape[1]
        self._order = stage_order(part, layout.stages, ranks).T.tolist()
        self._seconds = (work.seconds[..., part.column] / MICROBATCHES).tolist()
        self._link = link_seconds(work.seconds).tolist()
        self._ranks = ranks
        self.worked: list[Moments] = []
        self.received: list[Moments] = []
        self.first: list[Moments] = []
        self.free: list[Moments] = []

    def advance(self, index: int, now: Moments) -> Moments:
        """Return when each rank has finished and sent its last microbatch."""
        seconds, link, nothing = self._seconds[index], self._link[index], [0.0] * self._ranks
        free, sent, first = now.copy(), now.copy(), now.copy()
        worked, received = nothing.copy(), nothing.copy()
        for stages in self._order:
            last = stages[-1]
            for microbatch in range(MICROBATCHES):
                ready = free[stages[0]]
                for rank in stages:
                    begins = free[rank]
                    start = ready if ready > begins else begins
                    if not microbatch:
                        first[rank] = start
                    end = start + seconds[rank]
                    received[rank] += start - begins
                    worked[rank] += end - start
                    free[rank] = end
                    if rank != last:
                        previous = sent[rank]
                        ready = sent[rank] = (end if end > previous else previous) + link
        for series, new in zip(
            (self.worked, self.received, self.first, self.free),
            (worked, received, first, free),
            strict=True,
        ):
            series.append(new)
        return list(map(max, free, sent))


class _StepBuilder:
    """Builds steps from their known `moments` (parts + 1, steps, ranks)."""

    def __init__(self, moments: Cube) -> None:
        self._moments = moments
        self._spent: dict[str, Matrix] = {}
        self._calls: list[Call] = []
        self._exchanges: list[Call] = []
        self._places: list[tuple[Matrix, tuple[Any, ...]]] = []
        """The moments at which ranks come to a place, and the other fields of `Place`."""

    def add(self, part: Part, place: int, layout: Layout, passed: _Pass | None) -> None:
        """Add the next part of the steps."""
        began, over = self._moments[place], self._moments[place + 1]
        if isinstance(part, Works):
            self._places.append((began, (part.phase,)))
            self._spend(part.phase.name.lower(), over - began)
        elif isinstance(part, Meets):
            exposed = over - began
            self._places.append((began, (part.phase, part.op, part.groups)))
            self._calls.append(Call(part.op, part.groups, began, exposed, COLLECTIVE_BYTES))
            self._spend("collective", exposed)
        else:
            assert passed is not None
            self._add_pass(part, layout, passed, began, over)

    def _add_pass(
        self, part: Passes, layout: Layout, passed: _Pass, began: Matrix, over: Matrix
    ) -> None:
        worked, received, first, free = map(
            np.array, (passed.worked, passed.received, passed.first, passed.free)
        )
        waiting = part.phase, Op.OTHER, None, True
        self._places += [
            (began, waiting),
            (first, (part.phase,)),
            (np.full_like(began, _NEVER), waiting),
        ]
        self._spend("pipeline_wait", over - began - worked)
        self._spend(part.phase.name.lower(), worked)
        sources, targets = exchange_ways(layout, forward=part.forward)
        self._exchanges += [
            Call(op, groups, began, exposed, EXCHANGE_BYTES, MICROBATCHES)
            for op, groups, exposed in (
                (Op.RECV, sources, received),
                (Op.SEND, targets, over - free),
            )
        ]

    def _spend(self, name: str, seconds: Matrix) -> None:
        self._spent[name] = self._spent.get(name, 0.0) + seconds

    def steps(self, number: int, work: WorkOfSteps) -> Steps:
        """Return the steps from `number`."""
        ends = self._moments[-1]
        return Steps(
            number,
            self._moments[0],
            self._spent,
            self._calls,
            self._exchanges,
            [*self._places, (ends, (Phase.DATA,))],
            work.tokens,
            ends,
        )
