"""Cost of a large job's step-time breakdown, on which every reader of its page waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.web.breakdown import parts
from stepwatch.signals.records import Kind, Op, make_rows
from stepwatch.signals.wire import Rows, Segment
from tests.collector.gathered import group_rows
from tests.collector.made import segment, state_rows, step_rows

from .result import Result

RANKS, STEPS, SHARDS, STAGES = 1_024, 64, 8, 4
CALLS = (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER)


def measure() -> Iterator[Result]:
    """Measure 64 steps in which each rank calls three operations in two groups."""
    attempt = Attempt(0)
    received = Received(0.0, 0.0)
    times = [_seconds(partial(attempt.apply, item, received)) for item in _job_segments()]
    size = f"{RANKS:,} ranks, {2 * len(CALLS)} rows a step"
    yield Result(f"live state, {size}", _format(min(times[1:])), "none set", "per step of the job")
    for name, read in (
        ("breakdown", parts.breakdown),
        ("collectives", parts.collectives),
    ):
        best = min(_seconds(partial(read, attempt)) for _ in range(4))
        yield Result(f"{name}, {RANKS:,} ranks x {STEPS} steps", _format(best), "none set", size)


def _job_segments() -> Iterator[Segment]:
    groups = [
        group_rows(group, range(group * SHARDS, (group + 1) * SHARDS))
        for group in range(RANKS // SHARDS)
    ]
    groups += [
        group_rows(1_000_000 + shard, range(shard, RANKS, SHARDS)) for shard in range(SHARDS)
    ]
    states = state_rows(range(RANKS), RANKS, 1.0)
    states["stage"] = np.arange(RANKS) * STAGES // RANKS
    yield segment(1, {Kind.RANK_STATE: states, Kind.GROUP: np.concatenate(groups)})
    noise = np.random.default_rng(0)
    for step in range(STEPS):
        tables = {Kind.STEP: step_rows([step], range(RANKS)), Kind.COLLECTIVE: _calls(step, noise)}
        yield segment(step + 2, tables)


def _calls(step: int, noise: np.random.Generator) -> Rows:
    rank = np.tile(np.arange(RANKS), 2 * len(CALLS))
    call = np.repeat(np.arange(2 * len(CALLS)), RANKS)
    return make_rows(
        Kind.COLLECTIVE,
        len(rank),
        rank=rank,
        step=step,
        count=4,
        bytes=1_000_000,
        op=np.array([int(op) for op in CALLS * 2])[call],
        group=np.where(call < len(CALLS), rank // SHARDS, 1_000_000 + rank % SHARDS),
        exposed_ns=noise.integers(1_000_000, 50_000_000, len(rank)),
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _format(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
