"""Real replicas that differ by a flipped bit, by the code, by a skipped batch, or by plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.trackers.numerics import Numerics
from stepwatch.collector.store import Store
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import DTYPES, Kind, LifecycleEvent
from tests.collector.made import JOB, HandClock, body, lifecycle_rows, segment, state_rows
from tests.hooks.conftest import RunRanks, Tables, tables_in

pytest.importorskip("torch", reason="replicas are torch's")

PROGRAM = Path(__file__).parents[1] / "programs" / "replicas.py"
KINDS = (Kind.STEP, Kind.NUMERICS, Kind.GROUP, Kind.COLLECTIVE)
Run = Callable[..., tuple[Service, list[dict[str, Any]]]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.sqlite(tmp_path / "store.db")
    yield opened
    opened.close()


@pytest.fixture
def run(rings: Path, results_of_ranks: RunRanks, store: Store) -> Run:
    """Runs the program, and a collector on its records; returns that and its incidents."""

    def run(world: int = 2, **environ: str) -> tuple[Service, list[dict[str, Any]]]:
        results_of_ranks(PROGRAM, world, **environ)
        service = replayed(tables_in(rings), world, store)
        return service, store.incidents(JOB)

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


WAYS: list[dict[str, str]] = [{"OPTIMIZER": "1"}, {}, {"AUTO": "1"}]
"""The optimizer is attached, only the model is, nothing is: `stepwatch run` watches."""


@pytest.mark.parametrize("watched", WAYS)
def test_torchs_local_sgd_is_no_incident_and_its_period_is_known(
    run: Run, watched: dict[str, str]
) -> None:
    service, incidents = run(WAY="ddp-local-sgd", STEPS="200", PERIOD="11", WARMUP="10", **watched)
    assert incidents == []
    (averaging,) = attempt_of(service).tracker(Numerics).replicas.averaging.values()
    assert (averaging.period, averaging.members) == (11, "0,1")


@pytest.mark.parametrize(("period", "warmup"), [("11", "10"), ("8", "0")])
def test_averaging_by_hand_under_no_sync_is_no_incident(run: Run, period: str, warmup: str) -> None:
    _, incidents = run(WAY="ddp-no-sync", STEPS="120", PERIOD=period, WARMUP=warmup, OPTIMIZER="1")
    assert incidents == []


@pytest.mark.parametrize(("world", "watched"), [*zip((2, 4, 2), WAYS, strict=True)])
def test_replicas_trained_through_the_module_never_exchange_gradients(
    run: Run, world: int, watched: dict[str, str]
) -> None:
    _, incidents = run(world, WAY="ddp-module", STEPS="30", **watched)
    assert verdicts(incidents) == [("replica-drift", "no-gradient-exchange", -1, 7)]
    (incident,) = incidents
    assert "never exchange gradients" in incident["summary"]
    assert "`model.module`" in incident["summary"] and "since step 7" in incident["summary"]
    assert incident["detected_after_seconds"] < 60 and incident["severity"] == "alert"


def test_replicas_that_start_unequal_are_reported_as_that(run: Run) -> None:
    _, incidents = run(4, WAY="ddp", STEPS="30", OPTIMIZER="1", UNEQUAL="1")
    assert verdicts(incidents) == [("replica-drift", "different-start", -1, 7)]


@pytest.mark.parametrize(
    ("world", "step", "watched"),
    [(2, 3, {"OPTIMIZER": "1"}), (2, 15, {}), (4, 12, {"OPTIMIZER": "1"})],
)
def test_a_rank_that_skips_a_batch_is_a_skipped_step(
    run: Run, world: int, step: int, watched: dict[str, str]
) -> None:
    _, incidents = run(world, WAY="ddp", STEPS="40", SKIP=f"1,{step}", **watched)
    assert verdicts(incidents) == [("replica-drift", "skipped-steps", 1, step)]
    (incident,) = incidents
    assert incident["summary"].startswith(f"rank 1 skipped 1 step since step {step}:")
    assert incident["severity"] == "info"


@pytest.mark.parametrize(
    ("world", "environ"),
    [
        (4, {"WAY": "ddp", "OPTIMIZER": "1"}),
        (2, {"WAY": "ddp"}),
        (2, {"WAY": "ddp", "AUTO": "1"}),
        (2, {"WAY": "ddp-accumulate", "PERIOD": "3", "OPTIMIZER": "1"}),
        (2, {"WAY": "ddp-accumulate", "PERIOD": "3"}),
    ],
)
def test_a_flipped_bit_stays_silent_corruption(
    run: Run, world: int, environ: dict[str, str]
) -> None:
    _, incidents = run(world, STEPS="40", FLIP="1,9", **environ)
    named = -1 if world == 2 else 1
    assert verdicts(incidents) == [("silent-corruption", "replica-mismatch", named, 15)]
    assert "since step 15" in incidents[0]["summary"]


def attempt_of(service: Service) -> Any:
    """The job's newest attempt in the collector's state."""
    live = service.job(JOB)
    assert live is not None
    return live[0].current
