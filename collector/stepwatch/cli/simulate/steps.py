"""Work and wait times of each rank in a fleet, one step of all ranks at a time.

All ranks meet at the first collective in a step. It ends for all ranks at once: after the last one
has arrived, plus the transfer. So a slow rank makes the others wait, and waits for no other:

    rank 0   data forward backward ..wait.. transfer  later collectives  optimizer other
    rank 1   data forward ....... backward  transfer  later collectives  optimizer other
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.faults.specs import Fault
from stepwatch.signals.arrays import Integers, Vector32
from stepwatch.signals.records import Op

from .faults import Hang, Kill, SlowCompute, SlowData, Slower, SlowLink, SlowNode
from .plan import Plan
from .rows import loss_of

NEVER = 1 << 62
"""A moment that never comes, in nanoseconds."""
_DATA, _FORWARD, _BACKWARD, _OPTIMIZER, _OTHER = 0.03, 0.29, 0.5, 0.04, 0.01
_TRANSFER, _LATER_TRANSFER = 0.08, 0.02
"""Parts of a typical step: phases, and the exposed share of the first collective and later ones."""
_RANK_SPREAD = 0.012
"""Spread of the ranks' permanent speeds; lognormal, as all spreads below."""
_COMPUTE_SPREAD, _DATA_SPREAD, _TRANSFER_SPREAD = 0.015, 0.15, 0.04
_ARRIVAL_SPREAD = 0.014
"""Spread of a rank's arrival at the collective.

Because of it the last of N ranks arrives later than the median one.
"""
_FIRST_STEP = 4.0
"""The first step's forward over a typical one: it compiles."""
_LONG_STEPS = 300
"""One step in this many is long: one rank takes 1.3 to 2 times as long, without a fault."""
_LEAST_NOISE, _NOISE_ROWS = 1 << 17, 16
"""Least amount of random numbers drawn at the start, and least rows of ranks among them.

Each step reads them from another offset.
"""


class Collective(NamedTuple):
    """A collective in each step: across nodes or within one, its calls, and bytes per rank."""

    op: Op
    between_nodes: bool
    calls: int
    nbytes: int


COLLECTIVES = (
    Collective(Op.ALL_REDUCE, True, 8, 1 << 28),
    Collective(Op.REDUCE_SCATTER, False, 32, 1 << 28),
    Collective(Op.ALL_GATHER, False, 64, 1 << 25),
    Collective(Op.BROADCAST, True, 2, 1 << 20),
    Collective(Op.ALL_TO_ALL, False, 16, 1 << 24),
    Collective(Op.BARRIER, True, 1, 0),
)
"""In the order in which a step runs them; a plan uses the first few."""


class Step(NamedTuple):
    """One step; arrays (ranks,) of nanoseconds, moments in true time since the run began.

    A rank works from `began` to `arrive`, waits until `release`, which is the same for all, and
    ends at `end`. `transfers` holds one time for each collective in the step; ranks wait only in
    the first. Moments that never happen are `NEVER`.
    """

    number: int
    began: Integers
    data: Integers
    forward: Integers
    backward: Integers
    optimizer: Integers
    other: Integers
    arrive: Integers
    release: int
    transfers: tuple[int, ...]
    end: Integers
    loss: float
    grad_norm: float

    @property
    def first_end(self) -> int:
        """When the first rank ends the step."""
        return int(self.end.min())

    @property
    def last_end(self) -> int:
        """When the last rank ends the step."""
        return int(self.end.max())


class StepModel:
    """Creates the steps of `plan` in order; the same for the same seed, at any speed."""

    def __init__(self, plan: Plan, noise: np.random.Generator) -> None:
        self._plan = plan
        self._noise = noise
        latest = math.sqrt(2.0 * math.log(max(plan.ranks, 2)))
        self._unit = plan.step_ns / (1.0 + _ARRIVAL_SPREAD * latest)
        speed = np.exp(_RANK_SPREAD * noise.standard_normal(plan.ranks, np.float32))
        self._speed: Vector32 = np.minimum(speed, 1.0 + 3.0 * _RANK_SPREAD).astype(np.float32)
        drawn = max(_LEAST_NOISE, _NOISE_ROWS * plan.ranks) + plan.ranks
        self._drawn = noise.standard_normal(drawn, np.float32)
        self._began = np.zeros(plan.ranks, dtype=np.int64)
        self._number = 0
        self.stopped_by: Fault | None = None
        """The fault after which no step ends."""

    @property
    def is_over(self) -> bool:
        """Whether there is no further step."""
        plan = self._plan
        by_steps = plan.steps is not None and self._number >= plan.steps
        seconds = float("inf") if plan.seconds is None else plan.seconds
        by_time = float(self._began.max()) >= seconds * 1e9
        return by_steps or by_time or self.stopped_by is not None

    def step(self) -> Step:
        """Return the next step for all ranks."""
        number = self._number
        forward, backward = self._compute(number)
        data = self._around(_DATA, _DATA_SPREAD)
        transfers = self._transfers()
        for fault in self._plan.faults:
            if isinstance(fault, Slower) and fault.active(number):
                self._slow(fault, (data, forward, backward, transfers))
        optimizer = self._around(_OPTIMIZER, _COMPUTE_SPREAD)
        parts = [_as_integers(part) for part in (data, forward, backward, optimizer)]
        step = self._timed(
            parts, _as_integers(self._around(_OTHER, _DATA_SPREAD)), _as_integers(transfers)
        )
        self._began, self._number = step.end, number + 1
        return step

    def _compute(self, number: int) -> tuple[Vector32, Vector32]:
        forward = self._speed * self._around(_FORWARD, _COMPUTE_SPREAD)
        backward = self._speed * self._around(_BACKWARD, _COMPUTE_SPREAD)
        if number == 0:
            forward *= np.float32(_FIRST_STEP)
        elif self._noise.random() < 1.0 / _LONG_STEPS:
            slow, factor = self._noise.integers(len(forward)), self._noise.uniform(1.3, 2.0)
            forward[slow] *= factor
            backward[slow] *= factor
        return forward, backward

    def _transfers(self) -> Vector32:
        count = self._plan.collectives
        shares = np.full(count, _LATER_TRANSFER, dtype=np.float32)
        shares[0] = _TRANSFER
        spread = _TRANSFER_SPREAD * self._noise.standard_normal(count, np.float32)
        return np.asarray(np.float32(self._unit) * shares * np.exp(spread))

    def _around(self, share: float, spread: float) -> Vector32:
        """Return nanoseconds (ranks,) around a share of a step."""
        start = int(self._noise.integers(len(self._drawn) - self._plan.ranks + 1))
        drawn = self._drawn[start : start + self._plan.ranks]
        return np.asarray(np.float32(share * self._unit) * np.exp(np.float32(spread) * drawn))

    def _slow(self, fault: Slower, parts: tuple[Vector32, ...]) -> None:
        data, forward, backward, transfers = parts
        factor = np.float32(fault.factor)
        if isinstance(fault, SlowLink):
            between = [collective.between_nodes for collective in COLLECTIVES[: len(transfers)]]
            transfers[between] *= factor
        elif isinstance(fault, SlowData):
            data[fault.rank] *= factor
        elif isinstance(fault, (SlowCompute, SlowNode)):
            first, count = fault.rank, 1
            if isinstance(fault, SlowNode):
                count = self._plan.ranks_per_node
                first = self._plan.node_of(fault.rank) * count
            slow = slice(first, first + count)
            forward[slow] *= factor
            backward[slow] *= factor

    def _timed(self, parts: list[Integers], other_ns: Integers, transfers: Integers) -> Step:
        data, forward, backward, optimizer = parts
        began, number = self._began, self._number
        arrive = began + data + forward + backward
        self.stopped_by = next(
            (
                fault
                for fault in self._plan.faults
                if isinstance(fault, (Hang, Kill)) and fault.step == number
            ),
            None,
        )
        release = int(arrive.max()) + int(transfers[0])
        end = release + int(transfers[1:].sum()) + optimizer + other_ns
        if self.stopped_by is not None:
            arrive[self.stopped_by.rank] = release = NEVER
            end = np.full_like(began, NEVER)
        return Step(
            number=number,
            began=began,
            data=data,
            forward=forward,
            backward=backward,
            optimizer=optimizer,
            other=other_ns,
            arrive=arrive,
            release=release,
            transfers=tuple(transfers.tolist()),
            end=end,
            loss=loss_of(number) + 0.01 * float(self._noise.normal()),
            grad_norm=float(np.exp(self._noise.normal(0.0, 0.05))),
        )


def _as_integers(nanoseconds: Vector32) -> Integers:
    return nanoseconds.astype(np.int64)
