"""A job in which nothing moves: who waits, who is outside, and how long that may last.

Where a rank sits in a collective that others did not enter, those others decide: one that runs
evaluates, saves or computes something that no hook recognises, and the rest wait for it. That is a
pause, until it has lasted so long that the collective's timeout is near. One that does not run
will not arrive: that is a hang at once, whatever others outside do. In an evaluation or a save that
is marked, what takes far longer than those before is a pause while a rank runs there or waits for
storage, and a hang where none does. Where nobody waits and a rank runs, nobody is held up; where
none runs, or devices are busy, they may wait in a collective that no line shows. A rank that nobody
observes may be in a pause, unless it has entered the step; one whose node fell silent when the
others came to a halt is lost with it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from stepwatch.collector.detect.wait_graph import Answer
from stepwatch.signals.records import ProcessState

from .activity import DEAD, Activity, activity_of, is_device_stuck
from .device import with_waiting_hosts
from .holding import holding_up
from .marked import NONE_KNOWN, Longest, marked_seconds, may_go_on, paused_phases
from .situation import (
    NO_OTHERS,
    NOBODY_ASKED,
    Asked,
    Missed,
    Others,
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
    `allowed_seconds`, and beyond `hang_seconds` it is a hang. `others` are ranks whose situation is
    not known, or that have ended; `answer` says who is waited for by all that is known. `lost` is
    whether those of them that are not observed fell silent when the others came to a halt.
    """

    ranks: list[RankSituation]
    seconds: float
    waiting: list[RankSituation]
    outside: list[RankSituation]
    idle: list[RankSituation]
    activity: Activity
    lacking: list[Missed]
    asked: Asked
    allowed_seconds: float
    hang_seconds: float
    others: Others = NO_OTHERS
    answer: Answer = Answer()
    lost: bool = False

    @property
    def is_hang(self) -> bool:
        """Whether it no longer is, or never was, explained by a pause."""
        return self.seconds >= self.hang_seconds


def stall_of(
    ranks: list[RankSituation],
    median_step: float,
    longest_step: float,
    limits: Thresholds,
    asked: Asked = NOBODY_ASKED,
    others: Others = NO_OTHERS,
    pauses: Longest = NONE_KNOWN,
) -> Stall | None:
    """The stall of `ranks`, None while they make progress or need make none.

    `median_step` is in seconds, NaN while unknown, and `longest_step` that of the attempt so far,
    NaN before the first step has ended; `pauses` holds the longest evaluation and save so far.
    `ranks` leaves out those that have finished. No rank known is no stall: that is for the
    telemetry detector.
    """
    if not ranks:
        return None
    seconds = min(item.moved_age for item in ranks)
    # A rank that nobody observes may evaluate more than before.
    known = NONE_KNOWN if others.unseen else pauses
    allowed = allowed_seconds(ranks, median_step, longest_step, limits, known)
    if math.isnan(median_step) and _has_lost_one(ranks, others):
        allowed = min(allowed, limits.least_seconds)
    if seconds < allowed:
        return None
    ranks = with_waiting_hosts(ranks)
    lacking = missed_collectives(asked.diagnoses)
    waiting, outside = _sides(ranks, lacking)
    does = {item.rank: activity_of(item, limits) for item in outside}
    goes_on = bool(paused_phases(ranks)) and may_go_on(ranks, limits) and not _has_dead(ranks)
    activity = _together(list(does.values()), held=bool(waiting) and not goes_on)
    answer = holding_up(ranks, asked.groups, others)
    if not answer.holding and any(item.waiting and not item.in_collective for item in waiting):
        # Nothing says which neighbour of the pipeline is waited for: it may be any that is unseen.
        unseen = {*answer.unobserved, *(each.rank for each in others.unseen)}
        answer = answer._replace(unobserved=tuple(sorted(unseen)))
    who = [each for each in others.unseen if each.rank in answer.unobserved]
    lost = bool(who) and fell_silent_then(who, seconds, median_step, limits)
    if are_all_frozen(ranks, limits):
        bound = 0.0
    elif waiting and not outside and answer.unobserved:
        bound = _unseen_seconds(answer, others, limits, lost=lost)
    elif goes_on and waiting:
        bound = limits.pause_seconds
    elif not waiting and all(item.process is ProcessState.UNINTERRUPTIBLE for item in ranks):
        bound = limits.blocked_seconds
    else:
        bound = _hang_seconds(ranks, waiting, outside, activity, limits)
    return Stall(
        ranks=ranks,
        seconds=seconds,
        waiting=waiting,
        outside=outside,
        idle=[item for item in outside if does[item.rank] is Activity.IDLE],
        activity=activity,
        lacking=lacking,
        asked=asked,
        allowed_seconds=allowed,
        hang_seconds=max(allowed, bound),
        others=others,
        answer=answer,
        lost=lost,
    )


def allowed_seconds(
    ranks: list[RankSituation],
    median_step: float,
    longest_step: float,
    limits: Thresholds,
    pauses: Longest = NONE_KNOWN,
) -> float:
    """How long all ranks may make no progress in the phase they are in."""
    if phases := paused_phases(ranks):
        return marked_seconds(with_waiting_hosts(ranks), phases, pauses, limits)
    if math.isnan(longest_step):
        return limits.first_step_seconds
    if math.isnan(median_step):
        early = max(limits.early_seconds, limits.step_multiple * longest_step)
        return min(early, limits.first_step_seconds)
    return max(limits.least_seconds, limits.step_multiple * median_step)


def _has_lost_one(ranks: list[RankSituation], others: Others) -> bool:
    """Whether a rank will not come back, or ended while others wait: no start-up takes so long.

    In a checkpoint or an evaluation the others may still have work of their own.
    """
    if paused_phases(ranks):
        return False
    held = any(item.is_held for item in ranks)
    return _has_dead(ranks) or (held and bool(others.ended))


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
    known = [item for item in outside if item.rank in behind and item.host is None]
    if waiting or not known:
        return waiting, outside
    return [item for item in outside if item.rank not in behind], known


def _together(outside: list[Activity], *, held: bool) -> Activity:
    """What ranks outside do. Where others are `held` up, they wait for all of them: an idle one
    decides."""
    if held and Activity.IDLE in outside:
        return Activity.IDLE
    for kind in (Activity.RUNNING, Activity.UNKNOWN):
        if kind in outside:
            return kind
    return Activity.IDLE


def _unseen_seconds(answer: Answer, others: Others, limits: Thresholds, *, lost: bool) -> float:
    """For how long a pause of ranks that nobody observes explains that all others wait for them."""
    if others.entered.issuperset(answer.unobserved):
        return 0.0
    if any(each.paused for each in others.unseen if each.rank in answer.unobserved):
        return limits.pause_seconds
    return limits.lost_node_seconds if lost else limits.unseen_seconds


def _hang_seconds(
    ranks: list[RankSituation],
    waiting: list[RankSituation],
    outside: list[RankSituation],
    activity: Activity,
    limits: Thresholds,
) -> float:
    """For how long a pause explains it; 0 where it explains nothing."""
    stuck = any(is_device_stuck(item, limits) for item in outside)
    if stuck or not outside or _has_dead(ranks):
        return 0.0
    if not waiting:
        unseen = activity is Activity.IDLE or any(item.host is not None for item in outside)
        return limits.held_seconds if unseen and len(ranks) > 1 else limits.pause_seconds
    return 0.0 if activity is Activity.IDLE else limits.held_seconds
