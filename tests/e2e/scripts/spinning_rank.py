"""A rank without a framework: each step spins for a fixed CPU time, then waits for the others.

Arguments: folder of rings, rank, world, CPU to run on, CPU seconds of work per step.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from stepwatch.signals.blackbox import Identity, RingWriter
from stepwatch.signals.processes import start_ticks
from stepwatch.signals.records import Kind, LifecycleEvent, Phase


def main() -> None:
    rings, rank, world = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    os.sched_setaffinity(0, {int(sys.argv[4])})
    identity = Identity(
        "contended", 0, rank, world, "node-0", os.getpid(), 100 + rank, 4096,
        process_start=start_ticks(os.getpid()),
    )  # fmt: skip
    ring = RingWriter(rings / "contended" / "0" / str(rank), identity)
    ring.write(Kind.LIFECYCLE, 0, time.monotonic_ns(), LifecycleEvent.START, world, b"node-0")
    step = 0
    while True:
        began = time.monotonic_ns()
        step += 1
        spin(float(sys.argv[5]))
        worked = time.monotonic_ns()
        meet(rings, rank, world, step)
        ended = time.monotonic_ns()
        phases = [worked - began if phase is Phase.FORWARD else 0 for phase in Phase]
        waited = ended - worked
        body = (ended - began, *phases, waited, 0, 64, 1, 0, 1.0, 0.5)
        ring.write(Kind.STEP, step, ended, *body)


def spin(seconds: float) -> None:
    """Use so much CPU time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def meet(rings: Path, rank: int, world: int, step: int) -> None:
    """Wait until every rank has reached `step`."""
    place = rings.parent / "steps"
    place.mkdir(exist_ok=True)
    (place / f".{rank}").write_text(str(step))
    (place / f".{rank}").replace(place / str(rank))
    while any(reached_step(place / str(peer)) < step for peer in range(world)):
        time.sleep(0.002)


def reached_step(place: Path) -> int:
    """Newest step of a rank."""
    try:
        return int(place.read_text())
    except (OSError, ValueError):
        return 0


main()
