"""Rows of synthetic records: three ranks, an agent's readings once a second, the real collector."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, Op, Phase, ProcessState
from stepwatch.signals.wire import Rows
from tests.collector.gathered import group_rows
from tests.collector.made import JOB, HandClock, body, segment, state_rows, step_rows

from .rows import WAITS_OF_LOOP, WORK_BEFORE_SECONDS, Answer, Row, Shape
from .rows import Kind as RowKind

WORLD, GROUP = 3, 7
STEPS_BEFORE, STEPS_BETWEEN, SECONDS_AFTER = 30, 10, 20
STALL_SECONDS, ENDLESS_SECONDS = 150.0, 920.0
SHORT_SECONDS = 10.0
"""Waits of a loop before its stall."""
_PAGES = ("hang", "desync")
_STANDSTILLS = (*_PAGES, "pause")
"""Kinds that report a wait; slow ranks on a busy machine do not count."""
_RATES = {
    Shape.BYTES: {"tcp_bytes": 1e5, "cpu_seconds": 0.03},
    Shape.CPU: {"cpu_seconds": 0.95},
    Shape.CHILDREN: {"children_cpu_seconds": 0.95, "cpu_seconds": 0.01},
    Shape.NOTHING: {"cpu_seconds": 0.01},
}


class Job:
    """A job whose steps take a second, until one of its ranks waits for something."""

    def __init__(self, service: Service, clock: HandClock, row: Row) -> None:
        self._service, self._clock, self._row = service, clock, row
        self._sequence, self._step = 0, 0
        self._counters = {"cpu_seconds": 0.0, "children_cpu_seconds": 0.0, "tcp_bytes": 0.0}
        self._send({Kind.GROUP: group_rows(GROUP, range(WORLD))})

    def train(self, steps: int, waited: float = 0.0) -> None:
        """Make steps; in the first one the rank waited, and the others waited for it."""
        for _ in range(steps):
            self._clock.advance(1.0)
            rows = step_rows([self._step], range(WORLD), 1.0)
            row_ranks = rows["rank"] == self._row.rank  # none if all ranks are inside
            phase = "eval_ns" if self._row.marked else "other_ns"
            rows[phase][row_ranks] += round(waited * NANOSECONDS)
            rows["collective_ns"][~row_ranks] += round(waited * NANOSECONDS)
            rows["duration_ns"] += round(waited * NANOSECONDS)
            rows["time_ns"] = self._clock.monotonic_ns()
            self._step, waited = self._step + 1, 0.0
            self._send({Kind.RANK_STATE: self._states(0.05), Kind.STEP: rows})

    def wait(self, seconds: float, works: float) -> None:
        """Let the rank wait; it shows signs of work for `works` seconds."""
        for passed in range(1, math.ceil(seconds) + 1):
            self._clock.advance(1.0)
            if passed <= works:
                for name, rate in _RATES[self._row.shape].items():
                    self._counters[name] += rate
            rows = self._states(float(passed))
            row_ranks = rows["rank"] == self._row.rank
            rows["in_collective"], rows["collective_op"] = ~row_ranks, Op.ALL_REDUCE
            rows["collective_group"], rows["process_state"] = GROUP, ProcessState.SLEEPING
            rows["phase"][row_ranks] = Phase.EVAL if self._row.marked else Phase.OTHER
            self._send({Kind.RANK_STATE: rows})

    def _states(self, moved_ago: float) -> Rows:
        moment_s = self._clock.monotonic
        rows = state_rows(range(WORLD), WORLD, moment_s, self._step, moved_ago)
        for name in ("children_cpu_seconds", "file_bytes", "tcp_bytes"):
            rows[name] = np.nan if moved_ago < 2.0 else self._counters.get(name, 0.0)
        rows["cpu_seconds"] = self._counters["cpu_seconds"]
        return rows

    def _send(self, tables: dict[Kind, Rows]) -> None:
        self._sequence += 1
        self._service.receive(body([segment(self._sequence, tables)]))
        self._service.evaluate()


def answer_of(row: Row) -> Answer:
    """Return the collector's answer to one row."""
    with TemporaryDirectory() as folder:
        store, clock = Store.sqlite(Path(folder, "store.db")), HandClock()
        try:
            service = Service(store, clock, saves_state=False)
            began = _play(Job(service, clock, row), clock, row)
            assert service.evaluation_failures == 0
            return answer_from(store, JOB, began)
        finally:
            store.close()


def _play(job: Job, clock: HandClock, row: Row) -> float:
    """Play a row; return the wall time at which its wait began, the first one of legal waits."""
    job.train(STEPS_BEFORE)
    if row.kind is RowKind.LEGAL:
        began = clock.wall
        for _ in range(WAITS_OF_LOOP if row.in_loop else 1):
            job.wait(row.seconds, row.seconds)
            job.train(STEPS_BETWEEN, row.seconds)
        job.train(SECONDS_AFTER)
        return began
    for _ in range(WAITS_OF_LOOP - 1 if row.in_loop else 0):
        job.wait(SHORT_SECONDS, SHORT_SECONDS)
        job.train(STEPS_BETWEEN, SHORT_SECONDS)
    began = clock.wall
    endless = row.kind is RowKind.ENDLESS
    works = 0.0 if row.shape is Shape.NOTHING else WORK_BEFORE_SECONDS
    job.wait(ENDLESS_SECONDS if endless else STALL_SECONDS, math.inf if endless else works)
    return began


def answer_from(store: Store, job: str, began: float) -> Answer:
    """Return the incidents' answer to a wait that began at a wall time."""
    since = [
        incident for incident in store.incidents.newest(job) if incident["last_seen_at"] >= began
    ]
    about = [incident for incident in since if incident["kind"] in _STANDSTILLS]
    opened = [
        (opening_s, incident)
        for incident in about
        for opening_s in _openings(incident)
        if opening_s >= began
    ]
    opened.sort(key=lambda opening: opening[0])
    pages = [opening_s for opening_s, incident in opened if incident["kind"] in _PAGES]
    return Answer(
        opened[0][0] - began if opened else None,
        pages[0] - began if pages else None,
        frozenset(incident["rank"] for _, incident in opened),
        opened[0][1]["summary"] if opened else "",
        tuple(
            f"{incident['kind']} of rank {incident['rank']}"
            for incident in since
            if incident not in about
        ),
    )


def _openings(incident: dict[str, Any]) -> list[float]:
    """Return when an incident was opened, and opened again."""
    return [
        event["at"] for event in incident["timeline"] if event["event"] in ("opened", "reopened")
    ]
