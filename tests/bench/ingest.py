"""Rank-steps that a collector takes in per CPU second: by steps a segment, beside a bare insert."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.wire import Segment

from .codec import RANKS, SECOND, node_segment
from .result import Result

NODES, STEPS, SEGMENTS_A_REQUEST = 32, 20, 64


def measure() -> Iterator[Result]:
    """One step a segment, ten, and the same bytes inserted without being looked at."""
    speeds: dict[int, float] = {}
    for steps in (1, 10):
        requests = [*_requests(steps)]
        speeds[steps] = RANKS * NODES * STEPS / _processor_seconds(requests, _receive)
        insert = RANKS * NODES * STEPS / _processor_seconds(requests, _insert)
        beside = f"a bare insert of the same segments: {insert / speeds[steps]:.1f} x as many"
        if steps > 1:
            beside += f"; {speeds[steps] / speeds[1]:.1f} x those at one step a segment"
        what = f"collector, ingest at {steps} step{'s' * (steps > 1)} a segment"
        budget = "40,000" if steps == 1 else "none"
        yield Result(what, f"{speeds[steps]:,.0f} rank-steps/CPU-s", budget, beside)


def _requests(steps: int) -> Iterator[bytes]:
    pieces = [
        wire.encode(_of_node(node_segment(steps), node, first))
        for first in range(0, STEPS, steps)
        for node in range(NODES)
    ]
    for at in range(0, len(pieces), SEGMENTS_A_REQUEST):
        yield b"".join(pieces[at : at + SEGMENTS_A_REQUEST])


def _of_node(segment: Segment, node: int, first: int) -> Segment:
    """The segment as another node of a job of `NODES` would send it, `first` steps later."""
    for rows in segment.tables.values():
        rows["rank"] += node * RANKS - rows["rank"].min()
        rows["step"] += first
        rows["time_ns"] += first * SECOND
        if "world" in (rows.dtype.names or ()):
            rows["world"] = NODES * RANKS
    key = segment.key._replace(node=f"node-{node}", sequence=first + 1)
    clock = ClockPair(segment.clock.monotonic_ns, segment.clock.wall_ns)
    return segment._replace(key=key, clock=clock)


def _processor_seconds(
    requests: list[bytes], take: Callable[[list[bytes], Path], float], rounds: int = 3
) -> float:
    """The best of some rounds, each on a new file."""
    best = float("inf")
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            best = min(best, take(requests, Path(folder)))
    return best


def _receive(requests: list[bytes], folder: Path) -> float:
    store = Store.sqlite(folder / "store.db")
    service = Service(store)
    began = time.process_time()
    for body in requests:
        verdicts = service.receive(body)
        assert {each.verdict for each in verdicts} == {"accepted"}
    ((job, _),), _ = service.jobs_now()  # folds in what waits: it counts
    spent = time.process_time() - began
    store.close()
    assert job.totals.rows == RANKS * NODES * STEPS
    return spent


def _insert(requests: list[bytes], folder: Path) -> float:
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
