"""The steps of a scenario: what each rank does when, and its place at any moment.

All members of a group meet in its collectives. A collective ends for all at once: at the arrival
of its last member, plus the transfer. If a member never arrives, it never ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from stepwatch.cli.simulate.rows import Place
from stepwatch.signals.arrays import IntegerMatrix, Matrix, Vector
from stepwatch.signals.records import Op, Phase
from tests.verdicts.scenario.plan import FaultKind, Scenario

from .interruptions import Interruptions
from .layout import Layout
from .noise import Noise, Work
from .plain import PlainSteps
from .program import (
    COLLECTIVE_BYTES,
    EXCHANGE_BYTES,
    MICROBATCHES,
    Meets,
    Passes,
    Works,
    exchange_ways,
    link_seconds,
    program_of,
    stage_order,
)
from .steps import Call, Step, Steps

NEVER = math.inf
_FIRST_STEP = 4.0


_MOST_PLAIN = 1 << 20


class Timeline:
    """Makes the steps of `scenario` in order; with `faulty` false, without its faults."""

    def __init__(self, scenario: Scenario, *, faulty: bool = True) -> None:
        self.scenario, self.layout = scenario, Layout(scenario)
        self.interruptions = Interruptions(scenario if faulty else None, scenario.ranks)
        self._faults = scenario.faults if faulty else ()
        self._noise = Noise(scenario)
        self._program = program_of(scenario, self.layout)
        self._uninterrupted = PlainSteps(scenario, self.layout, self._program)
        self._now = np.zeros(scenario.ranks)
        self._step = Step(0, self._now)
        self._link = np.zeros(scenario.ranks)

    def steps(self) -> Iterator[Step]:
        """Yield steps until the scenario is over; the last one may never end."""
        for block in self.blocks():
            if isinstance(block, Step):
                yield block
            else:
                yield from map(block.step, range(len(block.end)))

    def blocks(self) -> Iterator[Step | Steps]:
        """Yield the same steps; steps that are made at once come together."""
        number = 0
        while self._now.min() < self.scenario.seconds:
            if plain := self._plain(number):
                work = self._noise.steps(plain)
                steps = self._uninterrupted.steps(number, self._now, work)
                begun = int((steps.began.min(axis=1) < self.scenario.seconds).sum())
                steps = steps.select(slice(begun))
                self._now = steps.end[-1]
                number += len(steps.end)
                yield steps
                continue
            yield self._make_step(number)
            number += 1

    def _plain(self, number: int) -> int:
        """Return the number of uninterrupted steps from `number`."""
        if not number or self._faults:
            return 0
        every = [
            pauses.every for pauses in (self.scenario.pauses, self.scenario.saves) if pauses.every
        ]
        if any(number % interval == 0 for interval in every):
            return 0
        return min((interval - number % interval for interval in every), default=_MOST_PLAIN)

    def _make_step(self, number: int) -> Step:
        work = self._noise.step()
        self._step = step = Step(number, self._now.copy(), tokens=work.tokens)
        self._between(step)
        self._slow(step, work)
        if number == 0:
            work.seconds[:, 1] *= _FIRST_STEP
        for part in self._program:
            if isinstance(part, Works):
                self._work(part.phase, part.seconds(work.seconds, self.scenario.step_seconds))
            elif isinstance(part, Meets):
                self._meets(part, float(part.transfer(work.seconds)))
            else:
                self._passes(part, work)
        step.end = self._now.copy()
        step.places.append(Place(step.end, Phase.DATA))
        return step

    def _between(self, step: Step) -> None:
        """Add evaluations and saves before a step."""
        pauses, saves, count = self.scenario.pauses, self.scenario.saves, self.scenario.ranks
        if pauses.every and step.number and step.number % pauses.every == 0:
            seconds = np.full(count, pauses.seconds)
            if pauses.rank >= 0:
                seconds[np.arange(count) != pauses.rank] = 0.0
            self._work(Phase.EVAL if pauses.marked else Phase.OTHER, seconds)
            step.after_pause = pauses.marked
        if saves.every and step.number and step.number % saves.every == 0:
            seconds, step.saved_from = np.full(count, saves.seconds), self._now.copy()
            for fault in self._faults:
                if fault.kind is FaultKind.CHECKPOINT_STALL and fault.lasts(float(self._now.min())):
                    seconds[list(fault.ranks)] += fault.effect
            self._work(Phase.CHECKPOINT, seconds)
            step.stall, step.after_pause = self._now - step.saved_from, True

    def _slow(self, step: Step, work: Work) -> None:
        """Add the faults' time to a step."""
        usual = self.scenario.step_seconds
        for fault in self._faults:
            if not fault.active(float(step.began.max()), step.number):
                continue
            ranks, more = list(fault.ranks), (fault.effect - 1.0) * usual
            if fault.kind in (FaultKind.SLOW_COMPUTE, FaultKind.SLOW_NODE):
                work.seconds[ranks, 1:3] *= fault.effect
            elif fault.kind in (FaultKind.SLOW_DATA, FaultKind.SLOW_DATA_EVERYWHERE):
                work.seconds[ranks, 0] += more
            elif fault.kind is FaultKind.SLOW_OPTIMIZER:
                work.seconds[ranks, 3] += more
            elif fault.kind is FaultKind.SLOW_LINK:
                work.seconds[:, 4] += more

    def _meets(self, part: Meets, transfer: float) -> None:
        crossed = part.crossed and self._crosses()
        groups = self._crossed(part.groups) if crossed else part.groups
        self._meet(part.phase, part.op, groups, transfer, range(4) if crossed else range(0))

    def _crosses(self) -> bool:
        return any(
            fault.kind is FaultKind.CROSSED_GROUPS and fault.onset <= float(self._now.max())
            for fault in self._faults
        )

    def _crossed(self, pairs: tuple[int, ...]) -> tuple[int, ...]:
        """Return the groups that ranks 1 and 2 enter in the other order: a circle of ranks 0 to 3.

        Rank 0 waits in {0, 1} for 1, 1 in {1, 3} for 3, 3 in {2, 3} for 2, and 2 in {0, 2} for 0.
        """
        across = self.layout.across
        assert across is not None
        return tuple(across[rank] if rank in (1, 2) else group for rank, group in enumerate(pairs))

    def _passes(self, part: Passes, work: Work) -> None:
        if part.forward:
            self._link = self._links(work)
        order = stage_order(part, self.layout.stages, self.scenario.ranks)
        self._through(part.phase, order, work.seconds[:, part.column], self._link)

    def _links(self, work: Work) -> Vector:
        """Return the seconds (ranks,) of the microbatches' way from each rank, in this step."""
        link = np.full(self.scenario.ranks, float(link_seconds(work.seconds)))
        now = float(self._now.max())
        for fault in self._faults:
            if fault.kind is FaultKind.SLOW_STAGE_LINK and fault.active(now, self._step.number):
                hit = self.layout.stage_of(fault.ranks[0])
                slow = [self.layout.stage_of(rank) == hit for rank in range(len(link))]
                more = (fault.effect - 1.0) * self.scenario.step_seconds / (2 * MICROBATCHES)
                link[slow] += more
        return link

    def _through(
        self,
        phase: Phase,
        order: IntegerMatrix,
        seconds: Vector,
        link: Vector,
    ) -> None:
        """Pass the microbatches through the stages in `order` (stages, replicas).

        A link carries one microbatch after the other. A sender continues, and waits for its sends
        at the end.
        """
        began = self._now
        shape = order.shape
        # Rows are stages in this order, columns are their replicas.
        free, sent, microbatch_seconds = began[order], began[order], seconds[order] / MICROBATCHES
        worked, received, first = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        held_from = np.full(shape, NEVER)
        way, last = link[order], len(order) - 1
        with np.errstate(invalid="ignore"):
            for microbatch in range(MICROBATCHES):
                ready = free[0]
                for place in range(last + 1):
                    start = np.maximum(free[place], ready)
                    blocked = np.isfinite(free[place]) & np.isinf(start)
                    held_from[place, blocked] = free[place, blocked]
                    if microbatch == 0:
                        first[place] = start
                    end = self.interruptions.end_of_work(
                        start, microbatch_seconds[place], order[place]
                    )
                    received[place] += start - free[place]
                    worked[place] += end - start
                    free[place] = end
                    if place < last:
                        ready = sent[place] = np.maximum(end, sent[place]) + way[place]
            self._passed(phase, order, free, sent, worked, received, first, held_from)

    def _passed(
        self,
        phase: Phase,
        order: IntegerMatrix,
        free: Matrix,
        sent: Matrix,
        worked: Matrix,
        received: Matrix,
        first: Matrix,
        held_from: Matrix,
    ) -> None:
        """Record a pass from arrays (stages, replicas) in its order.

        Some ranks wait for ever for a microbatch that never comes.
        """
        began, rank = self._now, np.argsort(order, axis=None)
        over = np.maximum(free, sent)
        self._step.places += [
            Place(began, phase, waits=True),
            Place(first.ravel()[rank], phase),
            Place(held_from.ravel()[rank], phase, waits=True),
        ]
        self._now = over.ravel()[rank]
        self._spend("pipeline_wait", self._now - began - worked.ravel()[rank])
        self._spend(phase.name.lower(), worked.ravel()[rank])
        self._exchange(phase, began, received.ravel()[rank], (over - free).ravel()[rank])

    def _exchange(self, phase: Phase, began: Vector, received: Vector, sent: Vector) -> None:
        """Record sends and receives: forward to the next stage, backward to the previous one."""
        sources, targets = exchange_ways(self.layout, forward=phase is Phase.FORWARD)
        self._step.exchanges += [
            Call(Op.RECV, sources, began, received, EXCHANGE_BYTES, MICROBATCHES),
            Call(Op.SEND, targets, began, sent, EXCHANGE_BYTES, MICROBATCHES),
        ]

    def _work(self, phase: Phase, seconds: Vector) -> None:
        began = self._now
        self._step.places.append(Place(began, phase))
        self._now = self.interruptions.end_of_work(began, seconds)
        with np.errstate(invalid="ignore"):
            self._spend(phase.name.lower(), self._now - began)

    def _spend(self, name: str, seconds: Vector) -> None:
        self._step.spent[name] = self._step.spent.get(name, 0.0) + seconds

    def _meet(
        self,
        phase: Phase,
        op: Op,
        groups: tuple[int, ...],
        transfer: float,
        stuck: Sequence[int] = (),
    ) -> None:
        """All ranks arrive in their groups' collective; it never ends for the `stuck` ranks."""
        arrived, group_of_rank = self._now, np.array(groups)
        self._step.places.append(Place(arrived, phase, op, groups))
        over = np.empty(len(arrived))
        for group in sorted({*groups}):
            members = group_of_rank == group
            over[members] = arrived[members].max() + transfer
            if (self.interruptions.frozen_from[members] < over[members]).any():
                over[members] = NEVER  # a member that is stopped meanwhile passes nothing on
        over[list(stuck)] = NEVER
        if self.interruptions.hangs_inside(float(arrived.max())):
            over[:] = NEVER
        self._now = over
        with np.errstate(invalid="ignore"):
            exposed = over - arrived
        self._step.calls.append(Call(op, groups, arrived, exposed, COLLECTIVE_BYTES))
        self._spend("collective", exposed)
