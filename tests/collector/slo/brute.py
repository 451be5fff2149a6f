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
    totals: dict[str, dict[int, list[float]]] = {"goodput": {}, "step-time": {}}
    for place, run in enumerate(runs):
        restarts = [run.restart for run in runs[place + 1 :]]
        lost_from = min((restart for restart in restarts if restart is not None), default=math.inf)
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
            good_s = 0.0 if step >= lost_from else min(moved, allocated)
            before_ns, counts = end_ns, (len(reports), run.world)
            for sli, *sums in (
                ("goodput", good_s, allocated, *counts),
                ("step-time", 0.0 if slow else timely, timely, *counts),
            ):
                _add(totals[str(sli)], start, sums)
        next_run = runs[place + 1] if place + 1 < len(runs) else None
        for moment, seconds, stalls in _stood(run, next_run, usual):
            sums = [0.0, seconds * run.world, run.world, run.world]
            _add(totals["goodput"], int(moment // 10) * 10, sums)
            if stalls:
                _add(totals["step-time"], int(moment // 10) * 10, sums)
    return totals


def _add(slices: dict[int, list[float]], start: int, sums: Sequence[float]) -> None:
    current = slices.get(start, [0.0] * 4)
    slices[start] = [a + b for a, b in zip(current, sums, strict=True)]


def _stood(run: _Run, next_run: _Run | None, usual: float) -> list[tuple[float, float, bool]]:
    """Seconds of a run in no step, in pieces of which each counts in the middle; and whether it
    stalled then."""
    wall = unset = run.began_ns / SECOND
    least = 0.0
    if run.steps:
        reports = run.steps[max(run.steps)]
        wall, unset = (
            max(moment_ns for moment_ns, *_ in reports) / SECOND,
            max(moment_ns for _, moment_ns, _ in reports) / SECOND,
        )
        least = max(5.0, 0.0 if math.isnan(usual) else 8 * usual)
    is_over = 0 < run.world <= len(run.ended)
    stalled_pieces = []
    if is_over and run.ended_ns / SECOND - unset > least:
        stood = run.ended_ns / SECOND - unset
        stalls = bool(run.steps) and len(run.finished_ranks) < run.world
        stalled_pieces += [(*piece, stalls) for piece in _pieces(wall, wall + stood)]
        wall += stood
    if next_run is not None and next_run.held_s is not None and next_run.began_ns:
        begins = max(wall, next_run.held_s)
        stalls = not is_over
        stalled_pieces += [
            (*piece, stalls) for piece in _pieces(begins, next_run.began_ns / SECOND)
        ]
    return stalled_pieces


def _pieces(begins: float, ends: float) -> list[tuple[float, float]]:
    """Ten seconds each in the first hour, then five minutes, after a day an hour; cut where the
    clock shows a multiple of it."""
    pieces = []
    piece_start = begins
    while piece_start < ends:
        size = 10 if piece_start < begins + 3600 else 300 if piece_start < begins + 86_400 else 3600
        limit = begins + {10: 3600, 300: 86_400}.get(size, math.inf)
        cut = (piece_start // size + 1) * size
        if cut >= limit:  # the next longer piece begins where the last one of these did
            longer = {10: 300, 300: 3600}[size]
            cut = (piece_start // longer + 1) * longer
        cut = min(cut, ends)
        pieces.append(((piece_start + cut) / 2, cut - piece_start))
        piece_start = cut
    return pieces


def _runs(log: Sequence[Segment]) -> list[_Run]:
    """All runs in the order of their attempts; one begins where a rank starts that had ended.

    One that made no step is forgotten once the same attempt is launched again.
    """
    runs_by_attempt: dict[int, list[_Run]] = {}
    for segment in log:
        runs = runs_by_attempt.setdefault(segment.key.attempt, [_Run()])
        offset = segment.clock.wall_ns - segment.clock.monotonic_ns
        for row in segment.tables.get(Kind.LIFECYCLE, ()):
            _enter(runs, row, offset)
        for row in segment.tables.get(Kind.STEP, ()):
            end, seconds = int(row["time_ns"]), int(row["duration_ns"]) / SECOND
            reports = runs[-1].steps.setdefault(int(row["step"]), [])
            reports.append((end + offset, end + runs[-1].offset_ns, seconds))
    return [
        run
        for number in sorted(runs_by_attempt)
        for run in runs_by_attempt[number]
        if run.steps or run is runs_by_attempt[number][-1]
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
