"""Bytes per rank and step as the real agent packs them; bytes per record after compaction."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.cli.simulate.fleet import Fleet
from stepwatch.cli.simulate.plan import Plan
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.store.upkeep.compaction import Compaction, Compactor
from stepwatch.hooks.communication.microbatches import MicrobatchSamples, Work
from stepwatch.hooks.core.sampling import EVERY, REPEATS
from stepwatch.hooks.guard import Guard
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals import wire
from stepwatch.signals.blackbox import Identity, RingWriter
from stepwatch.signals.records import METRICS_PER_ROW, Kind, NumericsSource, Op, Phase
from tests.soak.reference import MovedClock

from .result import Result

RANKS, STEPS, MICROBATCHES = 8, 300, 8
FLEET, FLEET_STEPS = 64, 600
BUNDLED_STEPS = 60
SPAN = 1024
"""Steps, one segment each, of a full bundle."""
SECOND = 1_000_000_000


def measure() -> Iterator[Result]:
    """Measure whole segments: steps, collectives, digests, microbatches, states, host."""
    with tempfile.TemporaryDirectory() as place:
        yield _marginal(Path(place))
    yield _metrics_at_rest()
    with tempfile.TemporaryDirectory() as place:
        separate, compacted, records = _put_together(Path(place))
    yield Result(
        "a record at rest, segments put together",
        f"{compacted:.1f} B",
        "20 B",
        f"before that {separate:.1f} B; {records:.1f} records a rank-step, all of the file counted",
    )


def _marginal(folder: Path) -> Result:
    """Measure what the second `SPAN` steps of a job add to a store, so that no fixed cost counts.

    A job's two snapshots are a fixed cost: `slo.closing.Limits` bounds their steps.
    """
    raw = _spool_a_run(folder, steps=2 * SPAN)
    clock = MovedClock(1_790_000_000 * SECOND)
    store = Store.sqlite(folder / "store.db")
    service, sizes = Service(store, clock), []
    for half in (raw[:SPAN], raw[SPAN:]):
        for data in half:
            clock.now_ns += SECOND
            service.receive(data)
        service.evaluate()
        service.snapshotter.save_all()
        later_ns = clock.now_ns + 2 * 3600 * SECOND
        sizes.append([_file_bytes(store, folder / "store.db")])
        for compacts in (False, True):
            sizes[-1].append(_bytes_without_state(folder, later_ns, compacts=compacts))
    store.close()
    _, loose, compacted = (
        (later - first) / (RANKS * SPAN) for first, later in zip(*sizes, strict=True)
    )
    fixed = sizes[0][2] - compacted * RANKS * SPAN
    return Result(
        "telemetry at rest, per rank and step",
        f"{compacted:.0f} B",
        "100 B",
        f"marginal; {loose:.0f} B before compaction, {len(b''.join(raw)) / (RANKS * 2 * SPAN):.0f} "
        f"on the wire; once: store {fixed / 1024:.0f} KiB, a job's state "
        f"{(sizes[1][0] - sizes[1][1]) / 1024:,.0f}; 2,700 B reported for ARGUS",
    )


def _bytes_without_state(folder: Path, now_ns: int, *, compacts: bool) -> int:
    """Return the size of a copy of the store without snapshots."""
    place = folder / "copy.db"
    shutil.copy(folder / "store.db", place)
    copy = Store.sqlite(place)
    if compacts:
        compactor = Compactor(copy.engine, lambda _: False)
        compactor.compact(Compaction(), now_ns)
        compactor.pack_slices()
    with copy.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM snapshot")
    size = _file_bytes(copy, place)
    copy.close()
    place.unlink()
    return size


def _spool_a_run(folder: Path, own_metrics: int | None = None, steps: int = STEPS) -> list[bytes]:
    """Return one segment per second, as a node with 8 ranks at one step per second makes them.

    With `own_metrics` each step has eight metrics, so many of which differ between ranks.
    """
    rings = [_ring(folder, rank) for rank in range(RANKS)]
    samples = [_samples(ring) for ring in rings]
    agent = Agent(
        AgentOptions(folder / "rings", folder / "spool", "http://127.0.0.1:9", "node-0", port=None)
    )
    noise = np.random.default_rng(0)
    for step in range(1, steps + 1):
        for ring, sample in zip(rings, samples, strict=True):
            _write_microbatches(sample, step, noise)
            _write_step(ring, step, noise)
        if own_metrics is not None:
            _write_metrics(rings, step, own_metrics, noise)
        agent.tail.discover()
        agent.flush()
    return [data for _, data in agent.spool.oldest(steps + 1)]


def _metrics_at_rest() -> Result:
    """Measure bundles of `BUNDLED_STEPS` steps with and without eight metrics in each step."""
    sizes = {}
    for own in (None, 3, METRICS_PER_ROW):
        with tempfile.TemporaryDirectory() as place:
            segments = [wire.decode(data) for data in _spool_a_run(Path(place), own)]
        bundles = [
            segments[first : first + BUNDLED_STEPS] for first in range(0, STEPS, BUNDLED_STEPS)
        ]
        sizes[own] = sum(len(wire.encode(_joined(bundle))) for bundle in bundles) / (RANKS * STEPS)
    usual, worst = sizes[3] - sizes[None], sizes[METRICS_PER_ROW] - sizes[None]
    return Result(
        "8 metrics at rest, per rank and step",
        f"{usual:.0f} B",
        "24 B",
        f"3 of them differ by rank; {worst:.0f} B where all are random on every rank",
    )


def _joined(segments: list[wire.Segment]) -> wire.Segment:
    kinds = {kind for segment in segments for kind in segment.tables}
    tables = {
        kind: np.concatenate([s.tables[kind] for s in segments if kind in s.tables])
        for kind in kinds
    }
    return segments[0]._replace(tables=tables)


def _write_metrics(
    rings: list[RingWriter], step: int, own: int, noise: np.random.Generator
) -> None:
    """Write eight float32 numbers a rank: `own` of its own, a schedule, and what ranks share."""
    shared = noise.normal(2.0, 0.1, METRICS_PER_ROW).astype(np.float32).tolist()
    shared[-1] = 3e-4 * (1.0 - step / 1e5)
    for ring in rings:
        values = [*noise.normal(2.0, 0.1, own).astype(np.float32).tolist(), *shared[own:]]
        names = range(1, METRICS_PER_ROW + 1)
        ring.write(Kind.METRIC, step, step * SECOND + 7, 0, *names, *values)


def _ring(folder: Path, rank: int) -> RingWriter:
    identity = Identity("bench", 0, rank, RANKS, "node-0", os.getpid(), rank + 1, capacity=64)
    return RingWriter(folder / "rings" / "bench" / "0" / str(rank), identity)


def _samples(ring: RingWriter) -> MicrobatchSamples:
    return MicrobatchSamples(Recorder(ring, Guard()))


def _write_microbatches(samples: MicrobatchSamples, step: int, noise: np.random.Generator) -> None:
    """Write one forward and one backward after the other, as in the middle of 1F1B."""
    if step >= samples.due:
        samples.call_begins(step, training=True)
    if not samples.active:
        return
    began = time_ns = step * SECOND + int(noise.integers(SECOND // 100))
    for number in range(2 * MICROBATCHES):
        phase = Phase.BACKWARD if number % 2 else Phase.FORWARD
        spent = int(0.03 * phase * SECOND * noise.normal(1.0, 0.02))
        work = Work(3, int(phase), 0)
        samples.chunk_ends(
            work, number // 2, time_ns, time_ns + spent, int(0.1 * spent * noise.random())
        )
        time_ns += spent + int(noise.integers(SECOND // 100))
    samples.call_ends(began, time_ns)


def _write_step(ring: RingWriter, step: int, noise: np.random.Generator) -> None:
    def jitter(seconds: float) -> int:
        return int(seconds * SECOND * noise.normal(1.0, 0.02))

    end = step * SECOND + jitter(0.01)
    gather, scatter, reduce = jitter(0.08), jitter(0.05), jitter(0.01)
    for op, count, spent in (
        (Op.ALL_GATHER, 64, gather),
        (Op.REDUCE_SCATTER, 32, scatter),
        (Op.ALL_REDUCE, 2, reduce),
    ):
        ring.write(
            Kind.COLLECTIVE,
            step,
            end,
            7,
            op,
            count,
            count << 20,
            spent,
            spent // count,
            end - spent,
        )
    if (step + 1) % EVERY < REPEATS:
        digest, source = int(noise.integers(1 << 63)), NumericsSource.PARAMETERS
        ring.write(Kind.NUMERICS, step, end, source, 0, digest, 7, 0, b"", step + 1, 0)
    phases = [jitter(share) for share in (0.002, 0.004, 0.27, 0.53, 0.02)]
    ring.write(
        Kind.STEP, step, end, SECOND, *phases, 0, 0, gather + scatter + reduce, jitter(0.05),
        8192, 8, 0, 2.0 + noise.normal(0, 0.1), 1.0 + noise.normal(0, 0.1),
    )  # fmt: skip


def _put_together(folder: Path) -> tuple[float, float, float]:
    """Return file bytes per record before and after compaction, and records per rank-step.

    The simulated fleet's nodes flush every two seconds; snapshots and slices are in the file.
    """
    plan = Plan(ranks=FLEET, nodes=FLEET // RANKS, steps=FLEET_STEPS, speed=0, job="at-rest")
    began_ns = 1_790_000_000 * SECOND
    clock = MovedClock(began_ns)
    store = Store.sqlite(folder / "fleet.db")
    service = Service(store, clock)
    records = 0
    for flush in Fleet(plan, began_ns, spool=1).flushes():
        clock.now_ns = began_ns + flush.true_ns
        service.receive(b"".join(flush.segments))
        records += sum(wire.decode(data).row_count for data in flush.segments)
    service.evaluate()
    service.stop()
    service.run()  # saves the state: segments that no snapshot includes stay unchanged
    raw = _file_bytes(store, folder / "fleet.db")
    later_ns = clock.now_ns + 2 * 3600 * SECOND
    Compactor(store.engine, lambda _: False).compact(Compaction(), later_ns)
    compacted = _file_bytes(store, folder / "fleet.db")
    store.close()
    return raw / records, compacted / records, records / (FLEET * FLEET_STEPS)


def _file_bytes(store: Store, file: Path) -> int:
    """Return the file's size without free pages."""
    with store.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("VACUUM")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return file.stat().st_size
