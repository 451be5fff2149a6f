"""Draws a scenario from a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

from .plan import (
    DYING,
    SLOWING,
    STANDING,
    Fault,
    FaultKind,
    History,
    Loads,
    Pace,
    Pauses,
    Scenario,
    Shape,
    Telemetry,
)

HEALTHY_SHARE = 1 / 3
TWO_FAULTS_SHARE = 0.1
TELEMETRY_SHARE = 0.2
_FROM_THE_START = 0.15
"""Share of faults that are there in the first step."""
EVIDENCE_SECONDS = 330.0
"""How long a fault that slows a job lasts: five minutes of evidence, and a little more."""
AFTER_END_SECONDS = 75.0
"""Seconds that a scenario lasts after its end."""
AFTER_HANG_SECONDS = 960.0
"""The same if ranks live on and make no step: only an operator ends the hang, and a possible
evaluation is allowed up to fifteen minutes.
"""
AFTER_FIRST_STEP_SECONDS = 660.0
"""The same in the first step: compilation takes minutes."""
HEALTHY_SECONDS = 900.0
_MOST_LATE = 0.02
"""Share of a healthy job in epochs, and in loader stalls: no operator acts on less."""
STRETCH_SECONDS = (900.0, 8 * 3600.0)
"""Shortest and longest healthy job for the count of false incidents, log-uniform."""
_ENDING_SHARE = 0.25
_ENDING_SECONDS = (10.0, 200.0)
"""Share of slowing faults that end before their job, and their durations, log-uniform."""
_SHAPES = {2: (1, 2), 4: (1, 2, 4), 8: (1, 2, 4)}
"""Possible node counts, by the number of ranks."""
_MOST_RANKS = max(_SHAPES)
_PERIODS = (1, 1, 1, 2, 5, 10, 20, 50)
_ON_LINKS = frozenset({FaultKind.SLOW_LINK, FaultKind.SLOW_STAGE_LINK})


def sample(seed: int, kind: FaultKind | None = None, *, healthy: bool = False) -> Scenario:
    """Return the scenario of `seed`: with a fault of `kind` if given, without any if `healthy`."""
    dice = random.Random(f"scenario {seed}")
    base = _job(dice, seed)
    if not (healthy or (kind is None and dice.random() < HEALTHY_SHARE)):
        base = _with_faults(dice, base, kind)
    return _with_telemetry(dice, base)


def stretch(seed: int) -> Scenario:
    """Return a healthy job of up to many hours, to count false incidents in."""
    length = _log_uniform(random.Random(f"stretch {seed}"), *STRETCH_SECONDS)
    return replace(sample(seed, healthy=True), seconds=float(round(length)))


def _job(dice: random.Random, seed: int) -> Scenario:
    ranks = dice.choice((2, 4, 4, 8, 8))
    shape = dice.choice((Shape.DDP, Shape.DDP, Shape.FSDP2, Shape.TENSOR, Shape.PIPELINE))
    pace = dice.choice([*Pace])
    step = round(_log_uniform(dice, 0.15, 2.0), 3)
    return Scenario(
        seed=seed,
        shape=shape,
        ranks=ranks,
        nodes=dice.choice(_SHAPES[ranks]),
        step_seconds=step,
        pace=pace,
        seconds=HEALTHY_SECONDS,
        pauses=_pauses(dice, ranks, step),
        saves=_saves(dice, step),
        peers_raise=dice.random() < 0.5,
        restart_seconds=dice.choice((math.inf, 8.0, 20.0)),
        names_stages=random.Random(f"stages {seed}").random() < 0.5,
        history=random.Random(f"history {seed}").choice([*History]),
        loads=_loads(random.Random(f"loads {seed}"), step),
    )


def _pauses(dice: random.Random, ranks: int, step: float) -> Pauses:
    """Draw evaluations: half of the jobs have them, marked or not, on all ranks or on rank 0."""
    if dice.random() < 0.5:
        return Pauses()
    seconds = round(_log_uniform(dice, 5.0, 60.0), 1)
    every = max(4, round(dice.uniform(60.0, 240.0) / step))
    pause_rank = 0 if ranks > 2 and dice.random() < 0.3 else -1
    return Pauses(every, seconds, dice.random() < 0.5, pause_rank)


def _saves(dice: random.Random, step: float) -> Pauses:
    if dice.random() < 0.6:
        return Pauses()
    apart = dice.uniform(30.0, 120.0)
    # More than a few percent of a job's time in saves is worth a ticket by itself.
    return Pauses(max(5, round(apart / step)), round(dice.uniform(0.05, 0.02 * apart), 2))


def _loads(dice: random.Random, step: float) -> Loads:
    """Draw epochs for half of the jobs, and stalls of single loaders for half."""
    loads = Loads()
    if dice.random() < 0.5:
        every = round(_log_uniform(dice, 20.0, 2_000.0))
        most = min(20.0, _MOST_LATE * every * step)
        loads = replace(loads, epoch_every=every, epoch_seconds=dice.uniform(0.1, 1.0) * most)
    if dice.random() < 0.5:
        every = round(_log_uniform(dice, 20.0, 500.0))
        most = min(8.0, _MOST_LATE * every) * step
        loads = replace(loads, stall_every=every, stall_seconds=dice.uniform(0.1, 1.0) * most)
    return loads


def _with_faults(dice: random.Random, base: Scenario, kind: FaultKind | None) -> Scenario:
    fitting = [fault_kind for fault_kind in FaultKind if _fits(fault_kind, base)]
    first = kind if kind is not None else dice.choice(fitting)
    base = _adapt(first, base, dice)
    faults = [_fault(dice, base, first)]
    slow = [
        fault_kind
        for fault_kind in fitting
        if fault_kind not in DYING | STANDING and fault_kind is not first
    ]
    if kind is None and slow and dice.random() < TWO_FAULTS_SHARE:
        second = _fault(dice, base, dice.choice(slow))
        if not set(second.ranks) & set(faults[0].ranks):
            faults.append(second)
    faults = _some_end(faults, random.Random(f"ends {base.seed}"))
    last = max(faults, key=lambda fault: fault.onset)
    return replace(
        base, faults=tuple(faults), seconds=last.onset + _remaining_seconds(faults, base)
    )


def _some_end(faults: list[Fault], dice: random.Random) -> list[Fault]:
    """Return the faults; a slowing fault that is alone sometimes ends."""
    if len(faults) > 1 or faults[0].kind not in SLOWING or dice.random() >= _ENDING_SHARE:
        return faults
    return [replace(faults[0], seconds=round(_log_uniform(dice, *_ENDING_SECONDS), 1))]


def _remaining_seconds(faults: list[Fault], base: Scenario) -> float:
    """Return the seconds that a scenario with `faults` lasts after the last of them."""
    hangs = [fault for fault in faults if fault.kind in STANDING]
    if any(fault.onset <= base.step_seconds for fault in hangs):
        return AFTER_FIRST_STEP_SECONDS
    if hangs:
        return AFTER_HANG_SECONDS
    dies = any(fault.kind in DYING for fault in faults)
    return AFTER_END_SECONDS if dies else EVIDENCE_SECONDS


def _fits(kind: FaultKind, base: Scenario) -> bool:
    """Return whether a job of this shape can have the fault without a change."""
    if kind is FaultKind.SLOW_STAGE_LINK:
        return base.shape is Shape.PIPELINE
    if kind is FaultKind.CROSSED_GROUPS:
        return base.shape is Shape.TENSOR and base.ranks >= 4
    if kind is FaultKind.SLOW_NODE:
        return base.nodes > 1 and base.ranks_per_node > 1
    if kind is FaultKind.NODE_LOST:
        return base.nodes > 1
    if kind is FaultKind.CHECKPOINT_STALL:
        return base.saves.every > 0
    if kind is FaultKind.HANG_INSIDE:
        # A pipeline of one replica has no collective.
        return base.shape is not Shape.PIPELINE or base.ranks == _MOST_RANKS
    return True


def _adapt(kind: FaultKind, base: Scenario, dice: random.Random) -> Scenario:
    """Return the job with the smallest change that `kind` needs."""
    changes: dict[FaultKind, Callable[[], Scenario]] = {
        FaultKind.SLOW_STAGE_LINK: lambda: replace(base, shape=Shape.PIPELINE),
        FaultKind.CROSSED_GROUPS: lambda: replace(base, shape=Shape.TENSOR, ranks=8, nodes=2),
        FaultKind.SLOW_NODE: lambda: replace(base, ranks=8, nodes=2),
        FaultKind.NODE_LOST: lambda: replace(base, ranks=8, nodes=2),
        FaultKind.HANG_INSIDE: lambda: replace(base, shape=Shape.DDP),
        FaultKind.CHECKPOINT_STALL: lambda: replace(
            base, saves=Pauses(max(5, round(45.0 / base.step_seconds)), dice.uniform(0.1, 0.5))
        ),
    }
    return base if _fits(kind, base) else changes[kind]()


def _fault(dice: random.Random, base: Scenario, kind: FaultKind) -> Fault:
    node = dice.randrange(base.nodes)
    per_node = base.ranks_per_node
    ranks: tuple[int, ...] = (dice.randrange(base.ranks),)
    if kind in (FaultKind.SLOW_NODE, FaultKind.NODE_LOST):
        ranks = tuple(range(node * per_node, (node + 1) * per_node))
    elif kind in (FaultKind.STOP_ALL, FaultKind.SLOW_DATA_EVERYWHERE, FaultKind.HANG_INSIDE):
        ranks = tuple(range(base.ranks))
    effect, period = _log_uniform(dice, 1.05, 10.0), dice.choice(_PERIODS)
    if kind is FaultKind.STOPPED_NOW_AND_THEN:
        effect, period = dice.uniform(0.05, 0.5), 1
    elif kind is FaultKind.CHECKPOINT_STALL:
        effect, period = _log_uniform(dice, 1.0, 15.0), 1
    elif kind in _ON_LINKS or kind is FaultKind.SLOW_DATA_EVERYWHERE:
        period = 1
    onset = 0.0 if dice.random() < _FROM_THE_START else round(dice.uniform(30.0, 150.0), 2)
    if kind in DYING | STANDING:
        effect, period, onset = 1.0, 1, max(onset, base.step_seconds / 2)
    return Fault(
        kind=kind,
        ranks=ranks,
        node=node if kind in (FaultKind.SLOW_NODE, FaultKind.NODE_LOST) else -1,
        effect=round(effect, 3),
        period=period,
        onset=onset,
    )


def _with_telemetry(dice: random.Random, base: Scenario) -> Scenario:
    clocks = [0.0] * base.nodes
    if dice.random() >= TELEMETRY_SHARE:
        return base
    node, telemetry = dice.randrange(base.nodes), Telemetry()
    problem = dice.choice(("killed", "late", "clock"))
    if problem == "killed" and base.nodes > 1:
        telemetry = Telemetry(killed_node=node, killed_at=round(dice.uniform(20.0, 200.0), 2))
    elif problem == "late":
        telemetry = Telemetry(late_node=node, late_seconds=round(dice.uniform(0.3, 8.0), 2))
    else:
        clocks[node] = round(dice.choice((-1.0, 1.0)) * _log_uniform(dice, 5.0, 600.0), 1)
        telemetry = Telemetry(clock_seconds=tuple(clocks))
    return replace(base, telemetry=telemetry)


def _log_uniform(dice: random.Random, low: float, high: float) -> float:
    return math.exp(dice.uniform(math.log(low), math.log(high)))
