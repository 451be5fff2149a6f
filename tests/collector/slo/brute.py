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
STANDS, STANDS_SECONDS = 8.0, 5.0
"""In one that takes so many times the baseline, and so much longer, nothing moved for the rest."""


class _Run:
    """What was reported of one run of an attempt."""

    def __init__(self) -> None:
        self.resumed: int | None = None
        self.began_ns = 0
        self.offset_ns = 0
        """Of the wall clock when it began: later it may have been set."""
        self.ended: set[int] = set()
        self.ended_ns = 0
        """When the last rank said so, by a clock that nobody set."""
        self.finished_ranks: set[int] = set()
        self.held_s: int | None = None
        """Since when the devices are held."""
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
            longest = max(s for *_, s in reports)
            slow = longest > SLOW * usual
            stands = longest > max(STANDS * usual, usual + STANDS_SECONDS)
            moved = busy * usual / longest if stands else busy
            timely = 0.0 if math.isnan(usual) else busy
            kept = 0.0 if step >= lost_from else min(moved, allocated)
            before_ns, counts = end_ns, (len(reports), run.world)
            for sli, *sums in (
                ("goodput", kept, allocated, *counts),
                ("step-time", 0.0 if slow else timely, timely, *counts),
            ):
                _add(found[str(sli)], start, sums)
        after = runs[place + 1] if place + 1 < len(runs) else None
        for moment, seconds, stalls in _stood(run, after, usual):
            sums = [0.0, seconds * run.world, run.world, run.world]
            _add(found["goodput"], int(moment // 10) * 10, sums)
            if stalls:
                _add(found["step-time"], int(moment // 10) * 10, sums)
    return found


def _add(slices: dict[int, list[float]], start: int, sums: Sequence[float]) -> None:
    known = slices.get(start, [0.0] * 4)
    slices[start] = [a + b for a, b in zip(known, sums, strict=True)]


def _stood(run: _Run, after: _Run | None, usual: float) -> list[tuple[float, float, bool]]:
    """Seconds of a run in no step, in pieces of which each counts in the middle; and whether it
    stalled then."""
    wall = unset = run.began_ns / SECOND
    least = 0.0
    if run.steps:
        reports = run.steps[max(run.steps)]
        wall, unset = (
            max(at for at, *_ in reports) / SECOND,
            max(at for _, at, _ in reports) / SECOND,
        )
        least = max(5.0, 0.0 if math.isnan(usual) else 8 * usual)
    is_over = 0 < run.world <= len(run.ended)
    found = []
    if is_over and run.ended_ns / SECOND - unset > least:
        stood = run.ended_ns / SECOND - unset
        stalls = bool(run.steps) and len(run.finished_ranks) < run.world
        found += [(*piece, stalls) for piece in _pieces(wall, wall + stood)]
        wall += stood
    if after is not None and after.held_s is not None and after.began_ns:
        begins = max(wall, after.held_s)
        stalls = not is_over
        found += [(*piece, stalls) for piece in _pieces(begins, after.began_ns / SECOND)]
    return found


def _pieces(begins: float, ends: float) -> list[tuple[float, float]]:
    """Ten seconds each in the first hour, then five minutes, after a day an hour; cut where the
    clock shows a multiple of it."""
    found = []
    at = begins
    while at < ends:
        size = 10 if at < begins + 3600 else 300 if at < begins + 86_400 else 3600
        limit = begins + {10: 3600, 300: 86_400}.get(size, math.inf)
        cut = (at // size + 1) * size
        if cut >= limit:  # the next longer piece begins where the last one of these did
            longer = {10: 300, 300: 3600}[size]
            cut = (at // longer + 1) * longer
        cut = min(cut, ends)
        found.append(((at + cut) / 2, cut - at))
        at = cut
    return found


def _runs(log: Sequence[Segment]) -> list[_Run]:
    """All runs in the order of their attempts; one begins where a rank starts that had ended.

    One that made no step is forgotten once the same attempt is launched again.
    """
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
    return [
        run
        for number in sorted(found)
        for run in found[number]
        if run.steps or run is found[number][-1]
    ]


def _enter(runs: list[_Run], row: np.void, offset: int) -> None:
    event, rank = LifecycleEvent(int(row["event"])), int(row["rank"])
    if event is LifecycleEvent.START:
        if rank in runs[-1].ended:
            runs.append(_Run())
        run = runs[-1]
        if not run.world:
            run.began_ns, run.offset_ns = int(row["time_ns"]) + offset, offset
        run.world = int(row["value"])
    elif event is LifecycleEvent.ALLOCATION:
        runs[-1].held_s = int(row["value"])
    elif event is LifecycleEvent.RESUME:
        runs[-1].resumed = int(row["value"])
    elif event in (LifecycleEvent.FINISH, LifecycleEvent.FAILURE):
        runs[-1].ended.add(rank)
        if event is LifecycleEvent.FINISH:
            runs[-1].finished_ranks.add(rank)
        unset_ns = int(row["time_ns"]) + (runs[-1].offset_ns or offset)
        runs[-1].ended_ns = max(runs[-1].ended_ns, unset_ns)
