"""Ranks that only write: `python -m tests.bench.node_ranks DIR RANKS HERTZ`.

Each step is one STEP and three COLLECTIVE records. It prints nothing and ends when it is killed.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from stepwatch.signals.blackbox import Identity, RingWriter
from stepwatch.signals.processes import pid_namespace, start_ticks
from stepwatch.signals.records import Kind, LifecycleEvent, Op, Phase

JOB = "bench"
CAPACITY = 4096


def main(folder: str, ranks: int, hertz: float) -> None:
    """Write until it is killed."""
    rings = [_ring(Path(folder), rank, ranks) for rank in range(ranks)]
    step = 0
    while True:
        step += 1
        now = time.monotonic_ns()
        for ring in rings:
            for op in (Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_REDUCE):
                ring.write(Kind.COLLECTIVE, step, now, 7, op, 8, 8 << 20, 10_000, 1_000, 5_000)
            phases = [1_000_000 * (step % 7)] * (len(Phase) + 2)
            ring.write(Kind.STEP, step, now, sum(phases), *phases, 64, 4, 0, 1.0 / step, 0.5)
            ring.set_heartbeat(now)
        time.sleep(max(0.0, step / hertz - (now - _BEGAN_NS) / 1e9))


_BEGAN_NS = time.monotonic_ns()


def _ring(folder: Path, rank: int, ranks: int) -> RingWriter:
    identity = Identity(
        JOB, 0, rank, ranks, "node-0", os.getpid(), rank + 1, CAPACITY,
        process_start=start_ticks(os.getpid()), pid_namespace=pid_namespace(),
    )  # fmt: skip
    ring = RingWriter(folder / JOB / "0" / str(rank), identity)
    ring.write(Kind.LIFECYCLE, 0, time.monotonic_ns(), LifecycleEvent.START, ranks, b"node-0")
    return ring


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
