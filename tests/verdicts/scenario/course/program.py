"""The parts of a step, by the job's shape; they are the same in every step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.arrays import IntegerMatrix
from stepwatch.signals.records import Op, Phase
from tests.verdicts.scenario.plan import Scenario, Shape

from .layout import Layout
from .noise import COLUMNS

MICROBATCHES = 8
Floats = np.ndarray[Any, np.dtype[np.float64]]
"""Values of one step or several: (..., ranks, columns) or without the last axes."""
COLLECTIVE_BYTES, EXCHANGE_BYTES = 1 << 26, 1 << 24
DATA, FORWARD, BACKWARD, OPTIMIZER, TRANSFER = range(len(COLUMNS))
"""Columns of `noise.Work`."""
_BETWEEN = -1
_OTHER = 0.01
"""The ranks' time after the optimizer, as a share of a usual step."""


class Works(NamedTuple):
    """Each rank works for a `share` of the seconds in a column."""

    phase: Phase
    column: int
    share: float = 1.0

    def seconds(self, durations: Floats, usual: float) -> Floats:
        """Return seconds (..., ranks) of steps that take `durations` (..., ranks, columns).

        `usual` is the duration of a usual step in seconds.
        """
        if self.column == _BETWEEN:
            return np.full(durations.shape[:-1], _OTHER * usual)
        return np.asarray(durations[..., self.column] * self.share)


class Meets(NamedTuple):
    """All ranks arrive in their groups' collective, which then transfers.

    The transfer takes a `share` of the transfer column's seconds, divided by `parts`. `crossed`
    marks the part at which groups may be crossed.
    """

    phase: Phase
    op: Op
    groups: tuple[int, ...]
    parts: float = 1.0
    share: float = 1.0
    crossed: bool = False

    def transfer(self, durations: Floats) -> Floats:
        """Return the transfer's seconds (...) in steps of `durations` (..., ranks, columns).

        All ranks have one time.
        """
        return np.asarray(durations[..., 0, TRANSFER] / self.parts * self.share)


class Passes(NamedTuple):
    """The microbatches pass through the stages, `forward` or backward."""

    phase: Phase
    column: int
    forward: bool


Part = Works | Meets | Passes


def program_of(scenario: Scenario, layout: Layout) -> tuple[Part, ...]:
    """Return the parts of a step in their order."""
    shape = {
        Shape.DDP: _ddp,
        Shape.FSDP2: _fsdp2,
        Shape.TENSOR: _tensor,
        Shape.PIPELINE: _pipeline,
    }[scenario.shape](layout)
    return (
        Works(Phase.DATA, DATA),
        *shape,
        Works(Phase.OPTIMIZER, OPTIMIZER),
        Works(Phase.OTHER, _BETWEEN),
    )


def _ddp(layout: Layout) -> tuple[Part, ...]:
    return (
        Works(Phase.FORWARD, FORWARD),
        Works(Phase.BACKWARD, BACKWARD),
        Meets(Phase.BACKWARD, Op.ALL_REDUCE, layout.world),
    )


def _fsdp2(layout: Layout) -> tuple[Part, ...]:
    return (
        Meets(Phase.FORWARD, Op.ALL_GATHER, layout.world, parts=3.0),
        Works(Phase.FORWARD, FORWARD),
        Meets(Phase.BACKWARD, Op.ALL_GATHER, layout.world, parts=3.0),
        Works(Phase.BACKWARD, BACKWARD),
        Meets(Phase.BACKWARD, Op.REDUCE_SCATTER, layout.world, parts=3.0),
    )


def _tensor(layout: Layout) -> tuple[Part, ...]:
    pairs, parts = layout.pairs, list[Part]()
    assert pairs is not None
    for phase, column in ((Phase.FORWARD, FORWARD), (Phase.BACKWARD, BACKWARD)):
        for half in range(2):
            crossed = phase is Phase.BACKWARD and half == 1
            parts += [
                Works(phase, column, 0.5),
                Meets(phase, Op.ALL_REDUCE, pairs, parts=3.0, share=0.25, crossed=crossed),
            ]
    if layout.across is not None:
        parts.append(Meets(Phase.BACKWARD, Op.ALL_REDUCE, layout.across, parts=3.0, share=2.0))
    return tuple(parts)


def _pipeline(layout: Layout) -> tuple[Part, ...]:
    """GPipe: all forwards, then all backwards; ranks send to their peers of the next stage."""
    passes = (Passes(Phase.FORWARD, FORWARD, True), Passes(Phase.BACKWARD, BACKWARD, False))
    if layout.replicas is None:
        return passes
    return (*passes, Meets(Phase.BACKWARD, Op.ALL_REDUCE, layout.replicas, share=0.5))


def link_seconds(durations: Floats) -> Floats:
    """Return the seconds (...) that a microbatch takes on the way to the next stage."""
    return np.asarray(durations[..., 0, TRANSFER] / (4 * MICROBATCHES))


def stage_order(part: Passes, stages: int, ranks: int) -> IntegerMatrix:
    """Return each stage's ranks (stages, replicas), in the microbatches' order."""
    order = np.arange(ranks).reshape(stages, -1)
    return order if part.forward else order[::-1]


def exchange_ways(layout: Layout, *, forward: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the groups (ranks,) from which each rank receives, and to which it sends.

    Forward these are the previous stage and the next one.
    """
    ways = layout.previous_stage, layout.next_stage
    return ways if forward else ways[::-1]
