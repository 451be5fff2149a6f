"""Time from a collector's start to its first evaluation: of a hundred old jobs, or of a large
one."""

from __future__ import annotations

import signal
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.snapshot import FORMAT, About, packed, taken_apart
from stepwatch.collector.store import Store
from stepwatch.collector.store.upkeep.compaction import Compactor
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Segment
from tests.collector.made import lifecycle_rows, segment, state_rows, step_rows
from tests.soak.processes import CLI, Collector, end, spawn
from tests.soak.reference import MovedClock

from .result import Result

DAYS, JOBS, HOUR, WORLD = 30, 100, 3600, 2
LARGE_RANKS, LARGE_STEPS = 16_384, 20
BUDGET = "10 s"
_SECOND = 1_000_000_000
_LIMIT_SECONDS = 300.0


def measure() -> Iterator[Result]:
    """Measure many old jobs; then one large one from its snapshot, and from its log."""
    with tempfile.TemporaryDirectory() as folder:
        seconds, ready = _old_jobs(Path(folder))
        yield Result(
            f"restart, {JOBS} jobs of {DAYS} days at 1 s steps", f"{seconds:.1f} s", BUDGET,
            f"{WORLD} ranks each; answers after {ready:.1f} s",
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        from_snapshot, from_log = _large_job(Path(folder))
        yield Result(
            f"restart, one job of {LARGE_RANKS:,} ranks", f"{from_snapshot:.1f} s", BUDGET,
            f"without its snapshot {from_log:.1f} s, after only {LARGE_STEPS} steps",
        )  # fmt: skip


def _old_jobs(folder: Path) -> tuple[float, float]:
    """Return the seconds until all of them are evaluated, and until the collector answers."""
    store = Store.sqlite(folder / "store.db")
    began_ns = time.time_ns() - DAYS * 24 * HOUR * _SECOND
    clock = MovedClock(began_ns)
    service, compactor = Service(store, clock), Compactor(store.engine, lambda _: False)
    for hour in range(DAYS * 24 + 1):
        clock.now_ns = began_ns + (hour + 1) * HOUR * _SECOND
        service.receive(wire.encode(_hour(hour, began_ns)))
        service.evaluate()
        compactor.pack_slices()
    entry = service.job(_NAMES[0])
    assert entry is not None
    _copy(store, entry[0])
    store.close()
    return _time_start(Collector(folder, "collector", str(folder / "store.db")), JOBS)


_NAMES = [f"old-{number:03d}" for number in range(JOBS)]


def _hour(hour: int, began_ns: int) -> Segment:
    """Return an hour of the first job's steps, as a node sends them after an hour without
    network."""
    template = _TEMPLATE
    steps = template.tables[Kind.STEP].copy()
    steps["step"] += hour * HOUR
    steps["time_ns"] += hour * HOUR * _SECOND
    now = (hour + 1) * HOUR * _SECOND
    states = state_rows(range(WORLD), WORLD, now / _SECOND, step=(hour + 1) * HOUR)
    tables = {Kind.STEP: steps, Kind.RANK_STATE: states}
    if not hour:
        tables[Kind.LIFECYCLE] = lifecycle_rows(LifecycleEvent.START, range(WORLD), WORLD)
    key = template.key._replace(job=_NAMES[0], sequence=hour + 1)
    return Segment(key, ClockPair(now, began_ns + now), tables)


_TEMPLATE = segment(1, {Kind.STEP: step_rows(range(HOUR), range(WORLD), 1.0)})


def _copy(store: Store, job: Any) -> None:
    """Copy the first job's state, slices and row to all other jobs; none has segments.

    Retention has removed the segments of thirty days ago; the newest are in the snapshot.
    """
    position = store.position(_NAMES[0])
    rows = [_snapshot(job, name, position) for name in _NAMES]
    with store.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM snapshot"))
        for name in _NAMES[1:]:
            for table in ("job", "sli_slice", "slice_block"):
                _copy_rows(connection, table, name)
        columns = ", ".join(rows[0])
        values = ", ".join(f":{column}" for column in rows[0])
        connection.execute(sa.text(f"INSERT INTO snapshot ({columns}) VALUES ({values})"), rows)


def _copy_rows(connection: sa.Connection, table: str, name: str) -> None:
    name_column = "name" if table == "job" else "job"
    columns = [column["name"] for column in sa.inspect(connection).get_columns(table)]
    shared = ", ".join(column for column in columns if column != name_column)
    statement = (
        f"INSERT INTO {table} ({name_column}, {shared}) SELECT :name, {shared} FROM {table} "
        f"WHERE {name_column} = :first"
    )
    connection.execute(sa.text(statement), {"name": name, "first": _NAMES[0]})


def _snapshot(job: Any, name: str, position: int) -> dict[str, object]:
    job.name = name
    payload = packed(taken_apart(job), About(name, position, time.monotonic()))
    return {
        "job": name,
        "position": position,
        "format": FORMAT,
        "saved_ns": time.time_ns(),
        "size": len(payload),
        "crc32": zlib.crc32(payload),
        "payload": payload,
    }


def _large_job(folder: Path) -> tuple[float, float]:
    """Return the seconds until the job is evaluated from its snapshot, and from its log."""
    place = str(folder / "store.db")
    collector = Collector(folder, "collector", place)
    collector.start()
    words = f"--ranks {LARGE_RANKS} --steps {LARGE_STEPS} --speed 0 --job large".split()
    fleet = spawn(folder / "fleet.log", *CLI, "simulate", "--collector", collector.url, *words)
    try:
        fleet.wait(_LIMIT_SECONDS)
        collector.end()
        from_snapshot, _ = _time_start(collector, 1)
        engine = sa.create_engine(f"sqlite:///{place}")
        with engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM snapshot"))
        engine.dispose()
        return from_snapshot, _time_start(collector, 1)[0]
    finally:
        end(fleet, signal.SIGKILL)
        collector.end(signal.SIGKILL)


def _time_start(collector: Collector, jobs: int) -> tuple[float, float]:
    """Return the seconds from a start until `jobs` are evaluated, and until it answers; then kill
    it."""
    try:
        began = time.monotonic()
        ready = collector.start()
        while _count_evaluated(collector.url) < jobs:
            if time.monotonic() - began > _LIMIT_SECONDS:
                break
            time.sleep(0.05)
        return time.monotonic() - began, ready
    finally:
        collector.end(signal.SIGKILL)


def _count_evaluated(url: str) -> int:
    try:
        jobs = httpx.get(f"{url}/v1/jobs", timeout=60.0).json()["jobs"]
    except (httpx.HTTPError, ValueError):
        return 0
    return sum(job["step"] is not None for job in jobs)
