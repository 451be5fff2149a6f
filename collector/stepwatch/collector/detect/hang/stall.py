"""A job in which nothing moves: the waiting ranks, the outside ranks, and the legal duration.

If a rank sits in a collective that others did not enter, those other ranks decide. Facts may show
that one cannot resume by itself (`is_over`): that is a hang at once. Otherwise it may be a pause,
as long as signs of work explain it, until the collective's timeout is near. Without any sign of
work it may last as long as a wait may be legal (`legal_seconds`), whatever other outside ranks do.
In a marked evaluation or save, signs of work on any rank extend this time.

If no rank waits, all may wait in a collective that no line shows: then none may be at work. If all
are inside one collective, it may be a transfer as long as bytes move. An unobserved rank may be in
a pause, unless it has entered the step. A rank whose node fell silent when the others halted is
lost with its node.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from stepwatch.collector.detect.rank_failed import LIMITS as ENDS
from stepwatch.collector.detect.wait_graph import Answer
from stepwatch.collector.state.trackers.rank_work import Work
from stepwatch.signals.records import ProcessState

from .holding import (
    NONE_KNOWN,
    Longest,
    fell_silent_then,
    holding_up,
    legal_seconds,
    may_go_on,
    paused_phases,
    usual_seconds,
    with_waiting_hosts,
)
from .situation import (
    DEAD,
    NO_DIAGNOSTICS,
    NO_OTHER_RANKS,
    Activity,
    Missed,
    OtherRanks,
    RankDiagnostics,
    RankSituation,
    Thresholds,
    activity_of,
    are_all_frozen,
    is_device_stuck,
    is_over,
    missed_collectives,
    quiet_seconds,
)


class Stall(NamedTuple):
    """A job whose ranks have made no progress for `seconds`, longer than its phase allows.

    `waiting` ranks wait for others; `outside` ranks may be the awaited ones. `activity` is the
    outside ranks' activity: while others wait, idle if any of them is idle; otherwise running if
    any runs. `idle` are the `outside` ranks that do not run. `lacking` holds the ranks that missed
    a collective by their flight recorders.

    Its phase allows `allowed_seconds`, and beyond `hang_seconds` it is a hang. The job has
    recovered from waits up to `usual_seconds` before. `other_ranks` have an unknown situation or
    have ended; `answer` names the awaited ranks, by all known facts. `lost` is whether the
    unobserved awaited ranks fell silent when the others halted. `over` is whether ranks have
    finished and no other waits: a last rank may evaluate or upload for long. `marked` is whether
    the blocker may be an evaluation or a save in progress.
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
        """Return whether a pause no longer explains it, or never did."""
        return self.seconds >= self.hang_seconds


def stall_of(
    ranks: list[RankSituation],
    median_step: float,
    longest_step: float,
    limits: Thresholds,
    diagnostics: RankDiagnostics = NO_DIAGNOSTICS,
    other_ranks: OtherRanks = NO_OTHER_RANKS,
    pauses: Longest = NONE_KNOWN,
    lost_seconds: float = ENDS.lost_seconds,
) -> Stall | None:
    """Return the stall of `ranks`, None while they make progress or need not.

    `median_step` is in seconds, NaN while unknown. `longest_step` is the attempt's longest step so
    far, NaN before the first step has ended. `pauses` holds a rank's longest time in each phase.
    `lost_seconds` is `rank_failed`'s threshold for a lost node.
    `ranks` leaves out finished ranks. An empty `ranks` is no stall: that is the telemetry
    detector's task.
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
    does = {item.rank: activity_of(item) for item in outside}
    goes_on = bool(paused_phases(ranks)) and may_go_on(ranks) and not _has_dead(ranks)
    answer, lost = _waited_for(
        ranks, waiting, seconds, median_step, limits, diagnostics, other_ranks, lost_seconds
    )
    # An unobserved rank may evaluate for longer than before.
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
    """Return how long all ranks may lack progress in their phase without a reason."""
    if math.isnan(longest_step):
        return limits.first_step_seconds
    early_limit = max(limits.early_seconds, limits.step_multiple * longest_step)
    allowed = min(early_limit, limits.first_step_seconds)
    if not math.isnan(median_step):
        allowed = max(limits.least_seconds, limits.step_multiple * median_step)
    return max(allowed, limits.legal_seconds) if paused_phases(ranks) else allowed


def _is_over(ranks: list[RankSituation], other_ranks: OtherRanks) -> bool:
    """Return whether ranks have finished and no other waits.

    A rank that waits for a finished rank hangs.
    """
    return other_ranks.finished and not any(item.is_held or item.process in DEAD for item in ranks)


def _waited_for(
    ranks: list[RankSituation],
    waiting: list[RankSituation],
    seconds: float,
    median_step: float,
    limits: Thresholds,
    diagnostics: RankDiagnostics,
    other_ranks: OtherRanks,
    lost_seconds: float,
) -> tuple[Answer, bool]:
    """Return the awaited ranks, and whether the unobserved ones among them are lost."""
    answer = holding_up(ranks, diagnostics.groups, other_ranks)
    if not answer.holding and any(item.waiting and not item.in_collective for item in waiting):
        # The awaited pipeline neighbour is unknown: it may be any unobserved rank.
        unseen = {*answer.unobserved, *(rank.rank for rank in other_ranks.unseen)}
        answer = answer._replace(unobserved=tuple(sorted(unseen)))
    awaited = [rank for rank in other_ranks.unseen if rank.rank in answer.unobserved]
    return answer, bool(awaited) and fell_silent_then(
        awaited, seconds, median_step, limits, lost_seconds
    )


def _has_lost_one(ranks: list[RankSituation], other_ranks: OtherRanks) -> bool:
    """Return whether a rank is lost for good, or ended while others wait.

    No start-up takes so long. In a checkpoint or an evaluation the others may still have their own
    work.
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
    """Return the waiting ranks and the outside ranks.

    If no line shows a wait, the hooks may not see the trainer's collectives; then the flight
    recorders show which ranks have not entered one.
    """
    waiting = [item for item in ranks if item.is_held]
    outside = [item for item in ranks if not item.is_held]
    behind = {item.rank for item in lacking}
    # A busy device's recorder counts operations that its host enqueued ahead.
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
    """Return for how long a pause on unobserved ranks explains the others' wait, in seconds."""
    awaited, other_ranks = stall.answer.unobserved, stall.other_ranks
    if other_ranks.entered.issuperset(awaited):
        return 0.0
    if any(rank.paused for rank in other_ranks.unseen if rank.rank in awaited):
        return limits.pause_seconds
    return limits.lost_node_seconds if stall.lost else limits.legal_seconds


def _hang_seconds(stall: Stall, longest: Longest, limits: Thresholds) -> float:
    """Return for how long a pause explains the stall, in seconds; 0 if it does not."""
    waiting, outside = stall.waiting, stall.outside
    if are_all_frozen(stall.ranks):
        return 0.0
    if waiting and not outside and stall.answer.unobserved:
        return _unseen_seconds(stall, limits)
    if stall.marked or stall.over:
        return limits.pause_seconds
    stuck = any(is_device_stuck(item) for item in outside)
    if stuck or _has_dead(stall.ranks):
        return 0.0
    if not outside:
        return _inside_until(stall, limits)
    if waiting and any(is_over(item) for item in outside):
        return 0.0
    return _legal_until(stall, longest, limits)


def _inside_until(stall: Stall, limits: Thresholds) -> float:
    """Return for how long a large or slow transfer explains ranks that are all inside.

    Moving bytes are its only sign: a waiting rank may use a CPU for it. There is no transfer if a
    rank has ended, ranks wait in a cycle, or a recorder lacks the collective.
    """
    if stall.answer.holding or stall.answer.cycle or stall.lacking:
        return 0.0
    quiet = min(min(item.carried_age, item.moved_age) for item in stall.waiting)
    carries = any(Work.BYTES in (item.work or Work.NONE) for item in stall.waiting)
    if carries:
        return limits.held_seconds
    return min(limits.held_seconds, stall.seconds - quiet + limits.legal_seconds)


def _legal_until(stall: Stall, longest: Longest, limits: Thresholds) -> float:
    """Return for how long observations allow work, or a reason to wait, on outside ranks."""
    waiting, outside = stall.waiting, stall.outside
    unseen = stall.activity is Activity.IDLE or any(item.host is not None for item in outside)
    explained = limits.held_seconds if waiting or unseen else limits.pause_seconds
    # If others wait, one rank that is not at work decides; otherwise all must be without work.
    quiet = (max if waiting else min)(quiet_seconds(item) for item in outside)
    if not quiet:
        return explained
    legal = legal_seconds(stall.ranks, outside, longest, limits)
    return min(explained, stall.seconds - quiet + legal)


def culprit_of(stall: Stall) -> RankSituation | None:
    """Return the rank for which all others wait.

    A dead or stopped rank has precedence over the rank that is behind. If the lines do not name one
    rank (the hooks may not see the trainer's collectives), the flight recorders do: a rank in
    `lacking` entered one collective less. A waiting rank may be seen blocked in the kernel for a
    moment; being blocked only counts for a rank that does not wait.
    """
    ranks = stall.ranks
    missing = _missing(stall)
    for state in DEAD:
        for item in ranks:
            if item.process is state:
                return item
    blocked = [
        item
        for item in missing
        if item.process is ProcessState.UNINTERRUPTIBLE and item.host is None
    ]
    if blocked:
        return blocked[0]
    if not any(item.rank in stall.answer.holding for item in missing) and (
        stall.answer.holding or stall.answer.unobserved
    ):
        return None  # all ranks wait for an ended or unobserved rank
    if not missing or len(missing) == len(ranks) > 1:
        behind = {item.rank for item in stall.lacking}
        # A busy device's recorder counts operations that its host enqueued ahead.
        candidates = [item for item in ranks if item.rank in behind and item.host is None]
        return candidates[0] if len(candidates) == 1 else None
    idle = {item.rank for item in stall.idle}
    return max(missing, key=lambda item: (item.rank in idle, -item.step, item.moved_age))


def _missing(stall: Stall) -> list[RankSituation]:
    """Return the ranks that wait for no other rank.

    If the graph shows awaited ranks, only those count.
    """
    missing = [item for item in stall.ranks if not item.is_held]
    holding = [item for item in missing if item.rank in stall.answer.holding]
    return holding or missing
