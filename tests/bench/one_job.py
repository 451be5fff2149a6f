"""One job, a step a segment: rank-steps per processor second by the number of ranks.

Each node of eight ranks sends a segment with one step, sixty-four segments a request. The job is
evaluated after each step, and that counts. The beginning does not: a large job's first steps are
mostly new ranks.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.wire import SegmentKey
from tests.collector.made import HandClock

from .codec import RANKS, SECOND, node_segment
from .ingest import MOMENTS, SEGMENTS_A_REQUEST, bare_insert
from .result import Result

STEPS_BY_RANKS = {8: 600, 128: 240, 1024: 100, 8192: 24, 100_000: 8}
"""Measured steps of a job, so that each size takes some seconds."""
FIRST_STEPS = 5
"""Steps before the measured ones: warm-up steps, and the first with a baseline."""
BUDGET = "200,000"
_Step = list[bytes]
"""The requests with one step of all nodes."""


class Cost(NamedTuple):
    """Processor seconds of all measured steps: receive, fold, evaluate."""

    receive: float
    fold: float
    evaluate: float


def measure() -> Iterator[Result]:
    """Measure each number of ranks, beside a bare insert of the same bytes."""
    for ranks, steps in STEPS_BY_RANKS.items():
        requests = [*_steps(ranks // RANKS, FIRST_STEPS + steps)]
        measured = [body for step in requests[FIRST_STEPS:] for body in step]
        with tempfile.TemporaryDirectory() as folder:
            cost, insert = _ingested(requests, Path(folder)), bare_insert(measured, Path(folder))
        segments = steps * ranks // RANKS
        speed = ranks * steps / sum(cost)
        parts = ", ".join(
            f"{name} {1e6 * seconds / segments:.0f}" for name, seconds in cost._asdict().items()
        )
        yield Result(
            f"collector, one job of {ranks:,} ranks, with evaluation each step",
            f"{speed:,.0f} rank-steps/CPU-s",
            BUDGET,
            f"µs a segment: {parts}; a bare insert of the same segments: "
            f"{sum(cost) / insert:.1f} x as many",
        )


def _steps(nodes: int, steps: int) -> Iterator[_Step]:
    """Yield the requests of each step."""
    segment = node_segment(1)
    tables = {kind: _of_nodes(rows, nodes) for kind, rows in segment.tables.items()}
    for step in range(steps):
        wall_ns = segment.clock.wall_ns + step * SECOND
        clock = ClockPair(segment.clock.monotonic_ns + step * SECOND, wall_ns)
        heads = [
            (SegmentKey("job", 0, f"node-{node}", 1, step + 1), clock) for node in range(nodes)
        ]
        pieces = wire.encode_alike(heads, tables)
        yield [
            b"".join(pieces[start : start + SEGMENTS_A_REQUEST])
            for start in range(0, nodes, SEGMENTS_A_REQUEST)
        ]
        for rows in tables.values():
            rows["step"] += 1
            for name in MOMENTS & set(rows.dtype.names or ()):
                rows[name] += SECOND  # without progress the job would count as hung


def _of_nodes(rows: Rows, nodes: int) -> np.ndarray[tuple[int, int], np.dtype[np.void]]:
    """Return the rows as each node would send them, (nodes, rows)."""
    every = np.tile(rows, (nodes, 1))
    every["rank"] += RANKS * np.arange(nodes, dtype=np.int32)[:, None] - rows["rank"].min()
    if "world" in (rows.dtype.names or ()):
        every["world"] = RANKS * nodes
    return every


def _ingested(requests: list[_Step], folder: Path) -> Cost:
    store, clock = Store.sqlite(folder / "store.db"), HandClock()
    service, marks = Service(store, clock=clock), []
    for step in requests:
        clock.advance(1.0)
        times = [time.process_time()]
        verdicts = [verdict for body in step for verdict in service.receive(body)]
        times.append(time.process_time())
        assert {row.verdict for row in verdicts} == {"accepted"}
        ((job, _),), _ = service.jobs_now()  # applies the waiting segments
        times.append(time.process_time())
        service.evaluate()
        marks.append(np.diff([*times, time.process_time()]))
    store.close()
    assert len(job.current.steps.history) == len(requests)
    return Cost(*np.sum(marks[FIRST_STEPS:], axis=0).tolist())
