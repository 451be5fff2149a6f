"""Answers about a job's history: curves of a month, and the matrix of a large job.

Each beside a bare baseline in the same run: the same numbers as JSON by Python's encoder, and one
pass of numpy over the same cells.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator

import numpy as np

from stepwatch.collector.state.trackers.metrics.buckets import Values, order_of
from stepwatch.collector.state.trackers.metrics.metrics import Metrics
from stepwatch.collector.state.trackers.metrics.names import MetricName
from stepwatch.collector.state.trackers.steps.dropped_curves import PACE, SPANS, DroppedCurves
from stepwatch.collector.web.history.asked import Range
from stepwatch.collector.web.history.curves import Curves, Run, curves_of
from stepwatch.collector.web.history.matrix import Window, matrix_document
from stepwatch.collector.web.history.matrix.planes import Planes
from stepwatch.collector.web.history.numbers import document_text
from stepwatch.collector.web.history.paces import Pace
from stepwatch.collector.web.history.series import series_document
from stepwatch.signals.arrays import Integers, Rows

from .result import Result

MONTH_SECONDS, STEP_SECONDS, HELD_STEPS = 30 * 86_400, 10, 16_384
METRICS = ["loss", "grad_norm", "step_seconds", "tokens_per_second"]
RANKS, STEPS = 16_384, 512
_EVERYTHING = Range(-math.inf, math.inf, 600)


def measure() -> Iterator[Result]:
    """Measure a first answer from copied state, one from kept curves, and a matrix."""
    run = _month()
    first = _milliseconds(lambda: _answered(curves_of({"job": "month"}, [run])))
    kept = curves_of({"job": "month"}, [run])
    text = _answered(kept)
    again = _milliseconds(lambda: _answered(kept))
    document = json.loads(text)
    bare = _milliseconds(lambda: json.dumps(document))
    yield Result(
        "4 curves of a month, 600 points", f"{first:.1f} ms", "50 ms",
        f"{again:.1f} ms from kept curves; {len(text) / 1000:.0f} kB by json.dumps {bare:.1f} ms",
    )  # fmt: skip
    planes = _planes()
    window = Window(-math.inf, math.inf, 0, STEPS, 0, RANKS, "rank", 64, 160)
    drawn = _milliseconds(lambda: document_text(matrix_document(planes, window)))
    one_pass = _milliseconds(lambda: np.fmax.reduce(planes.seconds, axis=0))
    by_node = _milliseconds(
        lambda: document_text(matrix_document(planes, window._replace(by="node")))
    )
    yield Result(
        f"a matrix of {RANKS:,} ranks, {STEPS} steps", f"{drawn:.0f} ms", "100 ms",
        f"by node {by_node:.0f} ms; one pass over the cells {one_pass:.0f} ms",
    )  # fmt: skip


def _answered(curves: Curves) -> str:
    return document_text(series_document(curves, METRICS, _EVERYTHING))


def _milliseconds(call: Callable[[], object], rounds: int = 7) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return 1000 * min(times)


def _month() -> Run:
    """One run with ten metrics beside the loss and the gradient norm, a value each ten seconds."""
    metrics = Metrics()
    metrics.names.metrics += [MetricName(f"metric {place}", "", place) for place in range(2, 12)]
    steps = np.arange(MONTH_SECONDS // STEP_SECONDS)
    random = np.random.default_rng(0)
    for metric in range(12):
        values = random.random(len(steps))
        order = order_of(steps, np.zeros(len(steps), dtype=np.int64))
        part = Values(
            np.full(len(steps), metric), order, values, (steps * STEP_SECONDS).astype(np.float64)
        )
        metrics.add(part)
    dropped = DroppedCurves()
    rows = _pace_rows(steps)
    dropped.add(rows[:-HELD_STEPS], np.zeros((len(rows) - HELD_STEPS, 12), dtype=np.int64))
    levels = {0: rows[-HELD_STEPS:]} | {seconds: dropped.rows[seconds] for seconds in SPANS}
    return Run(0, math.inf, metrics, Pace(0, levels, math.nan))


def _pace_rows(steps: Integers) -> Rows:
    rows = np.zeros(len(steps), dtype=PACE)
    rows["first_step"] = rows["step"] = steps
    rows["start_s"] = rows["at"] = steps * STEP_SECONDS
    rows["steps"], rows["tokens"] = 1, 1000.0
    for name in ("seconds", "least", "greatest", "last", "token_seconds"):
        rows[name] = np.random.default_rng(1).random(len(rows)) + STEP_SECONDS
    for name in ("least", "greatest", "last"):
        rows[f"{name}_rate"] = rows["tokens"] / rows["seconds"]
    return rows


def _planes() -> Planes:
    ranks = np.arange(RANKS)
    return Planes(
        about={"job": "large"},
        clock="host",
        nodes=[f"node-{number}" for number in range(RANKS // 8)],
        begins=np.arange(STEPS),
        steps=np.arange(STEPS),
        at=np.arange(STEPS, dtype=np.float64),
        seconds=np.random.default_rng(0).random((STEPS, RANKS), dtype=np.float32),
        first=ranks,
        last=ranks,
        slowest=None,
        node=ranks // 8,
        stage=ranks // 2048,
    )
