"""Slices of a log by brute force, one record at a time: nothing of it is the collector's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Segment

SECOND = 1_000_000_000
SLOW = 2.0
"""A step that took so many times the baseline is slow."""


class _Run:
    """What was reported of one run of an attempt."""

    def __init__(self) -> None:
        self.resumed: int | None = None
        self.began_ns = 0
        self.offset_ns = 0
        """Of the wall clock when it began: later it may have been set."""
        self.ended: set[int] = set()
        self.world = 0
        self.steps: dict[int, list[tuple[int, int, float]]] = {}
        """Of each step by rank: its end by the wall clock, and by one that nobody set; seconds."""

    @property
    def restart(self) -> int | None:
        return min(self.steps, default=None) if self.resumed is None else self.resumed


def slices_of(log: Sequence[Segment]) -> dict[str, dict[int, list[float]]]:
    """By SLI and start: good and total device-seconds, records that came and should have.

    Times are those of the hosts, every step was reported by some rank.
    """
    runs = _runs(log)
    found: dict[str, dict[int, list[float]]] = {"goodput": {}, "step-time": {}}
    for place, run in enumerate(runs):
        restarts = [each.restart for each in runs[place + 1 :]]
        lost_from = min((each for each in restarts if each is not None), default=math.inf)
        before_ns, first = run.began_ns, min(run.steps, default=0)
        lengths = [max(s for *_, s in run.steps[step]) for step in sorted(run.steps)][3:23]
        usual = statistics.median(lengths) if len(lengths) >= 5 else math.nan
        for step in range(first, first + len(run.steps)):
            reports = run.steps[step]
            start = max(wall for wall, *_ in reports) // (10 * SECOND) * 10
            end_ns, busy = max(end for _, end, _ in reports), sum(s for *_, s in reports)
            allocated = max(end_ns - before_ns, 0) / SECOND * run.world
            slow = max(s for *_, s in reports) > SLOW * usual
            timely = 0.0 if math.isnan(usual) else busy
            kept = 0.0 if step >= lost_from else min(busy, allocated)
            before_ns, counts = end_ns, (len(reports), run.world)
            for sli, *sums in (
                ("goodput", kept, allocated, *counts),
                ("step-time", 0.0 if slow else timely, timely, *counts),
            ):
                known = found[str(sli)].get(start, [0.0] * 4)
                found[str(sli)][start] = [a + b for a, b in zip(known, sums, strict=True)]
    return found


def _runs(log: Sequence[Segment]) -> list[_Run]:
    """All runs in the order of their attempts; one begins where a rank starts that had ended."""
    found: dict[int, list[_Run]] = {}
    for segment in log:
        runs = found.setdefault(segment.key.attempt, [_Run()])
        offset = segment.clock.wall_ns - segment.clock.monotonic_ns
        for row in segment.tables.get(Kind.LIFECYCLE, ()):
            _enter(runs, row, offset)
        for row in segment.tables.get(Kind.STEP, ()):
            end, seconds = int(row["time_ns"]), int(row["duration_ns"]) / SECOND
            reports = runs[-1].steps.setdefault(int(row["step"]), [])
            reports.append((end + offset, end + runs[-1].offset_ns, seconds))
    return [run for number in sorted(found) for run in found[number]]


def _enter(runs: list[_Run], row: np.void, offset: int) -> None:
    event, rank = LifecycleEvent(int(row["event"])), int(row["rank"])
    if event is LifecycleEvent.START:
        if rank in runs[-1].ended:
            runs.append(_Run())
        run = runs[-1]
        if not run.world:
            run.began_ns, run.offset_ns = int(row["time_ns"]) + offset, offset
        run.world = int(row["value"])
    elif event is LifecycleEvent.RESUME:
        runs[-1].resumed = int(row["value"])
    elif event in (LifecycleEvent.FINISH, LifecycleEvent.FAILURE):
        runs[-1].ended.add(rank)
