"""Cost of one straggler detection over a window of many ranks."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from stepwatch.collector.detect import straggler
from stepwatch.collector.window import COLUMNS, Window

from .result import Result

STEPS = 64
BUDGETS = {1_024: "20 ms", 16_384: "400 ms"}


def measure() -> Iterator[Result]:
    """Windows of 64 steps; one rank is slow and must be found."""
    for ranks, budget in BUDGETS.items():
        window, facts = _window(ranks)
        times = []
        for _ in range(5):
            began = time.perf_counter()
            found = straggler.detect(window, facts, straggler.LIMITS)
            times.append(time.perf_counter() - began)
        named = ", ".join(f"rank {finding.rank}" for finding in found)
        what = f"straggler detection, {ranks:,} ranks x {STEPS} steps"
        yield Result(what, f"{min(times) * 1e3:.1f} ms", budget, f"found {named}")


def _window(ranks: int) -> tuple[Window, straggler.RankFacts]:
    noise = np.random.default_rng(0)
    shape = (STEPS, ranks)
    planes = {name: (noise.lognormal(-2, 0.05, shape)).astype(np.float32) for name in COLUMNS}
    planes["duration"] = np.full(shape, 1.0, dtype=np.float32)
    planes["checkpoint"] = planes["eval"] = np.zeros(shape, dtype=np.float32)
    planes["forward"][30:, ranks // 2] *= 5
    stage = (np.arange(ranks) * 4 // ranks).astype(np.int16)
    flags = np.zeros(shape, dtype=np.uint16)
    unknown = np.full(ranks, np.nan)
    return Window(np.arange(STEPS), planes, flags, stage), straggler.RankFacts(unknown, unknown)
