"""The training of segment format 1's dictionary. It is a part of the format: never train it again.

`python -m tests.data.formats.dictionary FILE` trains one on synthetic segments of many shapes: 1 to
8 ranks, 0 to 10 steps, clocks of minutes to months, step times of 0.1 to 5 s. Four in five omit
their descriptions: with descriptions in all, the dictionary held less of the rows, and small
segments became larger.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import zstandard

from stepwatch.signals import layouts
from stepwatch.signals.arrays import Integers, Rows
from stepwatch.signals.records import DTYPES, PHASE_NAMES, Kind

SEGMENTS, SIZE, LEVEL = 600, 8192, 3


class Shape:
    """One segment's size and the moments and spreads of its values."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.ranks = int(rng.choice([1, 2, 4, 8, 8, 8]))
        self.steps = int(rng.choice([0, 1, 1, 1, 1, 2, 3, 5, 10]))
        self.world = self.ranks * int(rng.choice([1, 2, 16, 128, 2048]))
        self.rank = int(rng.integers(2048)) * self.ranks + np.arange(self.ranks)
        self.step_ns = int(10 ** rng.uniform(8, 9.7))
        self.first = int(10 ** rng.uniform(0, 5.5))
        self.began_ns = int(10 ** rng.uniform(12, 15.5))
        self.now_ns = self.began_ns + self.first * self.step_ns
        self.spread = float(10 ** rng.uniform(-3, -1.3))

    def durations(self, count: int, mean: float) -> Integers:
        """Positive durations around a mean."""
        noise = 1 + self.spread * self.rng.standard_normal(count)
        return np.maximum(mean * noise, 0).astype(np.int64)

    def choice(self, values: list[int]) -> int:
        """Return one of these numbers."""
        return int(self.rng.choice(values))

    def rows(self, kind: Kind, count: int, /, **values: object) -> Rows:
        """Rows of a kind at the segment's moment with these fields."""
        rows = np.zeros(count, dtype=DTYPES[kind])
        rows["time_ns"], rows["rank"] = self.now_ns, -1
        for name, value in values.items():
            rows[name] = value
        return rows


def main(path: Path) -> None:
    """Train on synthetic segments and write the dictionary."""
    rng = np.random.default_rng(1)
    samples: list[bytes | bytearray | memoryview] = [sample(Shape(rng)) for _ in range(SEGMENTS)]
    path.write_bytes(zstandard.train_dictionary(SIZE, samples, level=LEVEL).as_bytes())


def sample(shape: Shape) -> bytes:
    """Return the part of one segment that is compressed."""
    tables = {**ranks(shape), **node(shape)}
    if shape.steps:
        tables = steps(shape) | tables
    described = shape.rng.random() < 0.2
    texts = [layouts.describe(DTYPES[kind]).encode() if described else b"" for kind in tables]
    directory = len(tables).to_bytes(2, "little")
    for (kind, rows), text in zip(tables.items(), texts, strict=True):
        directory += kind.to_bytes(2, "little") + len(rows).to_bytes(4, "little")
        directory += len(text).to_bytes(2, "little")
    directory += b"".join(texts)
    blocks = b"".join(map(block, tables.values()))
    return len(directory).to_bytes(4, "little") + directory + blocks


def block(rows: Rows) -> bytes:
    """Rows as format 1 lays them out."""
    table = rows.view(np.uint8).reshape(len(rows), -1)
    laid_out: bytes = table[0].tobytes() + (table - table[0]).T.tobytes()
    return laid_out


def steps(shape: Shape) -> dict[Kind, Rows]:
    """Steps and the collectives in them."""
    rng, count = shape.rng, shape.ranks * shape.steps
    step = np.tile(np.arange(shape.first, shape.first + shape.steps), shape.ranks)
    records = int(rng.integers(4, 9))
    parts = {"data": 0.003, "forward": 0.27, "backward": 0.5, "optimizer": 0.02, "other": 0.003}
    step_rows = shape.rows(
        Kind.STEP,
        count,
        rank=np.repeat(shape.rank, shape.steps),
        step=step,
        seq=(step + 1) * records,
        time_ns=shape.began_ns + step * shape.step_ns + shape.durations(count, shape.step_ns / 20),
        duration_ns=shape.durations(count, shape.step_ns),
        collective_ns=shape.durations(count, 0.12 * shape.step_ns),
        pipeline_wait_ns=shape.durations(count, 0.05 * shape.step_ns) * (rng.random() < 0.4),
        tokens=rng.choice([2048, 4096, 8192, 16384]),
        microbatches=rng.choice([1, 1, 4, 8, 16]),
        loss=rng.uniform(1, 9) + 0.05 * rng.standard_normal(count),
        grad_norm=np.nan if rng.random() < 0.4 else 1 + 0.1 * rng.standard_normal(count),
    )
    for phase, share in parts.items():
        step_rows[f"{phase}_ns"] = shape.durations(count, share * shape.step_ns)
    calls = collectives(shape, step_rows)
    tables = {Kind.STEP: step_rows, Kind.COLLECTIVE: calls}
    return tables | device_steps(shape, step_rows, calls) if rng.random() < 0.3 else tables


def device_steps(shape: Shape, step_rows: Rows, calls: Rows) -> dict[Kind, Rows]:
    """The same steps and collectives on the ranks' devices."""
    rng, count = shape.rng, len(step_rows)
    common = {name: step_rows[name] for name in ("rank", "step", "seq", "time_ns")}
    rows = shape.rows(
        Kind.DEVICE_STEP,
        count,
        **common,
        host_lead_seconds=shape.durations(count, 0.3 * shape.step_ns) / 1e9,
        clock_error_seconds=rng.uniform(1e-5, 1e-3),
        boundaries=rng.choice([12, 16, 28, 40]),
    )
    for name in ("duration", "collective", "pipeline_wait", *PHASE_NAMES):
        rows[f"{name}_seconds"] = step_rows[f"{name}_ns"] / 1e9
    for name in ("data", "forward"):
        rows[f"{name}_idle_seconds"] = shape.durations(count, 1e-3 * shape.step_ns) / 1e9
    stood = shape.rows(
        Kind.DEVICE_COLLECTIVE,
        len(calls),
        **{name: calls[name] for name in ("rank", "step", "seq", "time_ns", "group", "op")},
        count=calls["count"],
        timed=np.minimum(calls["count"], 32),
        exposed_seconds=calls["exposed_ns"] / 1e9,
        longest_seconds=calls["longest_ns"] / 1e9,
        first_arrival_ns=calls["first_arrival_ns"],
        clock_error_seconds=rng.uniform(1e-5, 1e-3),
    )
    return {Kind.DEVICE_STEP: rows, Kind.DEVICE_COLLECTIVE: stood}


def collectives(shape: Shape, step_rows: Rows) -> Rows:
    """Return one to four operations for each of these steps."""
    rng, operations = shape.rng, shape.choice([1, 2, 3, 3, 3, 4])
    count, step = operations * len(step_rows), np.repeat(step_rows, operations)
    number = np.tile(rng.choice([1, 2, 16, 32, 48, 64], operations), len(step_rows))
    waited = shape.durations(count, 0.05 * shape.step_ns)
    return shape.rows(
        Kind.COLLECTIVE,
        count,
        rank=step["rank"],
        step=step["step"],
        seq=step["seq"] - np.tile(np.arange(operations, 0, -1, dtype=np.uint64), len(step_rows)),
        time_ns=step["time_ns"],
        group=np.tile(rng.choice([1, 7, int(rng.integers(1 << 32))], operations), len(step_rows)),
        op=np.tile(rng.choice([1, 2, 3, 2, 1, 7], operations), len(step_rows)),
        count=number,
        bytes=number << int(rng.integers(10, 27)),
        exposed_ns=waited,
        longest_ns=waited // number,
        first_arrival_ns=step["time_ns"].astype(np.int64)
        - shape.durations(count, 0.6 * shape.step_ns),
    )


def ranks(shape: Shape) -> dict[Kind, Rows]:
    """Return the agent's rows of each rank."""
    rng, count, now = shape.rng, shape.ranks, shape.now_ns
    state = shape.rows(
        Kind.RANK_STATE,
        count,
        rank=shape.rank,
        step=shape.first + shape.steps,
        phase=rng.integers(0, 5, count),
        since_ns=now - shape.durations(count, shape.step_ns / 4),
        heartbeat_ns=now - rng.integers(1 << 26, size=count),
        collectives_entered=shape.first * 98 + rng.integers(0, 3, count),
        collective_since_ns=now - shape.durations(count, shape.step_ns / 5),
        collective_group=7,
        collective_op=rng.choice([1, 2, 3]),
        in_collective=rng.integers(0, 2, count),
        collective_bytes=1 << 26,
        process_state=rng.choice([1, 1, 1, 2], count),
        cpu_seconds=shape.first * 1.1 + rng.standard_normal(count),
        run_queue_seconds=4 * rng.random(count),
        resident_bytes=(4 << 30) + (rng.integers(0, 1 << 16, count) << 12),
        world=shape.world,
        exit_code=-1,
        major_faults=rng.integers(0, 40, count),
        job_class=rng.choice([b"production", b"experiment", b"interactive"]),
    )
    if rng.random() < 0.3:
        state["device_state"] = rng.integers(1, 4, count)
        state["device_since_ns"] = now - shape.durations(count, shape.step_ns / 4)
        state["device_step"] = shape.first + shape.steps - 1
        state["device_phase"] = rng.integers(0, 5, count)
    cursor = shape.rows(
        Kind.CURSOR,
        count,
        rank=shape.rank,
        ring_id=rng.integers(1 << 63, size=count),
        next_seq=5 * (shape.first + shape.steps + 1),
    )
    tables = {Kind.RANK_STATE: state, Kind.CURSOR: cursor}
    if rng.random() < 0.3:
        tables[Kind.MEMORY] = shape.rows(
            Kind.MEMORY,
            count,
            rank=shape.rank,
            step=shape.first,
            device=np.arange(count),
            allocated_bytes=rng.integers(1 << 36),
            reserved_bytes=1 << 36,
            limit_bytes=85_899_345_920,
        )
    if rng.random() < 0.25:
        tables[Kind.NUMERICS] = shape.rows(
            Kind.NUMERICS,
            count,
            rank=shape.rank,
            step=shape.first,
            source=4,
            digest=rng.integers(1 << 63),
            digest_group=7,
            digest_part=rng.integers(64),
        )
    return tables


def node(shape: Shape) -> dict[Kind, Rows]:
    """Return the probes' rows of host, network and devices, and the agent's own."""
    rng = shape.rng
    interfaces = [b"", b"eth0", b"ib0", b"ib1", b"lo"][: shape.choice([1, 2, 5])]
    host = shape.rows(
        Kind.HOST,
        1,
        memory_available_bytes=rng.integers(1 << 40),
        memory_total_bytes=2_164_049_100_800,
        neighbour_pid=rng.integers(1 << 22),
        neighbour=rng.choice([b"node_exporter", b"python3", b"dcgm-exporter", b"kubelet"]),
    )
    fill(shape, host, 0.3)
    nic = shape.rows(Kind.NIC, len(interfaces), interface=interfaces)
    fill(shape, nic, 1e10)
    agent = shape.rows(
        Kind.AGENT,
        1,
        flush_seconds=rng.choice([1.0, 1.0, 5.0, 10.0]),
        poll_seconds=rng.choice([0.1, 0.2, 0.25]),
        spool_bytes=rng.choice([0, int(rng.integers(1 << 24))]),
        version=b"0.1.0",
    )
    tables = {Kind.HOST: host, Kind.NIC: nic, Kind.AGENT: agent}
    if rng.random() < 0.4:
        device = shape.rows(Kind.DEVICE, shape.ranks, rank=shape.rank, device=range(shape.ranks))
        fill(shape, device, 1000)
        tables[Kind.DEVICE] = device
    return tables


def fill(shape: Shape, rows: Rows, most: float) -> None:
    """Fill every float field with random values below `most`; in one of five with unknown."""
    for name in rows.dtype.names or ():
        if rows.dtype[name].kind == "f":
            values = np.floor(most * shape.rng.random(len(rows))) if most > 1 else most / 7
            rows[name] = np.nan if shape.rng.random() < 0.2 else values


if __name__ == "__main__":
    main(Path(sys.argv[1]))
