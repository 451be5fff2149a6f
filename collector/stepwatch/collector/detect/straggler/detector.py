"""Straggler: a rank whose self time is longer than that of ranks with the same work.

Self time excludes every wait, so the slow rank has more of it, while the ranks that it delays show
wait. Peers are the other ranks in its pipeline stage; a rank without peers is compared with its own
baseline. A rank that is far slower than its peers, persistently or intermittently, is found within
seconds, unless the other ranks' rate of such steps makes chance a possible reason. Smaller or rarer
slowness is found by the evidence from all steps (`costly`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.peers import peers_of
from stepwatch.collector.detect.steps import usable_steps
from stepwatch.collector.detect.straggler.cause import RankFacts
from stepwatch.collector.detect.straggler.chance import beyond_chance
from stepwatch.collector.detect.straggler.evidence.accumulated import accumulated
from stepwatch.collector.detect.straggler.evidence.costly import CostlyRank
from stepwatch.collector.detect.straggler.evidence.partners import Partners
from stepwatch.collector.detect.straggler.intermittent import intermittent
from stepwatch.collector.detect.straggler.persistent import persistent, worth_a_look
from stepwatch.collector.detect.straggler.report import finding_of
from stepwatch.collector.detect.straggler.steps import SlowRank, evaluated_steps
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.signals.arrays import Integers, Vector


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
    if usable.sum() < limits.certain_few_steps or stages is None:
        return []
    steps = evaluated_steps(window, usable, stages, baseline or {}, numbers)
    # A single process that waits for data is a waiting job: there is no rank for a comparison.
    phases = WORK if len(window.stage) > 1 else tuple(name for name in WORK if name != "data")
    looked_at = worth_a_look(steps, phases, limits)
    slow = [rank for phase in looked_at for rank in persistent(steps, phase, limits)]
    together = {rank.rank for rank in slow}
    slow = [rank for rank in slow if beyond_chance(rank, steps, limits, together)]
    costs = {rank.rank: rank for rank in costly}
    slow = [rank._replace(cost=costs.get(rank.rank), by_steps=True) for rank in slow]
    findings = _worst_phase([finding_of(rank, steps, facts, limits) for rank in slow])
    named = {rank.rank for rank in slow}
    repeated = intermittent(steps, named, limits)
    unsteady = [rank for rank in repeated if beyond_chance(rank, steps, limits)]
    named |= {rank.rank for rank in unsteady}
    remaining: dict[int, CostlyRank] = {}
    for costly_rank in costly:
        if costly_rank.rank not in named:
            remaining.setdefault(costly_rank.rank, costly_rank)
    unsteady += [accumulated(costly_rank, steps) for costly_rank in remaining.values()]
    reported = [(rank, finding_of(rank, steps, facts, limits)) for rank in unsteady]
    # A finding that costs too little to be reported does not exclude others, either.
    reported = [
        (rank, finding)
        for rank, finding in reported
        if rank.rank in costs or is_worth_it(finding, limits)
    ]
    if partners is not None:
        reported = _beyond_partners(reported, {rank.rank for rank in slow}, partners, numbers)
    findings += [finding for _, finding in reported]
    return sorted(findings, key=lambda finding: -finding.severity)


def is_worth_it(finding: Finding, limits: Thresholds) -> bool:
    """Return whether it costs enough to be reported before evidence gives its cost."""
    return not finding.lost_ratio < limits.least_lost_unsure


def _beyond_partners(
    slow: list[tuple[SlowRank, Finding]],
    named: set[int],
    partners: Partners,
    numbers: Integers | None,
) -> list[tuple[SlowRank, Finding]]:
    """Drop ranks from `slow` that may be chance because a partner is left out.

    A left-out partner is one `named` before, or one that `partners` leaves out. A whole node has no
    partner.
    """
    unexplained = []
    left_out = [_number(column, numbers) for column in named]
    for slow_rank, finding in slow:
        of_node = slow_rank.cost is not None and slow_rank.cost.node >= 0
        number = _number(slow_rank.rank, numbers)
        if of_node or not partners.may_be_chance(number, left_out):
            unexplained.append((slow_rank, finding))
            left_out.append(number)
    return unexplained


def _number(column: int, numbers: Integers | None) -> int:
    """Return the rank number for a column of the window."""
    return column if numbers is None else int(numbers[column])


def _worst_phase(findings: list[Finding]) -> list[Finding]:
    """Return one finding per rank: the phase with the largest excess; the others follow from it."""
    worst: dict[int, Finding] = {}
    for finding in findings:
        worst_so_far = worst.get(finding.rank)
        if worst_so_far is None or finding.severity > worst_so_far.severity:
            worst[finding.rank] = finding
    return list(worst.values())
