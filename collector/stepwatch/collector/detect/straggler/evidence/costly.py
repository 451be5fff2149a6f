"""Ranks that accumulated evidence names: slow beyond chance, and at what cost since when.

Two questions, both must be answered with yes. Is it beyond chance, by bets on all of its steps
(`state/evidence/bets.py`), by how rare its long ones are (`rare`), or as its batches come late
(`stalled_loads`)? Does it cost enough: the share
of the time that the rank held its stage up since the excess began, less what its peers did, as the
mean over stretches of time with its interval.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.straggler.evidence.episode import (
    Episode,
    Share,
    began,
    episode,
    share_of,
)
from stepwatch.collector.detect.straggler.evidence.rare import least_log_rarity, log_rarity
from stepwatch.collector.detect.straggler.evidence.stalled_loads import log_alone, lost_to_stalls
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.bets import log_alarm
from stepwatch.collector.state.evidence.buckets import BUCKET_SECONDS, Course
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.collector.state.trackers.steps.step_window import WORK
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
"""The stage that nodes have among units; ranks of an unknown stage have -1."""


class CostlyRank(NamedTuple):
    """A rank that costs time: which share of it since step `since`, lately (`now`), and the phase
    it loses most in.

    It began somewhere in the steps `span[0]` to `span[1]`. `log_odds` is the logarithm of one over
    the chance that this is nobody's fault, `counts` what became of the tokens that ranks report.
    `node` is the place of the node that is slow as a whole, of which the rank is the first, -1
    where it is the rank. `until` is the first of the newest steps in which nothing shows any more,
    -1 where it goes on; `work` are seconds of a step in that phase, its own and its peers', in the
    stretches that show it.
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
    """Ranks that are slow beyond chance and cost enough, the costliest first.

    `stage` (ranks,) is the stage of each, `course` that of the evidence, where somebody has it.
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
    costly_found, excess = [], _Excess(course, stage, evidence.members)
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
            costly_found.append(costly._replace(log_odds=float(odds[rank]), counts=counts))
    return sorted(costly_found, key=lambda rank: -rank.lost.share)


_MOST_HIDDEN = 3


def _with_rare(
    course: Course, evidence: RankEvidence, units: Integers, sure: Mask, limits: Thresholds
) -> tuple[Vector, Mask]:
    """The rarity of each unit's long steps (units,), and who is slow beyond chance by that or by
    bets, which name those that are `sure` (units,).

    Whoever is found is no peer of the others any more, so one that is slow more rarely shows, too.
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
    """By how much the work of a rank in each phase exceeds that of the median rank of its stage,
    over buckets; that of a node likewise exceeds the median node's."""

    def __init__(self, course: Course, stage: SmallIntegers, members: IntegerMatrix) -> None:
        self.work = course.work.astype(np.float64)
        self.members = members
        self._stage = stage
        self._usual: dict[int, Matrix] = {}

    def seconds_of(self, unit: int) -> Matrix:
        """Seconds (buckets, phases) of a rank, or of a node behind the ranks."""
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
    """`costly` as that of a node, with its first rank; None where it is a few of its ranks that
    are slow: nearly all exceed the median rank by half of what they do on average, or more."""
    since = course.first_step >= costly.since
    ranks = excess.members[node].tolist()
    excesses = np.array([excess.seconds_of(rank)[since].sum() for rank in ranks])
    if (excesses >= excesses.mean() / 2).mean() < NEARLY_ALL:
        return None
    return costly._replace(rank=ranks[0], node=node)  # the same one each time


def beyond_peers(course: Course, rank: int, members: Integers, named: Integers) -> Vector:
    """Seconds (buckets,) that a rank held its stage up, less what a peer that is not named did in
    as many steps: what a peer costs that nobody observes is unknown, not nothing. Without any that
    is observed nothing is known to be lost.

    Of ten steps the rank, of which all are known, costs 3 s; of two peers one costs 2 s, the other,
    of which five are known, 1 s: a fifth of a second a step, so 1 s beyond them.
    """
    healthy = np.setdiff1d(members, named)
    cost, seen_steps = (plane[:, healthy].sum(axis=1) for plane in (course.cost, course.seen))
    unknown = seen_steps == 0
    if unknown.any():  # then those that are named are all there is to compare with
        cost[unknown] = course.cost[unknown][:, members].sum(axis=1)
        seen_steps[unknown] = course.seen[unknown][:, members].sum(axis=1)
    mean_cost = np.divide(cost, seen_steps, out=np.zeros(len(cost)), where=seen_steps > 0)
    net = course.cost[:, rank] - course.seen[:, rank] * mean_cost
    return np.asarray(np.where(seen_steps > 0, net, 0.0))


def _costly(
    course: Course, rank: int, net: Vector, excess: Matrix, limits: Thresholds
) -> CostlyRank | None:
    """What a rank with this `excess` (buckets, phases) costs since that rose, if it is enough and
    goes on.

    It may have exceeded the median rank before: until both are suspected, two slow ranks hide each
    other.
    """
    loss_episode = episode(net, course.seconds)
    while_it_lasts = slice(loss_episode.begin, loss_episode.end)
    lost = share_of(net[while_it_lasts], course.seconds[while_it_lasts])
    if lost.low < limits.least_lost_low or lost.share < limits.least_lost_ratio:
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
    """The first bucket from `begin` on in which `excess` (buckets,) is as far as it shows: of what
    comes now and then, the time before it came first is not slow yet."""
    least = float(excess[loss_episode.shows].mean()) / 2
    return begin + int(np.argmax(excess[begin:] >= least))


def _now(net: Vector, seconds: Vector) -> float:
    """The share of the newest bucket, together with the one before where that has just begun."""
    newest = slice(-1 if seconds[-1] >= BUCKET_SECONDS else -2, None)
    return float(net[newest].sum() / seconds[newest].sum())


def _work(
    course: Course, rank: int, excess: Vector, phase: int, shows: Mask
) -> tuple[float, float]:
    """Seconds of a step that a rank works in a phase where it `shows` (buckets,), and its peers."""
    steps = int(course.steps[shows].sum())
    more = float(excess[shows].sum()) / steps
    if rank >= course.work.shape[2]:  # a node: its first rank stands for it
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
