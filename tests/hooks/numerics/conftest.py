"""The program of replicas on real ranks, and what a collector finds in its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import DTYPES, Kind, LifecycleEvent
from tests.collector.made import JOB, HandClock, body, lifecycle_rows, segment, state_rows
from tests.hooks.conftest import RunRanks, Tables, tables_in

PROGRAM = Path(__file__).parents[1] / "programs" / "replicas.py"
KINDS = (Kind.STEP, Kind.NUMERICS, Kind.GROUP, Kind.COLLECTIVE, Kind.METRIC, Kind.METRIC_NAME)
Run = Callable[..., tuple[Service, list[dict[str, Any]]]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.sqlite(tmp_path / "store.db")
    yield opened
    opened.close()


@pytest.fixture
def replicas(rings: Path, results_of_ranks: RunRanks, store: Store) -> Run:
    """Runs the program, and a collector on its records; returns that and its incidents."""

    def run(world: int = 2, **environ: str) -> tuple[Service, list[dict[str, Any]]]:
        results_of_ranks(PROGRAM, world, **environ)
        service = replayed(tables_in(rings), world, store)
        return service, store.incidents.newest(JOB)

    return run


def replayed(tables: Tables, world: int, store: Store) -> Service:
    """A collector that received these records at one step a second, and evaluated each second."""
    clock = HandClock(1.0)
    service = Service(store, clock)
    steps = max(int(table[Kind.STEP]["step"].max()) for table in tables.values())
    for step in range(steps + 1):
        clock.advance(1.0)
        parts = {kind: rows_of_step(tables, kind, step, clock.monotonic) for kind in KINDS}
        sent = {kind: rows for kind, rows in parts.items() if len(rows)}
        sent[Kind.RANK_STATE] = state_rows(range(world), world, clock.monotonic, step, 0.05)
        if not step:
            sent[Kind.LIFECYCLE] = lifecycle_rows(LifecycleEvent.START, range(world), world)
        service.receive(body([segment(step + 1, sent)]))
        service.evaluate()
    assert service.evaluation_failures == 0
    return service


def rows_of_step(tables: Tables, kind: Kind, step: int, end_s: float) -> Any:
    """The records of one step from all ranks, which end at `end_s`."""
    parts = [np.zeros(0, dtype=DTYPES[kind])]
    for rank, table in tables.items():
        rows = table.get(kind)
        if rows is not None:
            chosen = rows[rows["step"] == step]
            part = np.zeros(len(chosen), dtype=DTYPES[kind])
            for name in part.dtype.names or ():
                if name in (chosen.dtype.names or ()):
                    part[name] = chosen[name]
            part["rank"], part["time_ns"] = rank, round(end_s * NANOSECONDS)
            if kind is Kind.STEP:
                part["duration_ns"] = NANOSECONDS
            parts.append(part)
    return np.concatenate(parts)


def verdicts(incidents: list[dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    """Each incident's kind, cause, rank and first step."""
    return [(item["kind"], item["cause"], item["rank"], item["since_step"]) for item in incidents]
