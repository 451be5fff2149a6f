"""`python -m tests.verdicts.real.record` records real step times for the scenarios' replay."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from stepwatch.collector.store import Store
from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows
from stepwatch.signals.records import Kind
from tests.ports import free_port
from tests.verdicts.plan import Plan
from tests.verdicts.run import AFTER_END_SECONDS
from tests.verdicts.scenario.course.noise import COLUMNS, RECORDED
from tests.verdicts.site import Site, is_alive, kill

RUNS = (2, 4)
"""Ranks of each run."""
STEPS, WARMUP = 400, 20
_LEAST, _MOST = 0.25, 8.0
"""Bounds of a time over its median: times beyond them belong to another program."""


def record(site: Site, ranks: int) -> np.ndarray[tuple[int, int, int], np.dtype[np.float16]]:
    """Return the times of one run over their medians (steps, ranks, columns)."""
    plan = Plan(
        job=f"recorded-{ranks}",
        world=ranks,
        workload="outside",
        steps=STEPS,
        data_seconds=0.008,
        forward_seconds=0.04,
        backward_seconds=0.06,
        port=free_port(),
        folder=str(site.folder),
    )
    pids = site.launch(plan)
    try:
        while any(map(is_alive, pids)):
            time.sleep(0.5)
    finally:
        kill(pids)
    time.sleep(AFTER_END_SECONDS)
    store = Store.sqlite(site.store)
    try:
        tables = [wire.decode(payload.payload).tables for payload in store.segments(plan.job)]
    finally:
        store.close()
    return factors(
        np.concatenate([table[Kind.STEP] for table in tables if Kind.STEP in table]), ranks
    )


def factors(rows: Rows, ranks: int) -> np.ndarray[tuple[int, int, int], np.dtype[np.float16]]:
    """Return STEP rows as times over the median of each rank and column.

    A transfer is the time in collectives of the last rank to arrive, because it waits for no peer.
    """
    ordered = np.sort(rows[rows["step"] >= WARMUP], order=["step", "rank"])
    steps = ordered.reshape(-1, ranks)
    columns = [steps[f"{name}_ns"].astype(np.float64) for name in COLUMNS[:-1]]
    shortest = steps["collective_ns"].min(axis=1, keepdims=True).astype(np.float64)
    columns.append(np.repeat(shortest, ranks, axis=1))
    seconds = np.stack(columns, axis=2)
    ratio = seconds / np.median(seconds, axis=0, keepdims=True)
    return np.clip(ratio, _LEAST, _MOST).astype(np.float16)


def main() -> int:
    """Record all runs."""
    with (
        tempfile.TemporaryDirectory(prefix="stepwatch-record-") as directory,
        tempfile.TemporaryDirectory(prefix="stepwatch-record-", dir="/dev/shm") as rings,
    ):
        site = Site(Path(directory), Path(rings))
        try:
            site.start()
            runs = {f"ranks{ranks}": record(site, ranks) for ranks in RUNS}
        finally:
            site.close()
    RECORDED.parent.mkdir(exist_ok=True)
    np.savez_compressed(RECORDED, allow_pickle=False, **runs)
    for name, run in runs.items():
        print(name, run.shape, run.astype(float).std(axis=(0, 1)).round(3))
    print(f"{RECORDED.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
