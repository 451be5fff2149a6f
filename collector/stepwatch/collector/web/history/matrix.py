"""Seconds over ranks and steps, by window: the largest value per cell, and the rank that has it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.views import View
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.evidence.step_window import MAX_STEPS
from stepwatch.collector.state.evidence.step_window import Window as StepWindow
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.nodes.agents import UNKNOWN_NODE
from stepwatch.collector.state.trackers.steps.rank_history import RankHistory
from stepwatch.collector.web.job_view import HEATMAP_METRICS
from stepwatch.signals.arrays import IntegerMatrix, Integers, Matrix32, Vector
from stepwatch.signals.clock import NANOSECONDS

from .curves import about_job
from .numbers import moments, rows, values, wholes
from .packing import packed, unpacked
from .points import ROUNDED_SECONDS

SELF_TIME = "self_time"
"""The metric that is known over the whole attempt."""
RANK, NODE, STAGE = "rank", "node", "stage"
BY = (RANK, NODE, STAGE)
MOST_ROWS, MOST_COLUMNS = 512, 512
"""Cells on a 4K screen that are at least four pixels high and seven wide."""
SHARED_CELLS = 1 << 20
"""Most cells that another collector gets: it then reads ranks in bins."""
_CELLS_AT_ONCE = 1 << 17
"""(step, rank) cells summed at once, sized for the CPU cache."""
_LAST = np.iinfo(np.int64).max
_NAMED_NODES = 4
"""Nodes that a row names."""


class Planes(NamedTuple):
    """One metric's window: `seconds` (steps, ranks), NaN while unknown.

    It is that of the newest attempt; until that makes a step, that of the run before it. A row is
    one step, or for early self time the largest value in the steps `begins` to `steps`.

    `at` (steps,) is each step's end in Unix seconds. `first` and `last` (ranks,) are the ranks in
    each column and `slowest` (steps, ranks) the one with the value; a column is a single rank in
    the collector that holds the job. `node` and `stage` (ranks,) are numbers, -1 while unknown.
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


class Window(NamedTuple):
    """A part of the planes: moments, steps and ranks, all with both ends, and the most bins.

    Moments are Unix seconds, infinite where the range is open.
    """

    from_s: float
    to_s: float
    from_step: int
    to_step: int
    first: int
    last: int
    by: str
    rows: int
    columns: int


def _planes(job: LiveJob, verdicts: Verdicts, now: float, metric: str) -> Planes:
    attempt = job.preceding_run or job.current
    window = attempt.window(MAX_STEPS)
    early = _early(attempt, window) if metric == SELF_TIME else _nothing(attempt)
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


def _nothing(attempt: Attempt) -> _Early:
    whole = np.zeros(0, dtype=np.int64)
    return _Early(whole, whole, np.zeros(0), np.zeros((0, attempt.world), dtype=np.float32))


def _early(attempt: Attempt, window: StepWindow) -> _Early:
    """Return the spans before the window; the last one may have a value of the window's steps."""
    history = attempt.tracker(RankHistory)
    if not len(window.steps) or history.clock != window.clock or not history.used:
        return _nothing(attempt)
    begins = ((history.first >> history.shift) + np.arange(history.used)) << history.shift
    first = int(window.steps[0])
    known = np.flatnonzero((begins < first) & (history.ends_s[: history.used] > 0))
    steps = np.minimum(begins + (1 << history.shift), first) - 1
    begins = np.maximum(begins, history.first)
    return _Early(begins[known], steps[known], history.ends_s[known], history.seconds[known])


def _summed(window: StepWindow, names: Sequence[str], early: Matrix32) -> Matrix32:
    """Return the sum of some of a window's planes (steps, ranks), behind the early seconds.

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


def matrix_document(planes: Planes, asked: Window) -> dict[str, Any]:
    """Return the cells of a window, with null for a cell without a value.

    A row is a bin of neighbouring ranks, or a bin of nodes or stages in their order. A column is a
    bin of neighbouring steps.
    """
    in_steps = _steps_in(planes, asked)
    begins, steps, at = planes.begins[in_steps], planes.steps[in_steps], planes.at[in_steps]
    places = _ordered(planes, asked)
    row_edges = _row_edges(planes, places, asked)
    column_edges = _column_edges(begins, steps, asked.columns)
    seconds, slowest = cells(planes, in_steps, places, row_edges, column_edges)
    ends = column_edges[1:] - 1
    known = [int(planes.begins[0]), int(planes.steps[-1])] if len(planes.steps) else None
    return {
        **planes.about,
        "clock": planes.clock,
        "by": asked.by,
        "rows": [
            _row(planes, places[low:high], asked.by)
            for low, high in itertools.pairwise(row_edges.tolist())
        ],
        "steps": rows(np.stack([begins[column_edges[:-1]], steps[ends]], axis=1), wholes),
        "at": moments(at[ends]),
        "seconds": rows(seconds, values),
        "slowest": rows(slowest, _ranks),
        "known_steps": known,
    }


def _steps_in(planes: Planes, asked: Window) -> slice:
    """Return the steps and spans in a window; a step without a known end is in every range."""
    inside = (planes.steps >= asked.from_step) & (planes.begins <= asked.to_step)
    inside &= ~(planes.at < asked.from_s - ROUNDED_SECONDS)
    inside &= ~(planes.at > asked.to_s + ROUNDED_SECONDS)
    places = np.flatnonzero(inside)
    return slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0)


def _column_edges(begins: Integers, steps: Integers, most: int) -> Integers:
    """Return where columns begin, and the end: at most `most`, of equally many steps if possible.

    Spans 0 to 3 and 4 to 7, and steps 8 to 11, in 3 columns: each of 4 steps.
    """
    if len(steps) <= most:
        return np.arange(len(steps) + 1)
    width = -(-(int(steps[-1]) + 1 - int(begins[0])) // most)
    columns = (steps - begins[0]) // width
    first = np.flatnonzero(np.append(True, columns[1:] != columns[:-1]))
    return np.append(first, len(steps))


def _ranks(row: Integers) -> Any:
    return wholes(row) if (row >= 0).all() else values(np.where(row < 0, np.nan, row))


def _ordered(planes: Planes, asked: Window) -> Integers:
    """Return the columns of the asked ranks, in the order of their rows."""
    places = np.flatnonzero((planes.last >= asked.first) & (planes.first <= asked.last))
    if asked.by == RANK:
        return places
    return places[np.argsort(_keys(planes, asked.by)[places], kind="stable")]


def _keys(planes: Planes, by: str) -> Integers:
    """Return each column's stage, or its node's first rank; unknown ones come last."""
    if by == STAGE:
        return np.where(planes.stage < 0, _LAST, planes.stage)
    first = np.full(len(planes.nodes) + 1, _LAST)
    np.minimum.at(first, planes.node, planes.first)
    first[-1] = _LAST
    return np.asarray(first[planes.node])


def _row_edges(planes: Planes, places: Integers, asked: Window) -> Integers:
    """Return where rows begin in `places`, and the end: a row never splits a node or a stage."""
    if asked.by == RANK:
        return bin_edges(len(places), asked.rows)
    keys = _keys(planes, asked.by)[places]
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else places
    return np.append(begins, len(places))[bin_edges(len(begins), asked.rows)]


def bin_edges(count: int, most: int) -> Integers:
    """Return the edges of at most `most` bins of nearly equal size: 5 in 2 bins -> 0, 2, 5."""
    bins = min(count, most)
    return np.arange(bins + 1) * count // bins if bins else np.zeros(1, dtype=np.int64)


def cells(
    planes: Planes, steps: slice, places: Integers, row_edges: Integers, column_edges: Integers
) -> tuple[Matrix32, IntegerMatrix]:
    """Return each cell's largest seconds (rows, columns), and the rank that has it, -1 without one.

    Rows are bins of the planes' columns `places`, columns are bins of the steps in a slice. Of two
    ranks with the same value the first one counts. Two ranks, two steps in one cell: 0.1, 0.3 and
    0.2, unknown -> 0.3 s, rank 1. A loop over bins takes an
    eighth of the time of `reduceat`.
    """
    columns, bins = (
        itertools.pairwise(column_edges.tolist()),
        itertools.pairwise(row_edges.tolist()),
    )
    shape = len(row_edges) - 1, len(column_edges) - 1
    most, place = np.full(shape, np.nan, dtype=np.float32), np.zeros(shape, dtype=np.int64)
    if 0 in shape:
        return most, place
    part = planes.seconds[steps]
    largest = np.stack([np.fmax.reduce(part[low:high], axis=0) for low, high in columns])
    largest = largest[:, places]
    for row, (low, high) in enumerate(bins):
        ranks = largest[:, low:high]
        most[row] = np.fmax.reduce(ranks, axis=1)
        place[row] = low + np.argmax(ranks == most[row][:, None], axis=1)
    slowest = _slowest(planes, steps, places[place], column_edges)
    return most, np.where(np.isnan(most), -1, slowest)


def _slowest(
    planes: Planes, steps: slice, chosen: IntegerMatrix, column_edges: Integers
) -> IntegerMatrix:
    """Return the slowest ranks (rows, columns) from their columns in the planes."""
    if planes.slowest is None:
        return np.asarray(planes.first[chosen])
    ranks, seconds, slowest = chosen.copy(), planes.seconds[steps], planes.slowest[steps]
    for column, (low, high) in enumerate(itertools.pairwise(column_edges.tolist())):
        part = np.nan_to_num(seconds[low:high, chosen[:, column]], nan=-1.0)
        ranks[:, column] = slowest[low + np.argmax(part, axis=0), chosen[:, column]]
    return ranks


def _row(planes: Planes, places: Integers, by: str) -> dict[str, Any]:
    first, last = int(planes.first[places].min()), int(planes.last[places].max())
    nodes = planes.node[places]
    numbers = nodes[np.sort(np.unique(nodes, return_index=True)[1])]
    names = [planes.nodes[number] if number >= 0 else UNKNOWN_NODE for number in numbers.tolist()]
    return {
        "first": first,
        "last": last,
        "words": _words(planes, places, by, names),
        "nodes": names[:_NAMED_NODES],
    }


def _words(planes: Planes, places: Integers, by: str, names: list[str]) -> str:
    if by == NODE:
        return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    if by == STAGE:
        stages = np.unique(planes.stage[places])
        if stages[0] < 0:
            return "stage unknown"
        return f"stage {stages[0]}" if len(stages) == 1 else f"stages {stages[0]} to {stages[-1]}"
    first, last = int(planes.first[places].min()), int(planes.last[places].max())
    return f"rank {first}" if first == last else f"ranks {first} to {last}"


def _packed(planes: Planes) -> bytes:
    """Return the planes as bytes, with the ranks of one node and stage in bins if they are many."""
    count = planes.seconds.shape[1]
    most = max(1, SHARED_CELLS // max(1, len(planes.steps)))
    edges = bin_edges(count, most)
    seconds, slowest = planes.seconds, None
    if 0 < len(edges) - 1 < count:
        every = slice(0, len(planes.steps))
        single = np.arange(len(planes.steps) + 1)
        most_seconds, ranks = cells(planes, every, np.arange(count), edges, single)
        seconds, slowest = most_seconds.T, ranks.T
    begins = edges[:-1]
    columns: list[np.ndarray[Any, np.dtype[Any]]]
    columns = [
        planes.begins,
        planes.steps,
        planes.at,
        np.ascontiguousarray(seconds, dtype=np.float32),
        begins,
    ]
    columns += [edges[1:] - 1, planes.node[begins], planes.stage[begins]]
    header = {"about": planes.about, "clock": planes.clock, "nodes": planes.nodes}
    return packed(header, columns if slowest is None else [*columns, slowest])


def read_planes(value: Any) -> Planes:
    """Return the planes in an answer of either view."""
    if isinstance(value, Planes):
        return value
    header, (spans, steps, at, seconds, first, last, node, stage, *rest) = unpacked(value)
    slowest = rest[0] if rest else None
    return Planes(
        **header,
        begins=spans,
        steps=steps,
        at=at,
        seconds=seconds,
        first=first,
        last=last,
        slowest=slowest,
        node=node,
        stage=stage,
    )


def _views(metric: str) -> tuple[View, View]:
    def make(job: LiveJob, verdicts: Verdicts, now: float) -> Planes:
        return _planes(job, verdicts, now, metric)

    return View(f"matrix:{metric}", make), View(f"matrix-packed:{metric}", make, _packed)


MATRICES = {metric: _views(metric)[0] for metric in HEATMAP_METRICS}
SHARED_MATRICES = {metric: _views(metric)[1] for metric in HEATMAP_METRICS}
"""The same as bytes, for collectors that do not hold the job."""
