"""Straggler: a rank whose self time is longer than that of ranks with the same work.

Self time excludes every wait, so the slow rank has more of it, while the ranks that it delays show
wait. Peers are the other ranks in its pipeline stage; a rank without peers is compared with its own
baseline. A rank that is far slower than its peers in nearly every step is found within seconds,
unless the other ranks' rate of such steps makes chance a possible reason. Smaller or rarer slowness
is found by the evidence from all steps (`costly`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.peers import peers_of
from stepwatch.collector.detect.steps import FEWEST_CERTAIN, usable_steps
from stepwatch.collector.detect.straggler.costly import CostlyRank
from stepwatch.collector.detect.straggler.early import beyond_chance, persistent, slow_phases
from stepwatch.collector.detect.straggler.partners import Partners
from stepwatch.collector.detect.straggler.report import RankFacts, finding_of
from stepwatch.collector.detect.straggler.steps import EvaluatedSteps, SlowRank, evaluated_steps
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.signals.arrays import Floats, Integers, Vector


def detect(
    window: Window,
    facts: RankFacts,
    limits: Thresholds,
    baseline: Mapping[str, Vector] | None = None,
    costly: Sequence[CostlyRank] = (),
    numbers: Integers | None = None,
    partners: Partners | None = None,
) -> list[Finding]:
    """Return findings on the newest steps of `window`, the worst first, and on `costly` ranks.

    `window` may hold more steps than are evaluated: they date the beginning. `baseline` maps a
    phase to the seconds per step (ranks,) in the run's first steps, NaN where unknown; in that case
    the older half of the window is the baseline. There are no findings with more stages than a
    pipeline can have. If `window` holds only some of the job's ranks, `numbers` (ranks,) lists
    them. All other arguments refer to its columns, except `partners`, which identifies ranks by
    number.
    """
    usable = usable_steps(window)
    stages = peers_of(window.stage)
    if usable.sum() < FEWEST_CERTAIN or stages is None:
        return []
    steps = evaluated_steps(window, usable, stages, baseline or {}, numbers)
    # A single process that waits for data is a waiting job: there is no rank for a comparison.
    phases = WORK if len(window.stage) > 1 else tuple(name for name in WORK if name != "data")
    shown = slow_phases(steps, phases, limits)
    slow = [rank for phase in shown for rank in persistent(steps, phase, limits)]
    together = {rank.rank for rank in slow}
    slow = [rank for rank in slow if beyond_chance(rank, steps, limits, together)]
    costs: dict[int, CostlyRank] = {}
    for costly_rank in costly:
        costs.setdefault(costly_rank.rank, costly_rank)
    slow = [rank._replace(cost=costs.get(rank.rank), by_steps=True) for rank in slow]
    findings = _worst_phase([finding_of(rank, steps, facts, limits) for rank in slow])
    named = {rank.rank for rank in slow}
    remaining = [accumulated(rank, steps) for number, rank in costs.items() if number not in named]
    reported = [(rank, finding_of(rank, steps, facts, limits)) for rank in remaining]
    if partners is not None:
        reported = _beyond_partners(reported, named, partners, steps.numbers)
    findings += [finding for _, finding in reported]
    return sorted(findings, key=lambda finding: -finding.severity)


def is_worth_it(finding: Finding, limits: Thresholds) -> bool:
    """Return whether it costs enough to be reported before evidence gives its cost."""
    return not finding.lost_ratio < limits.least_lost_unsure


def _beyond_partners(
    slow: list[tuple[SlowRank, Finding]],
    named: set[int],
    partners: Partners,
    numbers: Integers,
) -> list[tuple[SlowRank, Finding]]:
    """Drop ranks from `slow` that may be chance because a partner is left out.

    A left-out partner is one `named` before, or one that `partners` leaves out. A whole node has no
    partner.
    """
    unexplained = []
    left_out = numbers[list(named)].tolist()
    for slow_rank, finding in slow:
        of_node = slow_rank.cost is not None and slow_rank.cost.node >= 0
        number = int(numbers[slow_rank.rank])
        if of_node or not partners.may_be_chance(number, left_out):
            unexplained.append((slow_rank, finding))
            left_out.append(number)
    return unexplained


def _worst_phase(findings: list[Finding]) -> list[Finding]:
    """Return one finding per rank: the phase with the largest excess; the others follow from it."""
    worst: dict[int, Finding] = {}
    for finding in findings:
        worst_so_far = worst.get(finding.rank)
        if worst_so_far is None or finding.severity > worst_so_far.severity:
            worst[finding.rank] = finding
    return list(worst.values())


def accumulated(costly: CostlyRank, steps: EvaluatedSteps) -> SlowRank:
    """Return `costly` with its work and its peers' work in the evaluated steps that show it.

    If most of its steps are slow by less than half of the slow steps' excess, it is slow
    occasionally, and only its slow steps count. If none is slow, the per-step work from its buckets
    replaces the first one.
    """
    part = steps.around(np.array([costly.rank]))
    column = int(np.searchsorted(part.ranks, costly.rank))
    every = part.self_time(costly.phase)
    rank_seconds, peers = every[:, column], part.peers(every, costly.phase)[:, column]
    end = len(part.steps)
    if costly.until >= 0:
        end = max(1, int(np.searchsorted(part.steps, costly.until)))
    since = _since(part.steps[:end], (rank_seconds - peers)[:end], costly)
    shows, step_count = _shows(
        (rank_seconds - peers)[since:end], _level(costly, (rank_seconds - peers)[since:end])
    )
    if not len(shows):
        rank_seconds, peers = rank_seconds.astype(np.float64), peers.astype(np.float64)
        rank_seconds[since], peers[since] = costly.work
        shows, step_count = np.zeros(1, dtype=np.int64), 0
    return SlowRank(
        rank=costly.rank,
        phase=costly.phase,
        self_seconds=rank_seconds,
        peers=peers,
        since=since,
        shows=since + shows,
        step_count=step_count,
        cost=costly,
    )


def _level(costly: CostlyRank, excess: Floats) -> float:
    """Return the excess in seconds from which a step is slow.

    It is half of the bucket excess, if known.
    """
    rank_work, peer_work = costly.work
    usual = float(excess.mean()) if math.isnan(rank_work) else rank_work - peer_work
    return max(0.0, usual / 2)


def _shows(excess: Floats, level: float) -> tuple[Integers, int]:
    """Return the slow steps (indices), and the number of steps if it is slow occasionally.

    If most steps are slow, the result is all indices and 0.
    """
    if float(np.median(excess)) >= level:
        return np.arange(len(excess)), 0
    return np.flatnonzero(excess >= 2 * level), len(excess)


def _since(steps: Integers, excess: Floats, costly: CostlyRank) -> int:
    """Return the step (index) from which its excess reaches its average.

    The step is within the span in which it began, and maximises the sum of the excess less half of
    its average. Excess 0, 0, 1, 1 -> less a half -0.5, -0.5, 0.5, 0.5, sums from the end 0, 0.5, 1,
    0.5 -> 2.
    """
    first = min(int(np.searchsorted(steps, costly.since)), len(steps) - 1)
    low, high = np.searchsorted(steps, costly.span)
    if costly.span[0] < steps[0] or high <= low:
        return first
    beyond = excess[low:] - _level(costly, excess[first:])
    sums = np.cumsum(beyond[::-1])[::-1]
    return int(low + np.argmax(sums[: high - low + 1]))
