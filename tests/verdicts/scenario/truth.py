"""The truth of a scenario, from its parts and from no detector."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import NO_RANK
from stepwatch.signals.names import Cause, FindingKind
from tests.verdicts.scoring import Truth

from .actual import Actual
from .course.layout import Layout
from .course.timeline import Timeline
from .effects import effects
from .plan import DYING, SLOWING, STANDING, Fault, FaultKind, Scenario, Shape, node_name

LEAST_COST = 0.05
"""Share of throughput from which a fault has to be found."""
LEAST_SECONDS = 300.0
"""Seconds that a slowing fault shows before it has to be found."""
AGENT_KILLED, PAUSE_ALONE = "agent-killed", "pause-of-one-rank"
_LEAST_GROWTH_BYTES = 1 << 30
CROSSED = range(4)
"""Ranks whose groups are crossed (`course.timeline`)."""


class Expected(NamedTuple):
    """The right verdict on one fault.

    Args:
        nodes: nodes that a verdict may name; empty if the node does not matter.
        begins: second in which the fault begins.
        cost: share of throughput that the fault takes while it lasts.
        required: whether a detector must find the fault. An incident about another fault is not
            false either.
        shows: second in which the first slowed step or save ends; NaN if no step alone shows it.
        marginal_cost: throughput share that the job gains if this fault alone is removed.
        ends: second in which the fault ends; infinite if it lasts as long as the job.
        actual: true figures for an incident's sentence, if this is the only fault.
        lost_seconds: device-seconds that the fault took, if it is the only fault.
    """

    truth: Truth
    nodes: frozenset[str]
    begins: float
    cost: float
    effect: float
    period: int
    required: bool
    stops: bool
    shows: float = math.nan
    marginal_cost: float = math.nan
    ends: float = math.inf
    actual: Actual | None = None
    lost_seconds: float = math.nan


def expected(scenario: Scenario) -> list[Expected]:
    """Return everything that is wrong in a scenario, the worst first."""
    expectations = [
        _with_numbers(scenario, _of_fault(scenario, fault)) for fault in scenario.faults
    ]
    expectations += [*_of_telemetry(scenario), *_of_pauses(scenario)]
    return sorted(expectations, key=lambda expectation: (not expectation.stops, -expectation.cost))


def _of_fault(scenario: Scenario, fault: Fault) -> Expected:
    stops = fault.kind in DYING | STANDING
    cost = 1.0 if stops else cost_of(scenario, fault)
    truth = _truth(scenario, fault)
    nodes: frozenset[str] = frozenset()
    if fault.node >= 0:
        nodes = frozenset({node_name(fault.node)})
    unseen = _unseen(scenario, fault)
    if unseen:
        # No agent observes the rank: its node, or no rank, is also right.
        ranks = {rank for rank in range(scenario.ranks) if _is_unseen(scenario, rank)}
        causes = truth.causes | {Cause.NOT_ARRIVED.value, Cause.NODE_STALE.value, "unknown"}
        truth = truth._replace(ranks=truth.ranks | ranks | {NO_RANK}, causes=causes)
    return Expected(
        truth,
        nodes,
        fault.onset,
        cost,
        fault.effect,
        fault.period,
        stops or (not unseen and _is_required(scenario, fault, cost)),
        stops,
        shows_at(scenario, fault),
        cost if stops else marginal_cost(scenario, fault),
    )


def _with_numbers(scenario: Scenario, expectation: Expected) -> Expected:
    """Return the expectation with its true figures, if it is the only fault."""
    if len(scenario.faults) != 1 or scenario.faults[0].kind not in SLOWING:
        return expectation
    (fault,) = scenario.faults
    effect = effects(scenario)[fault]
    ends = fault.onset + fault.seconds
    rank = NO_RANK if fault.kind in _NO_RANK_NAMED or fault.node >= 0 else fault.ranks[0]
    ratio = fault.effect if fault.kind is FaultKind.SLOW_COMPUTE else math.nan
    return expectation._replace(
        ends=ends if ends < scenario.seconds else math.inf,
        actual=Actual(rank, effect.first_step, scenario.step_seconds, ratio, effect.lost),
        lost_seconds=effect.seconds * scenario.ranks,
    )


def shows_at(scenario: Scenario, fault: Fault) -> float:
    """Return the second in which the first slowed step or save ends; NaN if there is none."""
    if fault.kind not in SLOWING or fault.kind is FaultKind.STOPPED_NOW_AND_THEN:
        return math.nan
    for step in Timeline(scenario).steps():
        if fault.kind is not FaultKind.CHECKPOINT_STALL:
            over, hit = step.end, fault.active(float(step.began.max()), step.number)
        elif step.stall is not None and step.saved_from is not None:
            over, hit = step.saved_from + step.stall, fault.lasts(float(step.saved_from.min()))
        else:
            continue
        if hit:
            return float(over.max()) if np.isfinite(over).all() else math.nan
    return math.nan


def _is_required(scenario: Scenario, fault: Fault, cost: float) -> bool:
    stopped = [
        candidate.onset for candidate in scenario.faults if candidate.kind in DYING | STANDING
    ]
    shown = min([scenario.seconds, fault.onset + fault.seconds, *stopped]) - fault.onset
    if fault.kind is FaultKind.MEMORY_GROWTH:
        return fault.effect * (8 << 20) * shown > _LEAST_GROWTH_BYTES
    return cost >= LEAST_COST and shown >= LEAST_SECONDS


def _unseen(scenario: Scenario, fault: Fault) -> bool:
    """Return whether no agent observes the fault's ranks.

    For a circle of groups, or a link that all ranks wait for, one unobserved rank is enough.
    """
    if scenario.telemetry.killed_at >= fault.onset + 30.0:
        return False
    if fault.kind is FaultKind.CROSSED_GROUPS:
        return any(_is_unseen(scenario, rank) for rank in CROSSED)
    if fault.kind is FaultKind.SLOW_LINK:
        # The rank that waits least shows the transfer; unobserved ranks show nothing.
        return any(_is_unseen(scenario, rank) for rank in range(scenario.ranks))
    return all(_is_unseen(scenario, rank) for rank in fault.ranks)


def _is_unseen(scenario: Scenario, rank: int) -> bool:
    return scenario.node_of(rank) == scenario.telemetry.killed_node


def cost_of(scenario: Scenario, fault: Fault) -> float:
    """Return the throughput share that a fault takes by itself, from its onset to the end."""
    return _lost(scenario, [fault], fault)


def marginal_cost(scenario: Scenario, fault: Fault) -> float:
    """Return the throughput share that a fault takes in addition to the other slowing faults.

    It is nothing if all ranks wait for another rank anyway.
    """
    slowing = [candidate for candidate in scenario.faults if candidate.kind in SLOWING]
    return _lost(scenario, slowing, fault) if len(slowing) > 1 else cost_of(scenario, fault)


def _lost(scenario: Scenario, faults: list[Fault], fault: Fault) -> float:
    """Return the throughput share that the job with `faults` loses to one of them."""
    if fault.kind not in SLOWING:
        return 0.0
    remaining_faults = tuple(candidate for candidate in faults if candidate is not fault)
    job = replace(scenario, faults=tuple(faults))
    slow = [float(step.end.max()) for step in Timeline(job).steps()]
    usual = []
    for step in Timeline(replace(job, faults=remaining_faults, seconds=math.inf)).steps():
        usual.append(float(step.end.max()))
        if len(usual) == len(slow):
            break
    first = int(np.searchsorted(slow, fault.onset))
    if first >= len(slow) - 1:
        return 0.0
    start = (0.0, 0.0) if first == 0 else (slow[first - 1], usual[first - 1])
    last = min(int(np.searchsorted(slow, fault.onset + fault.seconds)), len(slow) - 1)
    return 1.0 - (usual[last] - start[1]) / max(slow[last] - start[0], 1e-9)


_KINDS: dict[FaultKind, tuple[str, str, str]] = {
    FaultKind.SLOW_COMPUTE: ("straggler", "forward backward", "slow-compute"),
    FaultKind.SLOW_DATA: ("straggler data-stall", "data", "slow-data"),
    FaultKind.SLOW_OPTIMIZER: ("straggler", "optimizer", "slow-compute"),
    FaultKind.SLOW_NODE: ("straggler", "forward backward", "slow-compute"),
    FaultKind.SLOW_LINK: ("slow-collective", "", "slow-transfer"),
    FaultKind.SLOW_STAGE_LINK: ("slow-collective pipeline-bubble", "", "slow-transfer"),
    FaultKind.SLOW_DATA_EVERYWHERE: ("data-stall", "data", "slow-data"),
    FaultKind.STOPPED_NOW_AND_THEN: (
        "straggler hang",
        "",
        "slow-compute slow-data process-stopped unknown",
    ),
    FaultKind.STOP: ("hang", "", "process-stopped"),
    FaultKind.STOP_ALL: ("hang", "", "process-stopped"),
    FaultKind.KILL: ("rank-failed", "", "process-gone"),
    FaultKind.EXIT_EARLY: ("rank-failed hang", "", "process-gone"),
    FaultKind.EXCEPTION: ("rank-failed", "", "exception"),
    FaultKind.HANG: ("hang pause", "", "not-arrived"),
    FaultKind.HANG_BUSY: ("hang pause", "", "busy not-arrived"),
    FaultKind.HANG_INSIDE: ("hang", "", "unknown slow-transfer"),
    FaultKind.CROSSED_GROUPS: ("desync hang", "", "mismatched-order"),
    FaultKind.NODE_LOST: (
        "telemetry-lost rank-failed hang",
        "",
        "node-stale agents-stale node-lost process-gone",
    ),
    FaultKind.MEMORY_GROWTH: ("memory-growth", "", "host-memory"),
    FaultKind.CHECKPOINT_STALL: ("checkpoint-stall", "checkpoint", "slow-storage"),
}
"""Kinds, phases and causes that may be named, divided by blanks."""
_NO_RANK_NAMED = frozenset(
    {FaultKind.SLOW_DATA_EVERYWHERE, FaultKind.STOP_ALL, FaultKind.HANG_INSIDE}
)


def _truth(scenario: Scenario, fault: Fault) -> Truth:
    kinds, phases, causes = (frozenset(text.split()) for text in _KINDS[fault.kind])
    ranks = frozenset(fault.ranks)
    if fault.kind in _NO_RANK_NAMED:
        ranks = frozenset({NO_RANK, *_only_observed(scenario, fault)})
    elif fault.kind is FaultKind.SLOW_LINK:
        ranks = frozenset()
    elif fault.node >= 0:
        ranks |= {NO_RANK}
    elif fault.kind is FaultKind.CROSSED_GROUPS:
        ranks = frozenset({*CROSSED, NO_RANK})
    if scenario.shape is Shape.PIPELINE:
        kinds, ranks, causes = _in_pipeline(scenario, fault, kinds, ranks, causes)
    return Truth(fault.kind.value, kinds, ranks, phases, causes)


def _only_observed(scenario: Scenario, fault: Fault) -> frozenset[int]:
    """Return the only observed rank when all are stopped: the others are unknown.

    The result is empty if several ranks are observed, or none.
    """
    if fault.kind is not FaultKind.STOP_ALL or scenario.telemetry.killed_at > fault.onset:
        return frozenset()
    observed_ranks = {rank for rank in range(scenario.ranks) if not _is_unseen(scenario, rank)}
    return frozenset(observed_ranks) if len(observed_ranks) == 1 else frozenset()


Words = frozenset[str]


def _in_pipeline(
    scenario: Scenario, fault: Fault, kinds: Words, ranks: frozenset[int], causes: Words
) -> tuple[Words, frozenset[int], Words]:
    """In a pipeline a slow stage is a bubble of the others, and a link joins two stages."""
    layout = Layout(scenario)
    if fault.kind in (FaultKind.SLOW_COMPUTE, FaultKind.SLOW_NODE):
        kinds |= {FindingKind.PIPELINE_BUBBLE.value}
        causes |= {Cause.STAGE_IMBALANCE.value}
    if fault.kind is FaultKind.SLOW_LINK:
        kinds |= {FindingKind.PIPELINE_BUBBLE.value}
    if fault.kind is FaultKind.SLOW_STAGE_LINK:
        hit = layout.stage_of(fault.ranks[0])
        near = {hit - 1, hit, hit + 1}
        ranks = frozenset(
            {rank for rank in range(scenario.ranks) if layout.stage_of(rank) in near} | {NO_RANK}
        )
    return kinds, ranks, causes


def _of_telemetry(scenario: Scenario) -> list[Expected]:
    telemetry = scenario.telemetry
    if telemetry.killed_node < 0 or telemetry.killed_at > scenario.seconds - 20.0:
        return []
    per_node = scenario.ranks_per_node
    first = telemetry.killed_node * per_node
    truth = Truth(
        AGENT_KILLED,
        frozenset({FindingKind.TELEMETRY_LOST.value}),
        frozenset({*range(first, first + per_node), NO_RANK}),
        frozenset(),
        frozenset({Cause.NODE_STALE.value, Cause.AGENTS_STALE.value}),
    )
    ended = [fault.onset for fault in scenario.faults if fault.kind in DYING]
    return [
        Expected(
            truth,
            frozenset({node_name(telemetry.killed_node)}),
            telemetry.killed_at,
            0.0,
            1.0,
            1,
            telemetry.killed_at < min([math.inf, *ended]),
            stops=False,
        )
    ]


def _of_pauses(scenario: Scenario) -> list[Expected]:
    """An unmarked evaluation of one rank costs its time, so a verdict that names it is right."""
    pauses = scenario.pauses
    if not pauses.every or pauses.rank < 0 or pauses.marked:
        return []
    truth = Truth(
        PAUSE_ALONE,
        frozenset({FindingKind.STRAGGLER.value, FindingKind.PAUSE.value}),
        frozenset({pauses.rank}),
        frozenset(),
        frozenset({Cause.BUSY.value, Cause.SLOW_COMPUTE.value, Cause.UNKNOWN.value}),
    )
    return [Expected(truth, frozenset(), 0.0, 0.0, 1.0, 1, required=False, stops=False)]
