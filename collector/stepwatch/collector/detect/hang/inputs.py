"""Inputs for the hang detector."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.rank_failed import LIMITS as ENDS
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.communication.collective_records import group_texts
from stepwatch.collector.state.trackers.devices.device_steps import DeviceSteps
from stepwatch.collector.state.trackers.diagnoses import Diagnoses
from stepwatch.collector.state.trackers.nodes.agents import UNKNOWN_NODE, Agents
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.signals.arrays import Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import LifecycleEvent, Phase, ProcessState

from .holding import MARKED, entered_step
from .report import detect
from .situation import (
    BUSY,
    LIMITS,
    OtherRanks,
    RankDiagnostics,
    RankSituation,
    Thresholds,
    Unseen,
    as_device,
    followed,
    moved_ages,
)
from .stall import Stall, stall_of


def find(context: DetectionContext) -> list[Finding]:
    """Return the finding on a job in which no rank makes progress, with the missing rank."""
    return detect(context.once(stalled))


def stalled(context: DetectionContext) -> Stall | None:
    """Return the stall of a job that exceeds its phase's limit, be it a hang or a pause."""
    attempt, limits = context.attempt, context.thresholds(LIMITS)
    if not moved_age(context) >= limits.least_seconds:  # no phase allows less
        return None
    ages = context.once(known_ages)
    situations = rank_situations(attempt, context.now_s, ages, _silence(context))
    answers, unseen = rank_diagnostics(attempt), _unseen(context, ages)
    entered = _entered(attempt, situations, answers, limits) if unseen else frozenset()
    other_ranks = OtherRanks(
        unseen, tuple(sorted(attempt.lifecycle.ended)), entered, has_finished(attempt)
    )
    pauses = _longest_pauses(context.job.attempts.values())
    lost_seconds = context.thresholds(ENDS).lost_seconds
    step_seconds = _step_seconds(attempt)
    return stall_of(situations, *step_seconds, limits, answers, other_ranks, pauses, lost_seconds)


def _entered(
    attempt: Attempt, situations: list[RankSituation], answers: RankDiagnostics, limits: Thresholds
) -> frozenset[int]:
    """Return the ranks that have entered the step of `situations`."""
    if not situations:
        return frozenset()
    step = min(item.step for item in situations)
    calls = attempt.collective_records.of_steps(step - limits.order_steps, step - 1)
    return entered_step(situations, calls, answers.groups, limits.order_steps // 2)


def _longest_pauses(attempts: Iterable[Attempt]) -> dict[Phase, float]:
    """Return the longest time a rank has spent in each phase of a step, over all attempts."""
    pauses = [attempt.tracker(Steps).pauses for attempt in attempts]
    return {phase: max(history.longest(phase) for history in pauses) for phase in Phase}


def _step_seconds(attempt: Attempt) -> tuple[float, float]:
    """Return the usual and the longest step duration in seconds, NaN while unknown.

    The clock with the longer durations counts: a host that runs ahead has shorter steps.
    """
    step_history, lengths = attempt.steps.history, attempt.tracker(DeviceSteps).lengths
    longest = step_history.longest if len(step_history) else math.nan
    usual = np.fmax(step_history.baseline(), lengths.baseline(attempt.world))
    return float(usual), float(np.fmax(longest, lengths.longest()))


def has_finished(attempt: Attempt) -> bool:
    """Return whether a rank has finished its training."""
    return LifecycleEvent.FINISH in attempt.lifecycle.ended.values()


def rank_diagnostics(attempt: Attempt) -> RankDiagnostics:
    """Return diagnoses made since their rank last moved, and the members of each group."""
    fresh = {
        rank: diagnosis
        for rank, diagnosis in attempt.tracker(Diagnoses).by_rank.items()
        if (view := attempt.ranks.views.get(rank)) is not None
        and diagnosis.at_ns >= _moved_ns(view.row)
    }
    groups_by_number = attempt.collective_records.groups
    # A collective line holds 16 bits of a group's number: groups with equal bits are not named.
    low = Counter(number & 0xFFFF for number in groups_by_number)
    groups = {
        number & 0xFFFF: text
        for number, text in group_texts(groups_by_number).items()
        if low[number & 0xFFFF] == 1
    }
    return RankDiagnostics(fresh, groups)


def stalled_seconds(context: DetectionContext) -> float:
    """Return the seconds since any rank moved, NaN while no rank is known."""
    stale = min(context.staleness.values(), default=0.0)
    return moved_age(context) + max(stale, 0.0)


def moved_age(context: DetectionContext) -> float:
    """Return the age of the newest move at its agent's poll, in seconds.

    Ranks that have finished do not count. The result is NaN if there are no others.
    """
    ages = context.once(known_ages)
    return float(np.nanmin(ages)) if np.isfinite(ages).any() else math.nan


def known_ages(context: DetectionContext) -> Vector:
    """Return the seconds since each rank moved (world,), NaN for ended and unobserved ranks.

    A rank that was already stalled when last seen counts as stalled since, like the others: had it
    resumed, they would have resumed too, or more would be visible.
    """
    attempt, limits = context.attempt, context.thresholds(LIMITS)
    ages = moved_ages(attempt, context.now_s)
    ages[[rank for rank in attempt.lifecycle.ended if rank < len(ages)]] = np.nan
    for rank, silent in _silence(context).items():
        stood = rank < len(ages) and ages[rank] >= limits.least_seconds
        ages[rank : rank + 1] = ages[rank] + silent if stood else np.nan
    return ages


def _silence(context: DetectionContext) -> dict[int, float]:
    """Return the seconds since each unobserved rank was last seen.

    Ranks that were never seen are left out.
    """
    received = context.attempt.ranks.received_monotonic_s
    ranks = (rank for rank in context.unobserved if np.isfinite(received[rank : rank + 1]).any())
    return {rank: context.now_s - float(received[rank]) for rank in ranks}


def _unseen(context: DetectionContext, ages: Vector) -> tuple[Unseen, ...]:
    """Return the unobserved ranks, except ranks that were already stalled when last seen."""
    silence, ranks = _silence(context), context.attempt.ranks
    return tuple(
        Unseen(
            rank,
            ranks.node_of.get(rank, UNKNOWN_NODE),
            silence.get(rank, math.nan),
            rank in silence and int(ranks.rows[rank]["phase"]) in MARKED,
            context.attempt.tracker(Agents).flush_seconds(ranks.node_of.get(rank, UNKNOWN_NODE)),
        )
        for rank in sorted(context.unobserved)
        if not (rank < len(ages) and np.isfinite(ages[rank]))
    )


def rank_situations(
    attempt: Attempt,
    now_s: float,
    ages_s: Vector | None = None,
    silence: Mapping[int, float] = MappingProxyType({}),
) -> list[RankSituation]:
    """Return the ranks that have not finished, as hang detector input at monotonic `now_s`.

    `ages_s` (world,) holds the seconds since each rank moved, NaN for ranks to leave out. `silence`
    maps some ranks to the seconds since they were last seen.
    """
    situations = []
    ages = moved_ages(attempt, now_s) if ages_s is None else ages_s
    ranks, ended = attempt.ranks, attempt.lifecycle.ended
    node_of = ranks.node_of
    reported = np.flatnonzero(ranks.reported)
    rows = ranks.rows[reported]
    # Convert whole columns at once: reading one field of one row costs as much as ten conversions.
    lines = map(_Line._make, zip(*(rows[name].tolist() for name in _Line._fields), strict=True))
    for row, rank, line in zip(rows, reported.tolist(), lines, strict=True):
        age = float(ages[rank])
        if rank in ended or math.isnan(age):
            continue
        work, silent = ranks.work.rank_work(rank), silence.get(rank, 0.0)
        host = RankSituation(
            rank=rank,
            step=line.step,
            phase=line.phase,
            microbatch=line.microbatch,
            waiting=bool(line.waiting),
            in_collective=bool(line.in_collective),
            op=line.collective_op,
            moved_age=age,
            heartbeat_age=_age(line.time_ns, line.heartbeat_ns),
            process=_PROCESS_STATES.get(line.process_state, ProcessState.UNKNOWN),
            group=line.collective_group,
            work=work.kinds,
            worked_age=(line.time_ns - work.worked_ns) / NANOSECONDS + silent,
            carried_age=(line.time_ns - work.carried_ns) / NANOSECONDS + silent,
            cpu_ratio=work.cpu_ratio,
            node=node_of.get(rank, UNKNOWN_NODE),
            silent_seconds=silent,
        )
        situations.append(as_device(host, row))
    return situations


class _Line(NamedTuple):
    step: int
    phase: int
    microbatch: int
    waiting: int
    in_collective: int
    collective_op: int
    time_ns: int
    heartbeat_ns: int
    process_state: int
    collective_group: int


_PROCESS_STATES = {state.value: state for state in ProcessState}


def _moved_ns(row: np.void) -> int:
    """Return when the rank's device came to its position if busy, else when its lines changed."""
    if int(row["device_state"]) in BUSY and followed(row.reshape(1))[0]:
        return int(row["device_since_ns"])
    return max(int(row["since_ns"]), int(row["collective_since_ns"]))


def _age(now_ns: int, since_ns: int) -> float:
    """Return the age in seconds; NaN if the timestamp is unknown."""
    return (now_ns - since_ns) / NANOSECONDS if since_ns else math.nan
