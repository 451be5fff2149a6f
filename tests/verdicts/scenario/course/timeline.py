"""What each rank does when: the steps of a scenario, and where its ranks stand at any moment.

All members of a group meet in its collectives. One is over for all at once, when the last of them
has arrived, plus the transfer; if one never arrives, it is never over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stepwatch.signals.arrays import Matrix, Vector
from stepwatch.signals.records import Op, Phase
from tests.verdicts.scenario.plan import FaultKind, Scenario, Shape

from .interruptions import Interruptions
from .layout import Layout
from .noise import Noise, Work

NEVER = math.inf
_OTHER = 0.01
"""Of a usual step: what ranks do after the optimizer."""
MICROBATCHES = 8
_FIRST_STEP = 4.0


class Place(NamedTuple):
    """Where ranks are from `at` (ranks,) on; `groups` (ranks,) numbers each one's group inside a
    collective, -1 outside."""

    at: Vector
    phase: Phase
    op: Op = Op.OTHER
    groups: tuple[int, ...] | None = None
    waits: bool = False


class Call(NamedTuple):
    """`times` collectives, sends or receives of a step: seconds (ranks,) in which ranks stood in
    them, the moment of arrival at the first; `groups` (ranks,) is -1 for those outside."""

    op: Op
    groups: tuple[int, ...]
    arrived: Vector
    exposed: Vector
    nbytes: int
    times: int = 1


@dataclass
class Step:
    """One step of all ranks; moments are seconds since the ranks began, `end` infinite for those
    that do not come to it."""

    number: int
    began: Vector
    spent: dict[str, Vector] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    exchanges: list[Call] = field(default_factory=list)
    """Sends and receives between pipeline stages: no live line counts them."""
    places: list[Place] = field(default_factory=list)
    tokens: Vector = field(default_factory=lambda: np.zeros(0))
    after_pause: bool = False
    stall: Vector | None = None
    """What a checkpoint before the step took on each rank (ranks,)."""
    saved_from: Vector | None = None
    end: Vector = field(default_factory=lambda: np.zeros(0))


class Timeline:
    """Makes the steps of `scenario` in order; without `faulty` those it had without its faults."""

    def __init__(self, scenario: Scenario, *, faulty: bool = True) -> None:
        self.scenario, self.layout = scenario, Layout(scenario)
        self.interruptions = Interruptions(scenario if faulty else None, scenario.ranks)
        self._faults = scenario.faults if faulty else ()
        self._noise = Noise(scenario)
        self._now = np.zeros(scenario.ranks)
        self._step = Step(0, self._now)

    def steps(self) -> Iterator[Step]:
        """Steps until the scenario is over; the last one may never end."""
        number = 0
        while self._now.min() < self.scenario.seconds:
            yield self._made(number)
            number += 1

    def _made(self, number: int) -> Step:
        work = self._noise.step()
        self._step = step = Step(number, self._now.copy(), tokens=work.tokens)
        self._between(step)
        self._slow(step, work)
        if number == 0:
            work.seconds[:, 1] *= _FIRST_STEP
        {
            Shape.DDP: self._ddp,
            Shape.FSDP2: self._fsdp2,
            Shape.TENSOR: self._tensor,
            Shape.PIPELINE: self._pipeline,
        }[self.scenario.shape](work)
        self._work(Phase.OPTIMIZER, work.seconds[:, 3])
        self._work(Phase.OTHER, np.full(len(self._now), _OTHER * self.scenario.step_seconds))
        step.end = self._now.copy()
        step.places.append(Place(step.end, Phase.DATA))
        return step

    def _between(self, step: Step) -> None:
        """Evaluations and saves before a step."""
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
                if fault.kind is FaultKind.SLOW_SAVER and fault.onset <= self._now.min():
                    seconds[list(fault.ranks)] += fault.effect
            self._work(Phase.CHECKPOINT, seconds)
            step.stall, step.after_pause = self._now - step.saved_from, True

    def _slow(self, step: Step, work: Work) -> None:
        """Add to a step what the faults take."""
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

    def _ddp(self, work: Work) -> None:
        self._work(Phase.DATA, work.seconds[:, 0])
        self._work(Phase.FORWARD, work.seconds[:, 1])
        self._work(Phase.BACKWARD, work.seconds[:, 2])
        self._meet(Phase.BACKWARD, Op.ALL_REDUCE, self.layout.world, work.seconds[0, 4])

    def _fsdp2(self, work: Work) -> None:
        world, transfer = self.layout.world, float(work.seconds[0, 4]) / 3.0
        self._work(Phase.DATA, work.seconds[:, 0])
        self._meet(Phase.FORWARD, Op.ALL_GATHER, world, transfer)
        self._work(Phase.FORWARD, work.seconds[:, 1])
        self._meet(Phase.BACKWARD, Op.ALL_GATHER, world, transfer)
        self._work(Phase.BACKWARD, work.seconds[:, 2])
        self._meet(Phase.BACKWARD, Op.REDUCE_SCATTER, world, transfer)

    def _tensor(self, work: Work) -> None:
        pairs, transfer = self.layout.pairs, float(work.seconds[0, 4]) / 3.0
        assert pairs is not None
        self._work(Phase.DATA, work.seconds[:, 0])
        for phase, column in ((Phase.FORWARD, 1), (Phase.BACKWARD, 2)):
            for half in range(2):
                self._work(phase, work.seconds[:, column] / 2)
                crossed = phase is Phase.BACKWARD and half == 1 and self._crosses()
                groups = self._crossed(pairs) if crossed else pairs
                stuck = range(4) if crossed else range(0)
                self._meet(phase, Op.ALL_REDUCE, groups, transfer / 4, stuck)
        if self.layout.across is not None:
            self._meet(Phase.BACKWARD, Op.ALL_REDUCE, self.layout.across, 2 * transfer)

    def _crosses(self) -> bool:
        return any(
            fault.kind is FaultKind.CROSSED_GROUPS and fault.onset <= float(self._now.max())
            for fault in self._faults
        )

    def _crossed(self, pairs: tuple[int, ...]) -> tuple[int, ...]:
        """Ranks 1 and 2 enter their collectives in the other order, so of ranks 0 to 3 each waits
        for another: 0 in {0, 1} for 1, 1 in {1, 3} for 3, 3 in {2, 3} for 2, 2 in {0, 2} for 0."""
        across = self.layout.across
        assert across is not None
        return tuple(across[at] if at in (1, 2) else group for at, group in enumerate(pairs))

    def _pipeline(self, work: Work) -> None:
        """GPipe: all forwards, then all backwards; each rank passes on to its peer of the next
        stage."""
        count, stages = self.scenario.ranks, self.layout.stages
        self._work(Phase.DATA, work.seconds[:, 0])
        link = np.full(count, work.seconds[0, 4] / (4 * MICROBATCHES))
        for fault in self._faults:
            if fault.kind is FaultKind.SLOW_STAGE_LINK and fault.active(
                float(self._now.max()), self._step.number
            ):
                hit = self.layout.stage_of(fault.ranks[0])
                slow = [self.layout.stage_of(rank) == hit for rank in range(count)]
                more = (fault.effect - 1.0) * self.scenario.step_seconds / (2 * MICROBATCHES)
                link[slow] += more
        order = np.arange(count).reshape(stages, -1)
        self._through(Phase.FORWARD, order, work.seconds[:, 1], link)
        self._through(Phase.BACKWARD, order[::-1], work.seconds[:, 2], link)
        if self.layout.replicas is not None:
            self._meet(Phase.BACKWARD, Op.ALL_REDUCE, self.layout.replicas, work.seconds[0, 4] / 2)

    def _through(
        self,
        phase: Phase,
        order: np.ndarray[tuple[int, int], np.dtype[np.int64]],
        seconds: Vector,
        link: Vector,
    ) -> None:
        """Pass the microbatches through the stages in `order` (stages, replicas).

        A link carries one after the other. Who sends goes on, and waits for its sends at the end.
        """
        began = self._now
        shape = order.shape
        # Rows are stages in this order, columns their replicas.
        free, sent, each = began[order], began[order], seconds[order] / MICROBATCHES
        worked, received, first = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        held_from = np.full(shape, NEVER)
        way, last = link[order], len(order) - 1
        with np.errstate(invalid="ignore"):
            for at in range(MICROBATCHES):
                ready = free[0]
                for place in range(last + 1):
                    start = np.maximum(free[place], ready)
                    held = np.isfinite(free[place]) & np.isinf(start)
                    held_from[place, held] = free[place, held]
                    if at == 0:
                        first[place] = start
                    end = self.interruptions.after(start, each[place], order[place])
                    received[place] += start - free[place]
                    worked[place] += end - start
                    free[place] = end
                    if place < last:
                        ready = sent[place] = np.maximum(end, sent[place]) + way[place]
            self._passed(phase, order, free, sent, worked, received, first, held_from)

    def _passed(
        self,
        phase: Phase,
        order: np.ndarray[tuple[int, int], np.dtype[np.int64]],
        free: Matrix,
        sent: Matrix,
        worked: Matrix,
        received: Matrix,
        first: Matrix,
        held_from: Matrix,
    ) -> None:
        """Note what a pass took, from arrays (stages, replicas) in its order; some wait for ever
        for a microbatch that never comes."""
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
        """Note sends and receives: forward they go to the stage after, backward to that before."""
        ways = [self.layout.before, self.layout.after]
        sources, targets = ways if phase is Phase.FORWARD else ways[::-1]
        self._step.exchanges += [
            Call(Op.RECV, sources, began, received, 1 << 24, MICROBATCHES),
            Call(Op.SEND, targets, began, sent, 1 << 24, MICROBATCHES),
        ]

    def _work(self, phase: Phase, seconds: Vector) -> None:
        began = self._now
        self._step.places.append(Place(began, phase))
        self._now = self.interruptions.after(began, seconds)
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
        """All ranks arrive in their groups' collective; for those `stuck` it is never over."""
        arrived, of = self._now, np.array(groups)
        self._step.places.append(Place(arrived, phase, op, groups))
        over = np.empty(len(arrived))
        for group in sorted({*groups}):
            mine = of == group
            over[mine] = arrived[mine].max() + transfer
            if (self.interruptions.frozen_from[mine] < over[mine]).any():
                over[mine] = NEVER  # a member that is stopped meanwhile passes nothing on
        over[list(stuck)] = NEVER
        if self.interruptions.hangs_inside(float(arrived.max())):
            over[:] = NEVER
        self._now = over
        with np.errstate(invalid="ignore"):
            exposed = over - arrived
        self._step.calls.append(Call(op, groups, arrived, exposed, 1 << 26))
        self._spend("collective", exposed)
