"""Held up: occasional far longer steps, on any rank, that cost the job much.

Ranks may pause in turns, for garbage collection, allocators or logging, and loaders may stall in
turns; neither makes one rank slower than its peers. Loaders that all restart cause a long wait on
all ranks, which is no stall. The job's loss is certain all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.data_stall.detector import LIMITS as DATA_STALL
from stepwatch.collector.detect.data_stall.detector import Thresholds as DataStallThresholds
from stepwatch.collector.detect.finding import (
    LOST_SHARE,
    Evidence,
    Finding,
    build_finding,
    text_evidence,
)
from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.collector.detect.straggler.inputs import slow_by_evidence
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
_FEWEST_BUCKETS = 3
"""With fewer buckets that lose time, the interval of the cost includes zero."""
_OF_ONE_RANK = 0.5
"""A slow rank explains the loss in turns if it costs at least this share of it."""


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a job that is held up."""

    least_lost: float = 0.15
    """Share: the least cost of ranks in turns. Heavy tails on healthy hosts cost eight ranks some 8
    % this way.
    """
    least_lost_together: float = 0.1
    """Share: the least cost of data waits on all ranks together. Healthy epochs begin within 2 % of
    the time.
    """
    fewest_steps: int = 10
    """Steps: how many must be far longer by ranks in turns. With fewer, their spread over ranks is
    chance.
    """
    most_often: float = 0.15
    """Share: the steps in which a rank may be far late. Beyond it, sequences differ by nature."""


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

    def is_worth(self, least: float, lasting: DataStallThresholds) -> bool:
        """Return whether the loss is at least the share `least`, and surely worth a ticket."""
        return self.lost.share >= least and self.lost.low >= lasting.lasting_share


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on a job that is held up occasionally, by no rank alone."""
    course, stage = context.course, context.window.stage
    if course is None or not context.compares_ranks or not course.times.any():
        return []
    limits, lasting = context.thresholds(LIMITS), context.thresholds(DATA_STALL)
    log_over = context.thresholds(STRAGGLER).least_log_over
    findings = detect(course, stage, limits, lasting, log_over)
    if any(finding.subject == IN_TURNS for finding in findings):
        costly = context.once(slow_by_evidence)
        most = max((rank.lost.share for rank in costly), default=0.0)
        findings = [
            finding
            for finding in findings
            if finding.subject != IN_TURNS or most < _OF_ONE_RANK * finding.lost_ratio
        ]
    return [context.dated(finding) for finding in findings]


def detect(
    course: Course,
    stage: SmallIntegers,
    limits: Thresholds,
    lasting: DataStallThresholds = DATA_STALL,
    least_log_over: float = STRAGGLER.least_log_over,
) -> list[Finding]:
    """Return findings on a job with this `course`; `stage` (ranks,) holds its ranks' stages.

    As for a data stall, a cost must be worth a ticket for `lasting.lasting_seconds`, and the lower
    bound of its interval, too. It is over as for a straggler, by `least_log_over`.
    """
    if course.seconds.sum() < lasting.lasting_seconds:
        return []
    turns = _loss(course, course.lost_to_one.sum(axis=1), course.times[:, 0], least_log_over)
    together = _loss(course, course.lost_to_data, course.times[:, 1], least_log_over)
    findings = []
    if turns is not None and turns.is_worth(limits.least_lost, lasting):
        findings += _in_turns(course, stage, turns, limits)
    if together is not None and together.is_worth(limits.least_lost_together, lasting):
        findings.append(_together(course, together))
    return findings


def _loss(course: Course, net: Vector, times: Integers, least_log_over: float) -> _Loss | None:
    """Return the loss from `net` seconds (buckets,) over `times` steps (buckets,), if it lasts."""
    if np.count_nonzero(net) < _FEWEST_BUCKETS:
        return None
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
    course: Course, stage: SmallIntegers, loss: _Loss, limits: Thresholds
) -> list[Finding]:
    """Return the finding on ranks that are far late in turns; none if too few are."""
    phases = course.lost_to_one[loss.part].sum(axis=0)
    phase = WORK[int(np.argmax(phases))]
    by_loaders = phase == "data"
    size = int(np.unique(stage, return_counts=True)[1].min())
    level = (LEVEL if by_loaders else LEVEL_OF_WORK) * beyond_median(size)
    late_counts = course.begun[loss.part, LEVELS.index(level), : len(stage)].sum(
        axis=0, dtype=np.int64
    )
    hit = np.flatnonzero(late_counts)
    peers = int(np.isin(stage, stage[hit]).sum())
    few = loss.times < limits.fewest_steps or len(hit) < min(3, peers)
    if few or late_counts.max() > limits.most_often * loss.steps:
        return []
    description = "loaders stall" if by_loaders else "ranks pause"
    summary = (
        f"{description} in turns since step {loss.first}: in {loss.times} of {loss.steps} "
        f"steps one of {ranks_text(hit.tolist())} works {in_words(loss.seconds)} "
        f"longer than its peers, most of it in {phase}; {_lost_words(loss)}, and no rank explains "
        "it alone"
    )
    finding = build_finding(
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
    return [finding]


def _together(course: Course, loss: _Loss) -> Finding:
    """Return the finding on waits for data by all ranks in some steps."""
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


DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.DATA_STALL, FindingKind.THROUGHPUT_REGRESSION}),
        when=When.PROGRESSING,
        order=85,
        find=find,
        gives_way_to=frozenset({FindingKind.DATA_STALL}),
        needs=Needs.SOME_RANKS,
        from_steps=True,
    ),
)
