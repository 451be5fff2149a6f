"""Writes a segment and a ring with the installed code, and their content as JSON.

`python make.py FOLDER FORMAT` adds `segment-FORMAT.seg` and `ring-FORMAT.gz`, each with a `.json`.
It runs on the code of the files' release: fixtures are made once and never again. Every kind has
four rows: lowest values, highest values, and two of random bits.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import DTYPES, Kind
from stepwatch.signals.wire import Segment, SegmentKey

KEY = SegmentKey("llama-7b", 3, "node-1", 2**63 - 1, 42)
CLOCK = ClockPair(5_000_000_000, 1_790_000_000_000_000_000)


def extreme(dtype: np.dtype[Any], *, high: bool) -> Any:
    """Lowest or highest value of a field's type; NaN is the lowest float, infinity the highest."""
    if dtype.kind == "f":
        return np.inf if high else np.nan
    if dtype.kind == "S":
        return b"z" * dtype.itemsize if high else b""
    return np.iinfo(dtype).max if high else np.iinfo(dtype).min


def rows_of(kind: Kind) -> Any:
    """Four rows of a kind."""
    noise = np.random.default_rng(int(kind)).bytes(4 * DTYPES[kind].itemsize)
    rows = np.frombuffer(noise, dtype=DTYPES[kind]).copy()
    for name in DTYPES[kind].names or ():
        rows[name][0] = extreme(DTYPES[kind][name], high=False)
        rows[name][1] = extreme(DTYPES[kind][name], high=True)
        if DTYPES[kind][name].kind == "f":
            rows[name][2:] = [0.1, -1e30]
    return rows


def plain_values(rows: Any) -> dict[str, list[Any]]:
    """Values by field: texts as Latin-1, floats that JSON lacks as text."""
    return {name: [_plain(value) for value in rows[name].tolist()] for name in rows.dtype.names}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def write_segment(folder: Path, number: str) -> None:
    """Write every kind in one segment."""
    tables = {kind: rows_of(kind) for kind in Kind}
    (folder / f"segment-{number}.seg").write_bytes(wire.encode(Segment(KEY, CLOCK, tables)))
    document = {
        "key": KEY,
        "clock": CLOCK,
        "tables": {int(k): plain_values(r) for k, r in tables.items()},
    }
    _write_json(folder / f"segment-{number}.json", document)


def write_ring(folder: Path, number: str) -> None:
    """Write every ring kind in a small ring whose first eight records are overwritten."""
    from stepwatch.signals.blackbox import Identity, RingWriter
    from stepwatch.signals.records import BODIES, RING_KINDS

    identity = Identity(
        *("llama-7b", 2, 5, 8, "node-1", 4321, 2**64 - 1, 32, (1, 0, 1, 0), (2, 1, 2, 2)),
        *(7, 1_790_000_000_000_000_000, 3, 99, "production", "/run/worker.sock"),
    )
    path = folder / "ring"
    ring = RingWriter(path, identity)
    tables: dict[int, Any] = {}
    for _ in range(8):
        ring.write(Kind.LIFECYCLE, 1, 1, 1, 0, b"overwritten")
    for kind in sorted(RING_KINDS):
        rows = rows_of(kind)
        rows["rank"] = identity.rank
        for row in rows:
            row["seq"] = ring.written + 1
            body = [row[name].item() for name, _ in BODIES[kind]]
            ring.write(kind, int(row["step"]), int(row["time_ns"]), *body)
        tables[int(kind)] = plain_values(rows)
    ring.set_heartbeat(55)
    ring.set_hook_errors(4)
    ring.close()
    (folder / f"ring-{number}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    _write_json(folder / f"ring-{number}.json", {"identity": identity._asdict(), "tables": tables})


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    write_segment(Path(sys.argv[1]), sys.argv[2])
    if "--segment-only" not in sys.argv:
        write_ring(Path(sys.argv[1]), sys.argv[2])
