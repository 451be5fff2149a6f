"""Cost of an evaluation and memory of a job, by the job's age: an hour, forty hours, thirty
days."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.snapshot import taken_apart
from stepwatch.collector.store import Store
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Rows, Segment
from tests.collector.made import JOB, lifecycle_rows, segment, state_rows, step_rows
from tests.soak.reference import MovedClock

from .result import Result

AGES = {1: "an hour", 40: "40 hours", 720: "30 days"}
HOUR, WORLD, SECOND = 3600, 2, 1_000_000_000
LOOKS = 15


class AgeCost(NamedTuple):
    """Processor seconds of one evaluation, bytes of state and of slices, and the steps in the
    history."""

    seconds: float
    state: int
    slices: int
    steps: int


def measure() -> Iterator[Result]:
    """Measure the same job at each age; each evaluation applies one more step."""
    first: AgeCost | None = None
    for hours, age in AGES.items():
        aged = _measure_age(hours)
        first = first or aged
        megabytes = (aged.state + aged.slices) / 1e6
        days = hours / 24
        comparison = f"{aged.seconds / first.seconds:.2f} x that of {AGES[1]}; {aged.steps:,} steps"
        comparison += f", {megabytes:.1f} MB: state {aged.state / 1e6:.1f}, slices the rest"
        if days > 1:
            comparison += f"; {megabytes / days:.2f} MB a job-day"
        yield Result(
            f"evaluation of a job of {age}, 1 s steps, {WORLD} ranks",
            f"{1e3 * aged.seconds:.1f} ms", "1.2 x" if hours > 1 else "none", comparison,
        )  # fmt: skip


def _measure_age(hours: int) -> AgeCost:
    began_ns = time.time_ns() - hours * HOUR * SECOND
    clock = MovedClock(began_ns)
    hour_rows = step_rows(range(HOUR), range(WORLD), 1.0)
    noise = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        store = Store.sqlite(Path(folder) / "store.db")
        service = Service(store, clock)

        def take(sequence: int, rows: Rows, end: int) -> None:
            clock.now_ns = began_ns + end * SECOND
            tables = {Kind.STEP: rows, Kind.RANK_STATE: state_rows(range(WORLD), WORLD, end, end)}
            if sequence == 1:
                tables[Kind.LIFECYCLE] = lifecycle_rows(LifecycleEvent.START, range(WORLD), WORLD)
            key = segment(sequence, {}).key
            service.receive(
                wire.encode(Segment(key, ClockPair(end * SECOND, clock.now_ns), tables))
            )

        for hour in range(hours):
            take(hour + 1, _later(hour_rows, hour * HOUR, noise), (hour + 1) * HOUR)
            service.evaluate()
        spent = []
        for more in range(LOOKS):
            end = hours * HOUR + more
            take(hours + 1 + more, _later(hour_rows[:WORLD], end, noise), end + 1)
            service.jobs_now()  # applies the waiting segments
            began = time.process_time()
            service.evaluate()
            spent.append(time.process_time() - began)
        entry = service.job(JOB)
        assert entry is not None
        job, verdicts = entry
        state = sum(array.nbytes for array in taken_apart(job).arrays)
        slices = sum(verdict_slice.line.nbytes for verdict_slice in verdicts.slices.values())
        store.close()
    return AgeCost(statistics.median(spent), state, slices, len(job.current.steps.history))


def _later(rows: Rows, steps: int, noise: np.random.Generator) -> Rows:
    """Return the rows `steps` steps later, with a little noise in each duration."""
    rows = rows.copy()
    rows["step"] += steps
    rows["seq"] += steps
    rows["time_ns"] += steps * SECOND
    rows["duration_ns"] = rows["duration_ns"] * noise.normal(1, 0.005, len(rows))
    return rows
