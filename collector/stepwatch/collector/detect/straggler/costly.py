"""Ranks named by accumulated evidence: slow beyond chance, with their cost and start.

Two conditions must hold. First, the slowness is beyond chance: by bets on all its steps
(`state/evidence/bets.py`), by the rarity of its long steps (`rare`), or by late batches
(`stalled_loads`). Second, it costs enough: the time share for which the rank delayed its stage
since the excess began, less its peers' share, as the mean over time buckets with its interval. A
rank alone in its pipeline stage has no peers: it is compared with what it took before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.stage_change import GrownStage
from stepwatch.collector.detect.observed import alone_in_stage
from stepwatch.collector.detect.rare_stages import RareStage
from stepwatch.collector.detect.straggler.rare import least_log_rarity, log_rarity
from stepwatch.collector.detect.straggler.stalled_loads import log_alone, lost_to_stalls
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.bets import log_alarm
from stepwatch.collector.state.evidence.buckets import BUCKET_SECONDS, Course
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.collector.statistics.episode import (
    Episode,
    began,
    episode,
)
from stepwatch.collector.statistics.intervals import NORMAL_95, Share, share_of
from stepwatch.signals.arrays import (
    IntegerMatrix,
    Integers,
    Mask,
    Matrix,
    SmallIntegers,
    Vector,
)

DAY_SECONDS = 86_400.0
NEARLY_ALL = 0.75
"""Share of a node's ranks that must be slow: one may hide behind the others for a while."""
_NODES = -2
"""The stage number of nodes among units; ranks in an unknown stage have -1."""


class CostlyRank(NamedTuple):
    """A rank that costs time: its share since step `since` and lately (`now`), and its worst phase.

    It began within the steps `span[0]` to `span[1]`. `log_odds` is the logarithm of one over the
    probability that no rank is at fault. `counts` describes the use of the reported tokens. `node`
    is the index of a node that is slow as a whole, with `rank` as its first rank, or -1 for a
    single rank. `until` is the first of the newest steps that no longer show it, or -1 while it
    lasts. `work` holds the seconds per step in that phase, its own and its peers', in the buckets
    that show it.
    """

    rank: int
    phase: str
    lost: Share
    now: float
    since: int
    span: tuple[int, int]
    log_odds: float
    counts: str = ""
    node: int = -1
    until: int = -1
    work: tuple[float, float] = (math.nan, math.nan)


def costly_ranks(
    evidence: RankEvidence,
    stage: SmallIntegers,
    limits: Thresholds,
    course: Course | None = None,
) -> list[CostlyRank]:
    """Return the ranks that are slow beyond chance and cost enough, the costliest first.

    `stage` (ranks,) is each rank's stage; `course` is the evidence's course, if already computed.
    """
    course = evidence.buckets.course() if course is None else course
    capital = evidence.log_capital.max(axis=0, initial=0.0)
    units = np.append(stage, np.full(len(evidence.members), _NODES))
    if not len(course.seconds) or len(capital) != len(units):
        return []
    step = float(course.seconds.sum() / course.steps.sum())
    steps_a_day, alarms = DAY_SECONDS / max(step, 1e-3), limits.false_alarms_a_day
    sure = capital >= log_alarm(steps_a_day, len(units), alarms)
    rarity, sure = _with_rare(course, evidence, units, sure, limits)
    loads = np.zeros(len(units))
    loads[: len(stage)] = log_alone(course, evidence.long, stage, limits)
    odds, named = np.maximum(np.maximum(capital, rarity), loads), np.flatnonzero(sure | (loads > 0))
    named = named[np.argsort(-odds[named], kind="stable")][: limits.most_costly]
    costly_units, excess = [], _Excess(course, stage, evidence.members)
    for rank in named.tolist():
        members = np.flatnonzero(units == units[rank])
        net = beyond_peers(course, rank, members[members != rank], named)
        if not sure[rank] and lost_to_stalls(course, rank, net) < limits.least_lost_unsure:
            continue
        costly = _costly(course, rank, net, excess.seconds_of(rank), limits)
        if costly is not None and rank >= len(stage):
            costly = _of_node(course, costly, excess, rank - len(stage))
        if costly is not None:
            counts = evidence.counts.words
            costly_units.append(costly._replace(log_odds=float(odds[rank]), counts=counts))
    return sorted(costly_units, key=lambda rank: -rank.lost.share)


_MOST_HIDDEN = 3


def _with_rare(
    course: Course, evidence: RankEvidence, units: Integers, sure: Mask, limits: Thresholds
) -> tuple[Vector, Mask]:
    """Return each unit's rarity of long steps (units,), and which units are slow beyond chance.

    A unit is slow by its rarity or by bets, which name the `sure` units (units,). A slow unit is no
    longer a peer of the others, so a unit that is slow more rarely becomes visible, too.
    """
    least = least_log_rarity(len(units), limits)
    for _ in range(_MOST_HIDDEN):
        rarity = log_rarity(course, evidence.long, units, sure, limits)
        named = sure | (rarity >= least)
        if (named == sure).all():
            break
        sure = named
    return rarity, sure


class _Excess:
    """The work excess of a rank over the median rank in its stage, by phase and bucket.

    A node's excess is relative to the median node in the same way.
    """

    def __init__(self, course: Course, stage: SmallIntegers, members: IntegerMatrix) -> None:
        self.work = course.work.astype(np.float64)
        self.members = members
        self._stage = stage
        self._usual: dict[int, Matrix] = {}

    def seconds_of(self, unit: int) -> Matrix:
        """Return the seconds (buckets, phases) of a rank; node numbers follow the rank numbers."""
        ranks = len(self._stage)
        if unit < ranks:
            return self._of_rank(unit)
        nodes = self.work[:, :, self.members].mean(axis=-1)
        return np.asarray(nodes[:, :, unit - ranks] - np.median(nodes, axis=-1))

    def _of_rank(self, rank: int) -> Matrix:
        stage = int(self._stage[rank])
        if stage not in self._usual:
            self._usual[stage] = np.median(self.work[:, :, self._stage == stage], axis=-1)
        return np.asarray(self.work[:, :, rank] - self._usual[stage])


def _of_node(course: Course, costly: CostlyRank, excess: _Excess, node: int) -> CostlyRank | None:
    """Return `costly` for a node, with its first rank; None if only a few ranks are slow.

    Nearly all ranks must exceed the median rank by at least half of their average excess.
    """
    since = course.first_step >= costly.since
    ranks = excess.members[node].tolist()
    excesses = np.array([excess.seconds_of(rank)[since].sum() for rank in ranks])
    if (excesses >= excesses.mean() / 2).mean() < NEARLY_ALL:
        return None
    return costly._replace(rank=ranks[0], node=node)  # the same one each time


def beyond_peers(course: Course, rank: int, members: Integers, named: Integers) -> Vector:
    """Return the seconds (buckets,) that a rank delayed its stage, less an unnamed peer's.

    The peer's delay is scaled to the same number of steps: an unobserved peer's cost is unknown,
    not zero. Without an observed peer, no loss is known. Worked example: in ten steps the rank,
    fully known, costs 3 s. One peer costs 2 s; the other, known in five steps, costs 1 s: a fifth
    of a second per step, so the rank costs 1 s beyond them.
    """
    healthy = np.setdiff1d(members, named)
    cost, seen_steps = (plane[:, healthy].sum(axis=1) for plane in (course.cost, course.compared))
    unknown = seen_steps == 0
    if unknown.any():  # then only named ranks remain for the comparison
        cost[unknown] = course.cost[unknown][:, members].sum(axis=1)
        seen_steps[unknown] = course.compared[unknown][:, members].sum(axis=1)
    mean_cost = np.divide(cost, seen_steps, out=np.zeros(len(cost)), where=seen_steps > 0)
    net = course.cost[:, rank] - course.compared[:, rank] * mean_cost
    return np.asarray(np.where(seen_steps > 0, net, 0.0))


def _costly(
    course: Course, rank: int, net: Vector, excess: Matrix, limits: Thresholds
) -> CostlyRank | None:
    """Return the cost of a rank with this `excess` (buckets, phases) since it rose.

    The result is None if it costs too little or has ended. The rank may have exceeded the median
    rank before: until both are suspected, two slow ranks hide each other.
    """
    loss_episode = episode(net, course.seconds)
    while_it_lasts = slice(loss_episode.begin, loss_episode.end)
    lost = share_of(net[while_it_lasts], course.seconds[while_it_lasts])
    if lost.low < limits.least_lost_ratio / 2 or lost.share < limits.least_lost_ratio:
        return None
    if loss_episode.log_over >= limits.least_log_over:
        return None
    phase = int(np.argmax(excess[while_it_lasts].sum(axis=0)))
    begin = _first_shown(
        min(loss_episode.begin, began(excess.sum(axis=1), course.seconds)),
        excess[:, phase],
        loss_episode,
    )
    return CostlyRank(
        rank=rank,
        phase=WORK[phase],
        lost=lost,
        now=_now(net, course.seconds),
        since=int(course.first_step[begin]),
        span=_span(course.first_step, begin, loss_episode.begin),
        log_odds=math.nan,
        until=int(course.first_step[loss_episode.end]) if loss_episode.end < len(net) else -1,
        work=_work(course, rank, excess[:, phase], phase, loss_episode.shows),
    )


def _first_shown(begin: int, excess: Vector, loss_episode: Episode) -> int:
    """Return the first bucket from `begin` in which `excess` (buckets,) reaches its shown level.

    For occasional slowness, the time before its first occurrence is not slow yet.
    """
    least = float(excess[loss_episode.shows].mean()) / 2
    return begin + int(np.argmax(excess[begin:] >= least))


def _now(net: Vector, seconds: Vector) -> float:
    """Return the newest bucket's share, with the previous bucket if it has just begun."""
    newest = slice(-1 if seconds[-1] >= BUCKET_SECONDS else -2, None)
    return float(net[newest].sum() / seconds[newest].sum())


def _work(
    course: Course, rank: int, excess: Vector, phase: int, shows: Mask
) -> tuple[float, float]:
    """Return the seconds per step in a phase: the rank's and its peers'.

    The buckets are the ones in which it `shows` (buckets,).
    """
    steps = int(course.steps[shows].sum())
    more = float(excess[shows].sum()) / steps
    if rank >= course.work.shape[2]:  # a node unit: its finding reads its first rank's steps
        return math.nan, math.nan
    rank_work = float(course.work[shows, phase, rank].sum(dtype=np.float64)) / steps
    return rank_work, rank_work - more


def _span(first_step: Integers, early_bucket: int, late_bucket: int) -> tuple[int, int]:
    """Return the two steps between which the slowness began.

    They are the first steps of the bucket before `early_bucket` and of the second bucket after
    `late_bucket`.
    """
    last = min(late_bucket + 2, len(first_step) - 1)
    return int(first_step[max(early_bucket - 1, 0)]), int(first_step[last])


def alone_and_slow(
    slow_stages: Iterable[GrownStage | RareStage], stage: SmallIntegers, limits: Thresholds
) -> list[CostlyRank]:
    """Return the ranks that are alone in a slow stage, at a cost; `stage` is (ranks,)."""
    rank_of = {int(stage[rank]): rank for rank in np.flatnonzero(alone_in_stage(stage)).tolist()}
    return [
        CostlyRank(
            rank=rank_of[slow.stage],
            phase=slow.phase,
            lost=Share(
                slow.lost, slow.lost - NORMAL_95 * slow.error, slow.lost + NORMAL_95 * slow.error
            ),
            now=slow.lost,
            since=slow.first_step,
            span=(slow.first_step, slow.first_step),
            log_odds=slow.log_odds,
            counts="compared with its other steps, and with other stages: it is alone in its stage",
        )
        for slow in slow_stages
        if slow.stage in rank_of and slow.lost >= limits.least_lost_ratio
    ]
