"""Segments on the wire: bytes, and processor time to encode and decode."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import Kind, Op, ProcessState, make_rows
from stepwatch.signals.wire import Segment, SegmentKey

from .result import Result

RANKS, WORLD, SECOND = 8, 16_384, 1_000_000_000
OPS = (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER)
ROUNDS, CALLS = 100, 20


def measure() -> Iterator[Result]:
    """Measure a node's segment with one step, and with ten."""
    for steps in (1, 10):
        segment = node_segment(steps)
        data = wire.encode(segment)
        title = f"segment of {steps} step{'s' * (steps > 1)}, {RANKS} ranks, {len(OPS)} collectives"
        per_row = f"{len(data) / (RANKS * steps):.0f} B"
        yield Result(title, per_row, "none", "for a rank and a step")
        yield Result("  decode", f"{_microseconds(partial(wire.decode, data)):.0f} µs", "none", "")
        encode = _microseconds(partial(wire.encode, segment))
        yield Result("  encode", f"{encode:.0f} µs", "none", "")


def node_segment(steps: int) -> Segment:
    """Return the steps of one node of a large job, with noise in every time."""
    noise = np.random.default_rng(0)
    rank, step = np.tile(np.arange(80, 80 + RANKS), steps), np.repeat(np.arange(steps) + 3, RANKS)

    def noisy_ns(seconds: float, spread: float, count: int = RANKS * steps) -> Any:
        return (seconds * SECOND + noise.normal(0, spread * SECOND, count)).astype(np.int64)

    ended = step * SECOND + noisy_ns(0, 0.001)
    step_rows = make_rows(
        Kind.STEP,
        len(step),
        rank=rank,
        step=step,
        seq=5 * step,
        time_ns=ended,
        duration_ns=noisy_ns(1, 0.005),
        forward_ns=noisy_ns(0.25, 0.005),
        backward_ns=noisy_ns(0.45, 0.005),
        data_ns=2_000_000,
        optimizer_ns=20_000_000,
        collective_ns=noisy_ns(0.2, 0.005),
        pipeline_wait_ns=50_000_000,
        tokens=8192,
        loss=noise.normal(2, 0.1, len(step)),
        grad_norm=noise.normal(1, 0.1, len(step)),
    )
    waits = make_rows(
        Kind.COLLECTIVE,
        len(OPS) * len(step),
        rank=np.tile(rank, len(OPS)),
        step=np.tile(step, len(OPS)),
        op=np.repeat(OPS, len(step)),
        group=7,
        count=np.repeat((2, 64, 32), len(step)),
        bytes=1 << 26,
        exposed_ns=noisy_ns(0.07, 0.001, len(OPS) * len(step)),
        longest_ns=3_000_000,
        first_arrival_ns=np.tile(ended, len(OPS)) - 800_000_000,
    )
    now = (steps + 3) * SECOND
    states = make_rows(
        Kind.RANK_STATE,
        RANKS,
        rank=rank[:RANKS],
        step=steps + 3,
        world=WORLD,
        time_ns=now,
        heartbeat_ns=now,
        since_ns=now - SECOND // 10,
        process_state=ProcessState.RUNNING,
        phase=2,
        exit_code=-1,
        job_class=b"production",
    )
    tables = {Kind.STEP: step_rows, Kind.COLLECTIVE: waits, Kind.RANK_STATE: states}
    return Segment(
        SegmentKey("big", 0, "n10", 1, 2), ClockPair(now, 1_790_000_000 * SECOND), tables
    )


def _microseconds(call: Callable[[], object]) -> float:
    """Return the microseconds of a call in its best round.

    It is the thread's processor time: other processes on the machine do not count.
    """
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(CALLS):
            call()
        best = min(best, (time.thread_time() - began) / CALLS * 1e6)
    return best
