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

from stepwatch.collector.detect.straggler.evidence.rare import least_log_rarity, log_rarity
from stepwatch.collector.detect.straggler.evidence.stalled_loads import log_alone, lost_to_stalls
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.bets import log_alarm
from stepwatch.collector.state.evidence.buckets import Course
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
_RAMP_BUCKETS = 8
_RAMP_BETTER = 0.6
"""A line must leave so much less than a change does, of so many buckets at least."""


class Share(NamedTuple):
    """A share of the time, with the ends of its interval."""

    share: float
    low: float
    high: float


class CostlyRank(NamedTuple):
    """A rank that costs time: which share of it since step `since`, lately (`now`), and the phase
    it loses most in.

    It began somewhere in the steps `span[0]` to `span[1]`. `log_odds` is the logarithm of one over
    the chance that this is nobody's fault, `counts` what became of the tokens that ranks report.
    `node` is the place of the node that is slow as a whole, of which the rank is the first, -1
    where it is the rank.
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
    found, excess = [], _Excess(course, stage, evidence.members)
    for rank in named.tolist():
        others = np.flatnonzero(units == units[rank])
        net = beyond_peers(course, rank, others[others != rank], named)
        if not sure[rank] and lost_to_stalls(course, rank, net) < limits.least_lost_unsure:
            continue
        costly = _costly(course, rank, net, excess.of(rank), limits)
        if costly is not None and rank >= len(stage):
            costly = _of_node(course, costly, excess, rank - len(stage))
        if costly is not None:
            counts = evidence.counts.words
            found.append(costly._replace(log_odds=float(odds[rank]), counts=counts))
    return sorted(found, key=lambda each: -each.lost.share)


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
        found = sure | (rarity >= least)
        if (found == sure).all():
            break
        sure = found
    return rarity, sure


class _Excess:
    """By how much the work of a rank in each phase exceeds that of the median rank of its stage,
    over buckets; that of a node likewise exceeds the median node's."""

    def __init__(self, course: Course, stage: SmallIntegers, members: IntegerMatrix) -> None:
        self.work = course.work.astype(np.float64)
        self.members = members
        self._stage = stage
        self._usual: dict[int, Matrix] = {}

    def of(self, unit: int) -> Matrix:
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
    each = np.array([excess.of(rank)[since].sum() for rank in ranks])
    if (each >= each.mean() / 2).mean() < NEARLY_ALL:
        return None
    return costly._replace(rank=ranks[0], node=node)  # the same one each time


def beyond_peers(course: Course, rank: int, others: Integers, named: Integers) -> Vector:
    """Seconds (buckets,) that a rank held its stage up, less what a peer that is not named did in
    as many steps: what a peer costs that nobody observes is unknown, not nothing. Without any that
    is observed nothing is known to be lost.

    Of ten steps the rank, of which all are known, costs 3 s; of two peers one costs 2 s, the other,
    of which five are known, 1 s: a fifth of a second a step, so 1 s beyond them.
    """
    healthy = np.setdiff1d(others, named)
    cost, seen = (each[:, healthy].sum(axis=1) for each in (course.cost, course.seen))
    unknown = seen == 0
    if unknown.any():  # then those that are named are all there is to compare with
        cost[unknown] = course.cost[unknown][:, others].sum(axis=1)
        seen[unknown] = course.seen[unknown][:, others].sum(axis=1)
    each = np.divide(cost, seen, out=np.zeros(len(cost)), where=seen > 0)
    net = course.cost[:, rank] - course.seen[:, rank] * each
    return np.asarray(np.where(seen > 0, net, 0.0))


def _costly(
    course: Course, rank: int, net: Vector, excess: Matrix, limits: Thresholds
) -> CostlyRank | None:
    """What a rank with this `excess` (buckets, phases) costs since that rose, if it is enough and
    goes on.

    It may have exceeded the median rank before: until both are suspected, two slow ranks hide each
    other.
    """
    begin = began(net, course.seconds)
    lost = share_of(net[begin:], course.seconds[begin:])
    if lost.low < limits.least_lost_low or lost.share < limits.least_lost_ratio:
        return None
    now = _lately(net[begin:], course.seconds[begin:], lost.share, limits)
    if now < limits.lasting_share * lost.share:
        return None
    by_phase = excess[begin:].sum(axis=0)
    begin = min(begin, began(excess.sum(axis=1), course.seconds))
    return CostlyRank(
        rank=rank,
        phase=WORK[int(np.argmax(by_phase))],
        lost=lost,
        now=now,
        since=int(course.first_step[begin]),
        span=_span(course.first_step, begin),
        log_odds=math.nan,
    )


def _span(first_step: Integers, begin: int) -> tuple[int, int]:
    """The first steps of the buckets before and after that at `begin`: it began between them."""
    last = min(begin + 1, len(first_step) - 1)
    return int(first_step[max(begin - 1, 0)]), int(first_step[last])


def began(net: Vector, seconds: Vector) -> int:
    """The bucket from which on `net` (buckets,) is more than it was: where the sum of what exceeds
    the mean is the largest, counted from the end. The first one where it was as much before.

    Net 0, 0, 1, 1 of equal buckets: less the mean -0.5, -0.5, 0.5, 0.5, sums 0, 0.5, 1, 0.5 -> 2.
    """
    usual = net.sum() / seconds.sum()
    sums = np.cumsum((net - usual * seconds)[::-1])[::-1]
    begin = int(np.argmax(sums))
    rises = _rises_from(net / seconds, begin)
    if rises is not None:
        return rises
    if not begin:
        return 0
    before = net[:begin].sum() / seconds[:begin].sum()
    return 0 if before >= 0.5 * net[begin:].sum() / seconds[begin:].sum() else begin


def _rises_from(share: Vector, begin: int) -> int | None:
    """The bucket from which `share` (buckets,) grows ever more, where that fits clearly better than
    a change at `begin`; None where it does not.

    Shares 0, 0, 1, 2, 3, 4: a straight line from bucket 1 on fits exactly.
    """
    count = len(share)
    if count < _RAMP_BUCKETS:
        return None
    parts = [share[:begin], share[begin:]] if begin else [share]
    change = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
    at = np.arange(count)
    best, where = math.inf, 0
    for first in range(count - _RAMP_BUCKETS // 2):
        line = np.maximum(at - first, 0.0)
        rest = float(
            ((share - line * max(0.0, float(line @ share) / float(line @ line))) ** 2).sum()
        )
        if rest < best:
            best, where = rest, first
    return where if best < _RAMP_BETTER * change else None


def share_of(net: Vector, seconds: Vector) -> Share:
    """The share of the time with its 90 % interval, from how much buckets differ; -inf and inf
    below three of them."""
    count, total = len(net), float(seconds.sum())
    share = float(net.sum()) / total
    if count < 3:
        return Share(share, -math.inf, math.inf)
    scatter = float(((net - share * seconds) ** 2).sum()) * count / (count - 1)
    error = _t_quantile(count - 1) * math.sqrt(scatter) / total
    return Share(share, share - error, share + error)


def _t_quantile(freedom: int) -> float:
    """The 95 % quantile of Student's t: the first terms of its expansion about the normal one."""
    z = 1.6449
    first = (z**3 + z) / (4 * freedom)
    return z + first + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _lately(net: Vector, seconds: Vector, share: float, limits: Thresholds) -> float:
    """The share of the newest time: of so many seconds, more where it shows only now and then."""
    hits = max(1, int((net >= share * seconds).sum()))
    span = max(limits.lately_seconds, limits.lately_gaps * float(seconds.sum()) / hits)
    ago = np.cumsum(seconds[::-1])[::-1]
    newest = ago <= span
    newest[-1] = True
    return float(net[newest].sum() / seconds[newest].sum())
