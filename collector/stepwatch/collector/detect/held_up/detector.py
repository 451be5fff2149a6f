"""Held up: occasional far longer steps, on any rank, that cost the job much.

Ranks may pause in turns, for garbage collection, allocators or logging, and loaders may stall in
turns; neither makes one rank slower than its peers. Loaders that all restart cause a long wait on
all ranks, which is no stall. The job's loss is certain all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import (
    LOST_SHARE,
    Evidence,
    Finding,
    build_finding,
    text_evidence,
)
from stepwatch.collector.detect.straggler.thresholds import LIMITS as STRAGGLER
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.held_up import LEVEL, LEVEL_OF_WORK, beyond_median
from stepwatch.collector.state.evidence.long_steps import LEVELS
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.statistics.episode import episode
from stepwatch.collector.statistics.intervals import Share, share_of
from stepwatch.signals.arrays import Integers, SmallIntegers, Vector
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import ranks_text

IN_TURNS, TOGETHER = "in turns", "now and then"
"""Subjects of the findings."""
_DATA = WORK.index("data")


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a job that is held up."""

    least_seconds: float = 60.0
    """Seconds: the observation time before a finding. Shares over less time vary too much."""
    fewest_steps: int = 10
    """Steps: how many must be far longer. With fewer, their spread over ranks is chance."""
    least_lost: float = 0.15
    """Share: the least cost of ranks in turns. Heavy tails on healthy hosts cost eight ranks some 8
    % this way.
    """
    least_lost_low: float = 0.05
    """Share: the cost's lower interval bound must exceed the 5 % that the goodput objective leaves.
    """
    most_of_one: float = 0.6
    """Share: one rank's largest part of these steps. More may be its fault, which `straggler`
    finds.
    """
    most_of_one_of_two: float = 0.75
    """Share: the same for one of two ranks."""
    most_often: float = 0.15
    """Share: the steps in which a rank may be far late. Beyond it, sequences differ by nature."""
    of_data: float = 0.8
    """Share: from this part of the loss on, the loaders are the cause."""
    least_lost_together: float = 0.1
    """Share: the least cost of data waits on all ranks together. Healthy epochs begin within 2 % of
    the time.
    """
    fewest_together: int = 3
    """Steps: how many must be held up on all ranks together."""
    most_often_together: float = 0.3
    """Share: the most of such steps. A wait in every step is `data_stall`."""


LIMITS = Thresholds()
"""The shipped thresholds."""


class _Loss(NamedTuple):
    """The loss since step `first`: `seconds` each in `times` of `steps` steps."""

    first: int
    part: slice
    times: int
    steps: int
    seconds: float
    lost: Share


def detect(
    course: Course,
    stage: SmallIntegers,
    limits: Thresholds,
    least_log_over: float = STRAGGLER.least_log_over,
) -> list[Finding]:
    """Return findings on a job with this `course`; `stage` (ranks,) holds its ranks' stages.

    It is over as for a straggler, by `least_log_over`.
    """
    if course.seconds.sum() < limits.least_seconds:
        return []
    findings = (
        _in_turns(course, stage, limits, least_log_over),
        _together(course, limits, least_log_over),
    )
    return [finding for finding in findings if finding is not None]


def _loss(course: Course, net: Vector, times: Integers, least_log_over: float) -> _Loss | None:
    """Return the loss from `net` seconds (buckets,) over `times` steps (buckets,), if it lasts."""
    loss_episode = episode(net, course.seconds)
    if loss_episode.log_over >= least_log_over:
        return None
    part = slice(int(np.flatnonzero(loss_episode.shows)[0]), len(net))
    count = int(times[part].sum())
    return _Loss(
        int(course.first_step[part][0]),
        part,
        count,
        int(course.steps[part].sum()),
        float(net[part].sum()) / max(count, 1),
        share_of(net[part], course.seconds[part]),
    )


def _in_turns(
    course: Course, stage: SmallIntegers, limits: Thresholds, least_log_over: float
) -> Finding | None:
    """Return the finding on ranks that are far late in turns; None if one rank may explain it."""
    if course.times[:, 0].sum() < limits.fewest_steps:
        return None
    loss = _loss(course, course.alone.sum(axis=1), course.times[:, 0], least_log_over)
    if loss is None or loss.times < limits.fewest_steps:
        return None
    if loss.lost.share < limits.least_lost or loss.lost.low < limits.least_lost_low:
        return None
    phases = course.alone[loss.part].sum(axis=0)
    by_loaders = phases[_DATA] >= limits.of_data * phases.sum()
    size = int(np.unique(stage, return_counts=True)[1].min())
    level = (LEVEL if by_loaders else LEVEL_OF_WORK) * beyond_median(size)
    late_counts = course.begun[loss.part, LEVELS.index(level), : len(stage)].sum(
        axis=0, dtype=np.int64
    )
    hit = np.flatnonzero(late_counts)
    peers = int(np.isin(stage, stage[hit]).sum())
    most = limits.most_of_one_of_two if peers == 2 else limits.most_of_one
    if len(hit) < min(3, peers) or late_counts.max() > most * late_counts.sum():
        return None
    if late_counts.max() > limits.most_often * loss.steps:
        return None
    phase = WORK[int(np.argmax(phases))]
    description = "loaders stall" if by_loaders else "ranks pause"
    summary = (
        f"{description} in turns since step {loss.first}: in {loss.times} of {loss.steps} "
        f"steps one of {ranks_text(hit.tolist())} works {in_words(loss.seconds)} "
        f"longer than its peers, most of it in {phase}; {_lost_words(loss)}, and no rank explains "
        "it alone"
    )
    return build_finding(
        kind=FindingKind.DATA_STALL if by_loaders else FindingKind.THROUGHPUT_REGRESSION,
        cause=Cause.SLOW_DATA if by_loaders else Cause.UNKNOWN,
        subject=IN_TURNS,
        phase=phase,
        summary=summary,
        evidence=(*_evidence(loss), _by_rank(late_counts)),
        began_step=loss.first,
        began_ago_seconds=float(course.seconds[loss.part].sum()),
        severity=loss.seconds,
        lost_ratio=loss.lost.share,
    )


def _together(course: Course, limits: Thresholds, least_log_over: float) -> Finding | None:
    """Return the finding on waits for data by all ranks in some steps."""
    if course.times[:, 1].sum() < limits.fewest_together:
        return None
    loss = _loss(course, course.together, course.times[:, 1], least_log_over)
    if loss is None or loss.times < limits.fewest_together:
        return None
    often = loss.times > limits.most_often_together * loss.steps
    if often or loss.lost.share < limits.least_lost_together:
        return None
    summary = (
        f"all ranks wait for data now and then since step {loss.first}, as where an epoch begins: "
        f"in {loss.times} of {loss.steps} steps, {in_words(loss.seconds)} each; {_lost_words(loss)}"
    )
    return build_finding(
        kind=FindingKind.DATA_STALL,
        cause=Cause.SLOW_DATA,
        subject=TOGETHER,
        phase="data",
        summary=summary,
        evidence=_evidence(loss),
        began_step=loss.first,
        began_ago_seconds=float(course.seconds[loss.part].sum()),
        severity=loss.seconds,
        lost_ratio=loss.lost.share,
    )


def _lost_words(loss: _Loss) -> str:
    return f"the job lost {loss.lost.share:.0%} of its throughput"


def _evidence(loss: _Loss) -> tuple[Evidence, ...]:
    low, high = max(loss.lost.low, 0.0), min(loss.lost.high, 1.0)
    return (
        Evidence(LOST_SHARE, loss.lost.share, "ratio", f"90 % interval {low:.1%} to {high:.1%}"),
        Evidence("far longer steps", float(loss.times), "steps", f"of {loss.steps}"),
        Evidence("of such a step", loss.seconds, "seconds", f"from {LEVEL:g} usual step on"),
    )


_SHOWN = 8


def _by_rank(late_counts: Integers) -> Evidence:
    """Return how often each rank was late, the most frequent first."""
    order = np.argsort(-late_counts, kind="stable")[:_SHOWN]
    text = ", ".join(
        f"rank {rank}: {late_counts[rank]}" for rank in order.tolist() if late_counts[rank]
    )
    return text_evidence("late in turns", text, f"{int(late_counts.sum())} times in all")
