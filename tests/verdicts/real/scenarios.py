"""Scenarios that this machine can run: DDP on two nodes, with one fault from outside."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import NamedTuple

from tests.verdicts.scenario.plan import (
    SLOWING,
    Fault,
    FaultKind,
    Pace,
    Pauses,
    Scenario,
    Shape,
    Telemetry,
)
from tests.verdicts.scenario.sampler import sample
from tests.verdicts.scenario.truth import Expected, expected

from .ways import SIGNALS, WAYS, Way, way_of

RANKS, NODES, STEP_SECONDS = 4, 2, 0.3
ONSET_SECONDS = (14.0, 24.0)
SLOW_SECONDS, AFTER_SECONDS = 45.0, 28.0
"""Seconds that a run lasts after its fault's onset: a fault that slows it, or that ends it."""
BUSY_SECONDS = 150.0
"""The same for a rank that computes for ever: it may evaluate, which is a pause of two minutes."""
HEALTHY_SHARE, LOST_SHARE = 0.2, 0.2
LEAST_EFFECT = 1.15
_LOST_BEFORE_SECONDS = 8.0
_ALL = frozenset({FaultKind.STOP_ALL, FaultKind.SLOW_DATA_EVERYWHERE})


class Planned(NamedTuple):
    """A scenario, and the way in which its fault is caused."""

    scenario: Scenario
    way: Way


def plan_scenario(seed: int, way: Way | None = None) -> Planned:
    """Return the scenario of `seed`; `way` chooses how its fault is caused."""
    dice = random.Random(f"real {seed}")
    drawn = way_of(dice)
    healthy = way is None and dice.random() < HEALTHY_SHARE
    way = way or drawn
    base = Scenario(
        seed, Shape.DDP, RANKS, NODES, STEP_SECONDS, Pace.RECORDED, SLOW_SECONDS, peers_raise=True
    )
    if healthy:
        return Planned(base, way._replace(name=SIGNALS))
    fault = _fault(dice, seed, way.kind)
    lost = Telemetry(
        killed_node=dice.randrange(NODES), killed_at=fault.onset - _LOST_BEFORE_SECONDS
    )
    scenario = replace(
        base,
        faults=(fault,),
        seconds=fault.onset + _seconds_after(way.kind),
        telemetry=lost if dice.random() < LOST_SHARE else Telemetry(),
        pauses=Pauses(),
    )
    return Planned(scenario, way)


def _seconds_after(kind: FaultKind) -> float:
    if kind is FaultKind.HANG_BUSY:
        return BUSY_SECONDS
    return SLOW_SECONDS if kind in SLOWING else AFTER_SECONDS


def _fault(dice: random.Random, seed: int, kind: FaultKind) -> Fault:
    (fault,) = sample(seed, kind).faults
    node = dice.randrange(NODES)
    per_node = RANKS // NODES
    ranks: tuple[int, ...] = (dice.randrange(RANKS),)
    if kind in (FaultKind.SLOW_NODE, FaultKind.NODE_LOST):
        ranks = tuple(range(node * per_node, (node + 1) * per_node))
    elif kind in _ALL:
        ranks = tuple(range(RANKS))
    effect = fault.effect
    if kind in SLOWING and kind is not FaultKind.STOPPED_NOW_AND_THEN:
        effect = max(LEAST_EFFECT, effect)
    return replace(
        fault,
        ranks=ranks,
        onset=round(dice.uniform(*ONSET_SECONDS), 1),
        period=1,
        effect=effect,
        node=node if fault.node >= 0 else -1,
    )


def truths(plan: Planned) -> list[Expected]:
    """Return the plan's truths; the causes of its way are as right as those of its class."""
    kinds = {fault.kind.value for fault in plan.scenario.faults}
    return [
        expectation._replace(
            truth=expectation.truth._replace(causes=expectation.truth.causes | plan.way.causes)
        )
        if expectation.truth.fault in kinds and plan.way.causes and not expectation.stops
        else expectation
        for expectation in expected(plan.scenario)
    ]


def way_named(text: str) -> Way:
    """Return the way that `kind/name` names.

    Raises:
        ValueError: there is no such way.
    """
    for way in WAYS:
        if text == f"{way.kind.value}/{way.name}":
            return way
    names = ", ".join(f"{way.kind.value}/{way.name}" for way in WAYS)
    raise ValueError(f"{text}: one of {names}")
