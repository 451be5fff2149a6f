"""One metric over ranks and steps, as copied under the job's lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.evidence.step_window import MAX_STEPS, Window
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.steps.rank_history import RankHistory
from stepwatch.collector.web.history.curves import about_job
from stepwatch.collector.web.job_view import HEATMAP_METRICS
from stepwatch.signals.arrays import Integers, Matrix32, Vector
from stepwatch.signals.clock import NANOSECONDS

SELF_TIME = "self_time"
"""The metric that is known over the whole attempt."""
_CELLS_AT_ONCE = 1 << 17
"""(step, rank) cells summed at once, sized for the CPU cache."""


class Planes(NamedTuple):
    """One metric's seconds over the steps and ranks of a run.

    `seconds` (steps, ranks) is NaN while unknown. A row covers the steps `begins` to `steps`
    (steps,): one step, or a span of early steps with their largest value. `at` (steps,) is the end
    of each row in Unix seconds.

    A column covers the ranks `first` to `last` (ranks,): a single rank in the collector that holds
    the job. `slowest` (steps, ranks) is the rank with the value, None if each column is a single
    rank. `node` and `stage` (ranks,) are numbers, -1 while unknown, and where the ranks of a column
    differ.
    """

    about: dict[str, Any]
    clock: str
    nodes: list[str]
    begins: Integers
    steps: Integers
    at: Vector
    seconds: Matrix32
    first: Integers
    last: Integers
    slowest: Integers | None
    node: Integers
    stage: Integers


def planes_of(job: LiveJob, verdicts: Verdicts, now: float, metric: str) -> Planes:
    """Return the newest run's planes, or the run's before it until the newest run has a step."""
    attempt = job.preceding_run or job.current
    window = attempt.window(MAX_STEPS)
    early = _early(attempt, window) if metric == SELF_TIME else _no_spans(attempt)
    ranks = np.arange(attempt.world)
    return Planes(
        about=about_job(job, verdicts, now) | {"attempt": attempt.number, "metric": metric},
        clock=window.clock,
        nodes=[*attempt.ranks.nodes],
        begins=np.concatenate([early.begins, window.steps]),
        steps=np.concatenate([early.steps, window.steps]),
        at=np.concatenate([early.at, _ends_s(attempt, window.steps)]),
        seconds=_summed(window, HEATMAP_METRICS[metric], early.seconds),
        first=ranks,
        last=ranks,
        slowest=None,
        node=attempt.ranks.node_at.copy(),
        stage=attempt.stages.astype(np.int64),
    )


class _Early(NamedTuple):
    """Spans of steps before a window, as in `Planes`."""

    begins: Integers
    steps: Integers
    at: Vector
    seconds: Matrix32


def _no_spans(attempt: Attempt) -> _Early:
    whole = np.zeros(0, dtype=np.int64)
    return _Early(whole, whole, np.zeros(0), np.zeros((0, attempt.world), dtype=np.float32))


def _early(attempt: Attempt, window: Window) -> _Early:
    """Return the spans before the window; the last value may include steps of the window."""
    history = attempt.tracker(RankHistory)
    if not len(window.steps) or history.clock != window.clock or not history.used:
        return _no_spans(attempt)
    begins = ((history.first >> history.shift) + np.arange(history.used)) << history.shift
    first = int(window.steps[0])
    known = np.flatnonzero((begins < first) & (history.ends_s[: history.used] > 0))
    steps = np.minimum(begins + (1 << history.shift), first) - 1
    begins = np.maximum(begins, history.first)
    return _Early(begins[known], steps[known], history.ends_s[known], history.seconds[known])


def _summed(window: Window, names: Sequence[str], early: Matrix32) -> Matrix32:
    """Return the early seconds, then the sum of the window's planes `names` (steps, ranks).

    A few steps at a time: fresh memory for whole planes takes several times as long.
    """
    count, ranks = window.flags.shape
    every: Matrix32 = np.zeros((len(early) + count, ranks), dtype=np.float32)
    every[: len(early)], seconds = early, every[len(early) :]
    several = max(1, _CELLS_AT_ONCE // max(1, ranks))
    for first in range(0, count, several):
        steps = np.arange(first, min(first + several, count))
        part = window.select(steps).planes
        for name in names:
            seconds[first : first + several] += part[name]
    return every


def _ends_s(attempt: Attempt, steps: Integers) -> Vector:
    """Return the steps' ends, Unix seconds, NaN for steps that left the history."""
    history = attempt.steps.history
    place = steps - history.held_from
    known = (place >= 0) & (place < len(history.rows))
    ends = np.full(len(steps), np.nan)
    ends[known] = history.rows["end_wall_ns"][place[known]] / NANOSECONDS
    return ends
