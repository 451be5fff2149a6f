"""One sampled step of a pipeline: each stage's microbatch work and idle times.

Clocks on different nodes are not compared: idle is the time on a rank since its previous chunk
ended, or since it entered the schedule. So every moment inside a rank's schedule is busy, blocked
in a collective, or idle. It belongs to the stage of the current or next chunk; time after the last
chunk belongs to that chunk's stage. Idle includes the schedule's work between chunks: the loss
and its collectives.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.step_window import MAX_STAGES
from stepwatch.signals.arrays import Integers, Mask, Rows
from stepwatch.signals.clock import MAX_DURATION_NS, NANOSECONDS
from stepwatch.signals.records import Phase

MAX_CELLS = 1024
"""Maximum number of reported (stage, microbatch) pairs, the first microbatches in each stage."""
_CHUNKS_PER_CELL = 3  # forward, backward for the inputs, backward for the weights
_FORWARD, _BACKWARD, _CALL = int(Phase.FORWARD), int(Phase.BACKWARD), int(Phase.OTHER)


class Cell(NamedTuple):
    """One microbatch on one stage, seconds, mean over the stage's ranks; NaN without a chunk.

    `backward` includes both parts of a split backward.
    """

    microbatch: int
    forward_busy_seconds: float
    forward_idle_before_seconds: float
    backward_busy_seconds: float
    backward_idle_before_seconds: float


class Chunk(NamedTuple):
    """One rank's chunk of work; `began_seconds` counts from the rank's schedule entry."""

    microbatch: int
    work: str
    began_seconds: float
    seconds: float
    blocked_seconds: float
    idle_before_seconds: float


class StageTimes(NamedTuple):
    """One stage's times in the step: seconds, mean over its ranks.

    `bubble_ratio` is idle over idle and busy, None if both are 0. `chunks` are the chunks of
    `rank`, the stage's first rank.
    """

    stage: int
    ranks: int
    busy_seconds: float
    blocked_seconds: float
    idle_seconds: float
    bubble_ratio: float | None
    microbatches: tuple[Cell, ...]
    rank: int
    chunks: tuple[Chunk, ...]


class MicrobatchTimeline(NamedTuple):
    """The stages in one step, and the number of known ranks; `left_out` counts omitted cells."""

    step: int
    ranks: int
    stages: tuple[StageTimes, ...]
    left_out: int


class _Rows(NamedTuple):
    """Rows of complete ranks in work order, with derived columns."""

    rows: Rows
    stage: Integers
    idle_ns: Integers
    spent_ns: Integers
    began_ns: Integers
    """Time since the rank entered the schedule."""


def microbatch_timeline(rows: Rows) -> MicrobatchTimeline | None:
    """Build the timeline from one step's rows (`microbatches.CHUNK`), in any order.

    Only ranks with complete, valid rows count; None without any.
    """
    complete = _complete_ranks(_distinct(rows))
    work = complete.rows["phase"] != _CALL
    if not work.any():
        return None
    numbers = np.unique(complete.stage[work]).tolist()
    most = max(1, MAX_CELLS // len(numbers))
    stages, left_out = [], 0
    for number in numbers:
        in_stage = complete.stage == number
        stage, beyond = _stage(number, _Rows(*(column[in_stage] for column in complete)), most)
        stages.append(stage)
        left_out += beyond
    ranks = len(np.unique(complete.rows["rank"]))
    return MicrobatchTimeline(int(complete.rows["step"][0]), ranks, tuple(stages), left_out)


def _distinct(rows: Rows) -> Rows:
    """Return the rows by rank and index, each once; ranks with contradictory rows are left out."""
    order = np.lexsort((rows["index"], rows["rank"]))
    rows = rows[order]
    is_repeated = (rows["rank"][1:] == rows["rank"][:-1]) & (
        rows["index"][1:] == rows["index"][:-1]
    )
    repeats = np.flatnonzero(is_repeated)
    contradictory = rows["rank"][repeats[rows[repeats] != rows[repeats + 1]]]
    first = np.concatenate([np.ones(min(1, len(rows)), dtype=bool), ~is_repeated])
    distinct: Rows = rows[first & ~np.isin(rows["rank"], contradictory)]
    return distinct


def _complete_ranks(rows: Rows) -> _Rows:
    """Return the ranks whose rows are complete and valid; `rows` are sorted by rank and index."""
    count = len(rows)
    opens = np.diff(rows["rank"], prepend=rows["rank"][:1] - 1) != 0
    firsts = np.flatnonzero(opens)
    sizes = np.diff(np.append(firsts, count))
    is_call = rows["phase"] == _CALL
    began, ended = rows["began_ns"], rows["ended_ns"]
    call = _call_around(is_call)
    follows_chunk = ~opens & ~np.roll(is_call, 1)
    since = np.where(follows_chunk, np.roll(ended, 1), began[call])
    idle = np.where(is_call, ended, began) - since
    spent = ended - began
    bad = (rows["index"] != np.arange(count) - np.repeat(firsts, sizes)) | ~_possible(rows)
    bad |= (idle < 0) | (idle > MAX_DURATION_NS) | (is_call & ~follows_chunk)
    bad |= (np.append(opens[1:], True)[:count]) & ~is_call
    if count:
        bad = np.repeat(np.logical_or.reduceat(bad, firsts), sizes)
    stage = np.where(is_call, np.roll(rows["stage"], 1), rows["stage"]).astype(np.int64)
    entered = np.repeat(began[call[firsts]], sizes)
    return _Rows(*(column[~bad] for column in (rows, stage, idle, spent, began - entered)))


def _call_around(is_call: Mask) -> Integers:
    """Return for each row the position of the first call at or after it, or the last row."""
    count = len(is_call)
    positions = np.where(is_call, np.arange(count), max(0, count - 1))
    nearest: Integers = np.minimum.accumulate(positions[::-1])[::-1]
    return nearest


def _possible(rows: Rows) -> Mask:
    """Return the rows whose values are each possible."""
    began, ended = rows["began_ns"], rows["ended_ns"]
    work = np.isin(rows["phase"], (_FORWARD, _BACKWARD)) & (rows["stage"] < MAX_STAGES)
    possible: Mask = (work | (rows["phase"] == _CALL)) & (began >= 0) & (began <= ended)
    possible &= ended - began <= MAX_DURATION_NS
    possible &= (rows["blocked_ns"] >= 0) & (rows["blocked_ns"] <= ended - began)
    return possible


def _stage(number: int, laid_out: _Rows, most: int) -> tuple[StageTimes, int]:
    """Build one stage with at most `most` microbatches; also return the number left out."""
    rows = laid_out.rows
    work = rows["phase"] != _CALL
    ranks = np.unique(rows["rank"])
    blocked = int(rows["blocked_ns"][work].sum())
    busy = int(laid_out.spent_ns[work].sum()) - blocked
    idle = int(laid_out.idle_ns.sum())
    cells = _cells(_Rows(*(column[work] for column in laid_out)), len(ranks))
    shown = work & (rows["rank"] == ranks[0])
    drawn = _Rows(*(column[shown][: _CHUNKS_PER_CELL * most] for column in laid_out))
    per_rank = len(ranks) * NANOSECONDS
    stage = StageTimes(
        stage=number,
        ranks=len(ranks),
        busy_seconds=busy / per_rank,
        blocked_seconds=blocked / per_rank,
        idle_seconds=idle / per_rank,
        bubble_ratio=idle / (idle + busy) if idle + busy else None,
        microbatches=tuple(cells[:most]),
        rank=int(ranks[0]),
        chunks=tuple(_chunk(drawn, index) for index in range(len(drawn.rows))),
    )
    return stage, max(0, len(cells) - most)


def _cells(laid_out: _Rows, ranks: int) -> list[Cell]:
    """Return one stage's microbatches from its chunks."""
    numbers, places = np.unique(laid_out.rows["microbatch"], return_inverse=True)
    columns = []
    for phase in (_FORWARD, _BACKWARD):
        in_phase = laid_out.rows["phase"] == phase
        has_chunk = np.bincount(places[in_phase], minlength=len(numbers)) > 0
        for spent in (laid_out.spent_ns - laid_out.rows["blocked_ns"], laid_out.idle_ns):
            sums = np.bincount(places[in_phase], weights=spent[in_phase], minlength=len(numbers))
            columns.append(np.where(has_chunk, sums / ranks / NANOSECONDS, math.nan).tolist())
    return [Cell(*cell) for cell in zip(numbers.tolist(), *columns, strict=True)]


def _chunk(laid_out: _Rows, index: int) -> Chunk:
    row = laid_out.rows[index]
    backward = "weight gradient" if row["weight_only"] else "backward"
    return Chunk(
        microbatch=int(row["microbatch"]),
        work="forward" if row["phase"] == _FORWARD else backward,
        began_seconds=float(laid_out.began_ns[index]) / NANOSECONDS,
        seconds=float(laid_out.spent_ns[index]) / NANOSECONDS,
        blocked_seconds=float(row["blocked_ns"]) / NANOSECONDS,
        idle_before_seconds=float(laid_out.idle_ns[index]) / NANOSECONDS,
    )
