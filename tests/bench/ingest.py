"""Rank-steps per CPU second that a collector ingests: by steps per segment, beside a bare insert.

Detection is on: the job is evaluated after each round of its nodes, which is timed apart.
"""

from __future__ import annotations

import math
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.wire import Segment

from .codec import RANKS, SECOND, node_segment
from .result import Result

NODES, STEPS, SEGMENTS_A_REQUEST = 128, 60, 64
BUDGETS = {1: "150,000", 10: "600,000"}


MOMENTS = {"time_ns", "since_ns", "collective_since_ns", "heartbeat_ns"}
_REQUESTS_A_ROUND = NODES // SEGMENTS_A_REQUEST


class IngestCost(NamedTuple):
    """Processor seconds of the whole ingest, and of one evaluation."""

    seconds: float
    evaluation: float = math.nan


def measure() -> Iterator[Result]:
    """Measure one step per segment, ten, and a bare insert of the same bytes."""
    speeds: dict[int, float] = {}
    for steps, budget in BUDGETS.items():
        requests = [*_requests(steps)]
        received, inserted = _best(requests, _receive), _best(requests, _insert)
        speeds[steps] = RANKS * NODES * STEPS / received.seconds
        insert = RANKS * NODES * STEPS / inserted.seconds
        comparison = f"a bare insert of the same segments: {insert / speeds[steps]:.1f} x as many"
        comparison += f"; an evaluation {1e3 * received.evaluation:.0f} ms"
        if steps > 1:
            comparison += f"; {speeds[steps] / speeds[1]:.1f} x those at one step a segment"
        title = f"collector, ingest at {steps} step{'s' * (steps > 1)} a segment"
        yield Result(title, f"{speeds[steps]:,.0f} rank-steps/CPU-s", budget, comparison)


def _requests(steps: int) -> Iterator[bytes]:
    pieces = [
        wire.encode(_node_copy(node_segment(steps), node, first))
        for first in range(0, STEPS, steps)
        for node in range(NODES)
    ]
    for start in range(0, len(pieces), SEGMENTS_A_REQUEST):
        yield b"".join(pieces[start : start + SEGMENTS_A_REQUEST])


def _node_copy(segment: Segment, node: int, first: int) -> Segment:
    """Return the segment as another of `NODES` nodes would send it, `first` steps later."""
    for rows in segment.tables.values():
        rows["rank"] += node * RANKS - rows["rank"].min()
        rows["step"] += first
        for name in MOMENTS & set(rows.dtype.names or ()):
            rows[name] += first * SECOND  # without progress the job would count as hung
        if "world" in (rows.dtype.names or ()):
            rows["world"] = NODES * RANKS
    key = segment.key._replace(node=f"node-{node}", sequence=first + 1)
    clock = ClockPair(segment.clock.monotonic_ns, segment.clock.wall_ns)
    return segment._replace(key=key, clock=clock)


def _best(
    requests: list[bytes], take: Callable[[list[bytes], Path], IngestCost], rounds: int = 3
) -> IngestCost:
    """Return the best of some rounds, each on a new file."""
    rounds_taken = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds_taken.append(take(requests, Path(folder)))
    return min(rounds_taken)


def _receive(requests: list[bytes], folder: Path) -> IngestCost:
    store = Store.sqlite(folder / "store.db")
    service = Service(store)
    spent, evaluations = 0.0, []
    for number, body in enumerate(requests, 1):
        began = time.process_time()
        verdicts = service.receive(body)
        assert {row.verdict for row in verdicts} == {"accepted"}
        if number % _REQUESTS_A_ROUND:
            spent += time.process_time() - began
            continue
        ((job, _),), _ = service.jobs_now()  # applies the waiting segments: that counts
        folded = time.process_time()
        service.evaluate()
        spent += folded - began
        evaluations.append(time.process_time() - folded)
    store.close()
    assert job.totals.rows == RANKS * NODES * STEPS
    return IngestCost(spent, min(evaluations))


def _insert(requests: list[bytes], folder: Path) -> IngestCost:
    return IngestCost(bare_insert(requests, folder))


def bare_insert(requests: list[bytes], folder: Path) -> float:
    """Return the processor seconds to insert each request's segments in a transaction, as bytes."""
    connection = sqlite3.connect(folder / "bare.db")
    connection.execute("pragma journal_mode=wal")
    connection.execute("create table segment (id integer primary key, payload blob)")
    began = time.process_time()
    for body in requests:
        with connection:
            rows = [(piece,) for piece in wire.split(body)]
            connection.executemany("insert into segment (payload) values (?)", rows)
    spent = time.process_time() - began
    connection.close()
    return spent
