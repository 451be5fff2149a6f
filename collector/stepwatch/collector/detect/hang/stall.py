"""A job in which nothing moves: who waits, who is outside, and how long that may last.

Where a rank sits in a collective that others did not enter, those others decide. Facts may show
that one does not go on by itself (`activity.is_over`): that is a hang at once. Else it may be a
pause, for as long as signs of work explain it, until the collective's timeout is near; and without
any sign of work for as long as a wait may be legal (`legal`), whatever others outside do. In an
evaluation or a save that is marked, signs of work on any rank explain it for longer. Where nobody
waits, all may wait in a collective that no line shows: then none of them may be at work. Where all
are inside one collective, it may be a transfer for as long as bytes move. A rank that nobody
observes may be in a pause, unless it has entered the step; one whose node fell silent when the
others came to a halt is lost with it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from stepwatch.collector.detect.wait_graph import Answer
from stepwatch.collector.state.trackers.rank_work import Work

from .activity import DEAD, Activity, activity_of, is_device_stuck, is_over, quiet_seconds
from .device import with_waiting_hosts
from .holding import holding_up
from .legal import (
    NONE_KNOWN,
    Longest,
    legal_seconds,
    may_go_on,
    paused_phases,
    usual_seconds,
)
from .situation import (
    NO_DIAGNOSTICS,
    NO_OTHER_RANKS,
    Missed,
    OtherRanks,
    RankDiagnostics,
    RankSituation,
    missed_collectives,
)
from .thresholds import Thresholds
from .together import are_all_frozen, fell_silent_then


class Stall(NamedTuple):
    """A job whose ranks have made no progress for `seconds`, longer than its phase allows.

    `waiting` are the ranks that wait for others, `outside` those that may be waited for, and
    `activity` what these do: while others wait, idle where one of them is; else running where one
    of them runs. `idle` are those of `outside` that do not run.
    `lacking` holds the ranks that missed a collective by their flight recorders. Its phase allows
    `allowed_seconds`, and beyond `hang_seconds` it is a hang; a wait of up to `usual_seconds` is
    one that the job came out of before. `others` are ranks whose situation is
    not known, or that have ended; `answer` says who is waited for by all that is known. `lost` is
    whether those of them that are not observed fell silent when the others came to a halt, `over`
    whether ranks have finished and no other waits: a last one may evaluate or upload for long.
    `marked` is whether what holds the job up may be an evaluation or a save that goes on.
    """

    ranks: list[RankSituation]
    seconds: float
    waiting: list[RankSituation]
    outside: list[RankSituation]
    idle: list[RankSituation]
    activity: Activity
    lacking: list[Missed]
    diagnostics: RankDiagnostics
    allowed_seconds: float
    hang_seconds: float
    other_ranks: OtherRanks = NO_OTHER_RANKS
    answer: Answer = Answer()
    lost: bool = False
    over: bool = False
    marked: bool = False
    usual_seconds: float = 0.0

    @property
    def is_hang(self) -> bool:
        """Whether it no longer is, or never was, explained by a pause."""
        return self.seconds >= self.hang_seconds


def stall_of(
    ranks: list[RankSituation],
    median_step: float,
    longest_step: float,
    limits: Thresholds,
    diagnostics: RankDiagnostics = NO_DIAGNOSTICS,
    other_ranks: OtherRanks = NO_OTHER_RANKS,
    pauses: Longest = NONE_KNOWN,
) -> Stall | None:
    """The stall of `ranks`, None while they make progress or need make none.

    `median_step` is in seconds, NaN while unknown, and `longest_step` that of the attempt so far,
    NaN before the first step has ended; `pauses` holds the longest that a rank spent in each phase.
    `ranks` leaves out those that have finished. No rank known is no stall: that is for the
    telemetry detector.
    """
    if not ranks:
        return None
    seconds = min(item.moved_age for item in ranks)
    over = _is_over(ranks, other_ranks)
    allowed = (
        limits.legal_seconds if over else allowed_seconds(ranks, median_step, longest_step, limits)
    )
    if math.isnan(median_step) and _has_lost_one(ranks, other_ranks):
        allowed = min(allowed, limits.least_seconds)
    if seconds < allowed:
        return None
    ranks = with_waiting_hosts(ranks)
    lacking = missed_collectives(diagnostics.diagnoses)
    waiting, outside = _sides(ranks, lacking)
    does = {item.rank: activity_of(item, limits) for item in outside}
    goes_on = bool(paused_phases(ranks)) and may_go_on(ranks, limits) and not _has_dead(ranks)
    answer, lost = _waited_for(
        ranks, waiting, seconds, median_step, limits, diagnostics, other_ranks
    )
    # A rank that nobody observes may evaluate more than before.
    longest_pauses = NONE_KNOWN if other_ranks.unseen else pauses
    stall = Stall(
        ranks=ranks,
        seconds=seconds,
        waiting=waiting,
        outside=outside,
        idle=[item for item in outside if does[item.rank] is Activity.IDLE],
        activity=_together(list(does.values()), has_waiters=bool(waiting) and not goes_on),
        lacking=lacking,
        diagnostics=diagnostics,
        allowed_seconds=allowed,
        hang_seconds=allowed,
        other_ranks=other_ranks,
        answer=answer,
        lost=lost,
        over=over,
        marked=goes_on,
        usual_seconds=usual_seconds(outside, longest_pauses, limits),
    )
    return stall._replace(hang_seconds=max(allowed, _hang_seconds(stall, longest_pauses, limits)))


def allowed_seconds(
    ranks: list[RankSituation],
    median_step: float,
    longest_step: float,
    limits: Thresholds,
) -> float:
    """How long all ranks may make no progress in the phase they are in, without a reason."""
    if math.isnan(longest_step):
        return limits.first_step_seconds
    early_limit = max(limits.early_seconds, limits.step_multiple * longest_step)
    allowed = min(early_limit, limits.first_step_seconds)
    if not math.isnan(median_step):
        allowed = max(limits.least_seconds, limits.step_multiple * median_step)
    return max(allowed, limits.legal_seconds) if paused_phases(ranks) else allowed


def _is_over(ranks: list[RankSituation], other_ranks: OtherRanks) -> bool:
    """Whether ranks have finished and no other waits: a rank that waits for one of them hangs."""
    return other_ranks.finished and not any(item.is_held or item.process in DEAD for item in ranks)


def _waited_for(
    ranks: list[RankSituation],
    waiting: list[RankSituation],
    seconds: float,
    median_step: float,
    limits: Thresholds,
    diagnostics: RankDiagnostics,
    other_ranks: OtherRanks,
) -> tuple[Answer, bool]:
    """Who is waited for, and whether those of them that nobody observes are lost."""
    answer = holding_up(ranks, diagnostics.groups, other_ranks)
    if not answer.holding and any(item.waiting and not item.in_collective for item in waiting):
        # Nothing says which neighbour of the pipeline is waited for: it may be any that is unseen.
        unseen = {*answer.unobserved, *(rank.rank for rank in other_ranks.unseen)}
        answer = answer._replace(unobserved=tuple(sorted(unseen)))
    awaited = [rank for rank in other_ranks.unseen if rank.rank in answer.unobserved]
    return answer, bool(awaited) and fell_silent_then(awaited, seconds, median_step, limits)


def _has_lost_one(ranks: list[RankSituation], other_ranks: OtherRanks) -> bool:
    """Whether a rank will not come back, or ended while others wait: no start-up takes so long.

    In a checkpoint or an evaluation the others may still have work of their own.
    """
    if paused_phases(ranks):
        return False
    has_waiter = any(item.is_held for item in ranks)
    return _has_dead(ranks) or (has_waiter and bool(other_ranks.ended))


def _has_dead(ranks: list[RankSituation]) -> bool:
    return any(item.process in DEAD for item in ranks)


def _sides(
    ranks: list[RankSituation], lacking: list[Missed]
) -> tuple[list[RankSituation], list[RankSituation]]:
    """Ranks that wait, and those outside. Where no line shows a wait, the hooks may not see the
    trainer's collectives: then the flight recorders tell who has not entered one."""
    waiting = [item for item in ranks if item.is_held]
    outside = [item for item in ranks if not item.is_held]
    behind = {item.rank for item in lacking}
    # A busy device's recorder counts what its host enqueued ahead.
    laggards = [item for item in outside if item.rank in behind and item.host is None]
    if waiting or not laggards:
        return waiting, outside
    return [item for item in outside if item.rank not in behind], laggards


def _together(outside: list[Activity], *, has_waiters: bool) -> Activity:
    """Return the common activity of the `outside` ranks.

    If `has_waiters`, other ranks wait for all of these, so one idle rank decides.
    """
    if has_waiters and Activity.IDLE in outside:
        return Activity.IDLE
    for kind in (Activity.RUNNING, Activity.UNKNOWN):
        if kind in outside:
            return kind
    return Activity.IDLE


def _unseen_seconds(stall: Stall, limits: Thresholds) -> float:
    """For how long a pause of ranks that nobody observes explains that all others wait for them."""
    awaited, other_ranks = stall.answer.unobserved, stall.other_ranks
    if other_ranks.entered.issuperset(awaited):
        return 0.0
    if any(rank.paused for rank in other_ranks.unseen if rank.rank in awaited):
        return limits.pause_seconds
    return limits.lost_node_seconds if stall.lost else limits.legal_seconds


def _hang_seconds(stall: Stall, longest: Longest, limits: Thresholds) -> float:
    """For how long a pause explains it; 0 where it explains nothing."""
    waiting, outside = stall.waiting, stall.outside
    if are_all_frozen(stall.ranks, limits):
        return 0.0
    if waiting and not outside and stall.answer.unobserved:
        return _unseen_seconds(stall, limits)
    if stall.marked or stall.over:
        return limits.pause_seconds
    stuck = any(is_device_stuck(item, limits) for item in outside)
    if stuck or _has_dead(stall.ranks):
        return 0.0
    if not outside:
        return _inside_until(stall, limits)
    if waiting and any(is_over(item, limits) for item in outside):
        return 0.0
    return _legal_until(stall, longest, limits)


def _inside_until(stall: Stall, limits: Thresholds) -> float:
    """For how long ranks that are all inside may be in a transfer: a large one, or a slow link.

    Bytes that move are its only sign: a rank that waits may use a CPU for it. None may come where
    a rank has ended, ranks wait in a circle, or a recorder lacks the collective.
    """
    if stall.answer.holding or stall.answer.cycle or stall.lacking:
        return 0.0
    quiet = min(min(item.carried_age, item.moved_age) for item in stall.waiting)
    carries = any(Work.BYTES in (item.work or Work.NONE) for item in stall.waiting)
    if carries:
        return limits.held_seconds
    return min(limits.held_seconds, stall.seconds - quiet + limits.legal_seconds)


def _legal_until(stall: Stall, longest: Longest, limits: Thresholds) -> float:
    """For how long ranks outside may be at work, or have a reason to wait, by what is seen."""
    waiting, outside = stall.waiting, stall.outside
    unseen = stall.activity is Activity.IDLE or any(item.host is not None for item in outside)
    explained = limits.held_seconds if waiting or unseen else limits.pause_seconds
    # Where others wait, one that is not at work decides; else none of them may be.
    quiet = (max if waiting else min)(quiet_seconds(item, limits) for item in outside)
    if not quiet:
        return explained
    legal = legal_seconds(stall.ranks, outside, longest, limits)
    return min(explained, stall.seconds - quiet + legal)
