"""Cost of all window detectors together, on windows of many ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from stepwatch.collector.detect import data_skew, data_stall, pipeline_bubble, straggler
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.straggler.costly import costly_ranks
from stepwatch.collector.state.evidence.cells import Arrangement
from stepwatch.collector.state.evidence.step_window import COLUMNS, VALUES, WORK, Window
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from tests.collector.detect.straggler.simulated import cells_of_window

from .result import Result

STEPS = 64
BUDGETS_MS = {8: 2.0, 1_024: 20.0, 16_384: 400.0}
"""Budgets by number of ranks."""
Detector = Callable[[Window], list[Finding]]


def measure() -> Iterator[Result]:
    """Measure windows of 64 steps, healthy ones and ones with a slow rank, which must be found."""
    for ranks, budget in BUDGETS_MS.items():
        window = _window(ranks)
        detectors = _detectors(window)
        yield _time_detectors(
            f"{ranks:,} ranks x {STEPS} steps, healthy", window, detectors, budget
        )
        window.planes["forward"][30:, ranks // 2] *= 5
        yield _time_detectors(
            f"{ranks:,} ranks x {STEPS} steps, one slow", window, detectors, budget
        )
        yield _evidence(window, budget)


def _time_detectors(
    title: str, window: Window, detectors: dict[str, Detector], budget: float
) -> Result:
    findings: list[Finding] = []
    seconds: dict[str, float] = {}
    for name, detect in detectors.items():
        times = []
        for _ in range(5):
            began = time.perf_counter()
            round_findings = detect(window)
            times.append(time.perf_counter() - began)
        findings += round_findings
        seconds[name] = min(times)
    named = ", ".join(f"{item.kind.value} rank {item.rank}" for item in findings) or "nothing"
    parts = ", ".join(f"{name} {best * 1e3:.1f}" for name, best in seconds.items())
    together = sum(seconds.values()) * 1e3
    comparison = f"budget / measured {budget / together:.1f}; found {named}; ms: {parts}"
    return Result(
        f"window detectors, {title}", f"{together:.1f} ms", f"{budget:.0f} ms", comparison
    )


def _evidence(window: Window, budget: float) -> Result:
    """Measure how long a step takes to enter the evidence, and how long the query for slow ranks
    takes."""
    evidence, limits = RankEvidence(), straggler.LIMITS
    arrangement = Arrangement(window.clock, window.stage, np.zeros(len(window.stage), np.int64))
    cells, query_seconds, ingest_seconds = cells_of_window(window), [], []
    for step in range(STEPS):
        began = time.perf_counter()
        evidence.take(arrangement, cells.select(slice(step, step + 1)))
        ingest_seconds.append(time.perf_counter() - began)
        began = time.perf_counter()
        ranks_found = costly_ranks(evidence, window.stage, limits)
        query_seconds.append(time.perf_counter() - began)
    step_ms, ask = np.median(ingest_seconds) * 1e3, np.median(query_seconds) * 1e3
    ranks = len(window.stage)
    return Result(
        f"evidence, {ranks:,} ranks, a step",
        f"{step_ms + ask:.2f} ms",
        f"{budget:.0f} ms",
        f"taking it {step_ms:.2f} ms, asking {ask:.2f} ms; {36 * 62:,} bytes a rank counted at "
        f"most; found {len(ranks_found)}",
    )


def _detectors(window: Window) -> dict[str, Detector]:
    unknown = np.full(len(window.stage), np.nan)
    facts = straggler.RankFacts(unknown, unknown)
    baseline = {name: np.median(window.planes[name], axis=0).astype(np.float64) for name in WORK}
    share = data_stall.baseline_of(np.full(20, 0.2), data_stall.LIMITS)
    return {
        "straggler": lambda steps: straggler.detect(steps, facts, straggler.LIMITS, baseline),
        "bubble": lambda steps: pipeline_bubble.detect(
            steps, baseline, 0.1, pipeline_bubble.LIMITS
        ),
        "data stall": lambda steps: data_stall.detect(steps, share, data_stall.LIMITS),
        "data skew": lambda steps: data_skew.detect(steps, data_skew.LIMITS),
    }


def _window(ranks: int) -> Window:
    noise = np.random.default_rng(0)
    shape = (STEPS, ranks)
    names = (*COLUMNS, *VALUES)
    planes = {name: (noise.lognormal(-2, 0.05, shape)).astype(np.float32) for name in names}
    planes["duration"] = np.full(shape, 1.0, dtype=np.float32)
    planes["checkpoint"] = planes["eval"] = np.zeros(shape, dtype=np.float32)
    planes["tokens"][:] = 4096.0
    stage = (np.arange(ranks) * 4 // ranks).astype(np.int16)
    flags = np.zeros(shape, dtype=np.uint16)
    return Window(np.arange(STEPS), planes, flags, stage)
