"""Data stall: the whole job waits for its data, far longer than its baseline.

One rank that waits alone is a straggler in phase data. An epoch boundary is one long wait, or a few
in a row, and raises nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.detect.steps import first_of_run, usable_steps
from stepwatch.collector.detect.thresholds import load
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.state.trackers.step_window import Window
from stepwatch.signals.arrays import Integers, Mask, MaskMatrix, Matrix, Vector
from stepwatch.signals.names import Cause, FindingKind


class Thresholds(NamedTuple):
    """When a job is starved of data; see `thresholds.toml`."""

    least_share: float
    least_ratio: float
    window_steps: int
    least_steps: int
    long_window_steps: int
    long_least_steps: int
    loader_share: float
    least_ranks_share: float
    least_ranks: int
    most_usual_ratio: float
    always_least_steps: int


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""


class Waits(NamedTuple):
    """Per usable step: its number, seconds without pauses and seconds in data (steps, ranks), and
    where the wait is long."""

    steps: Integers
    seconds: Matrix
    data: Matrix
    long: MaskMatrix


class Baseline(NamedTuple):
    """Baseline: data time per second of the rest of the step in the run's first steps.

    `most` is what most of them exceeded, `mean` what they came to together.
    """

    most: float
    mean: float


def baseline_of(ratios: Vector, limits: Thresholds) -> Baseline | None:
    """The baseline from one ratio per first step; None where there is none.

    As many of the first steps stay below `most` as newest steps may be short in a stall.
    """
    if not len(ratios):
        return None
    below = 1 - limits.least_steps / limits.window_steps
    return Baseline(float(np.quantile(ratios, below)), float(np.mean(ratios)))


def detect(window: Window, baseline: Baseline | None, limits: Thresholds) -> list[Finding]:
    """At most one finding on the newest steps of `window`; without a baseline there is none."""
    usable = np.flatnonzero(usable_steps(window))
    if len(usable) < limits.window_steps or baseline is None:
        return []
    most = limits.most_usual_ratio
    starved = Baseline(min(baseline.most, most), min(baseline.mean, most))
    newest = _waits(window.at(usable[-limits.window_steps // 2 :]), starved, limits)
    if newest.long.any(axis=0).sum() < min(limits.least_ranks, len(window.stage)):
        return []  # a look at a few rows, which is nearly always enough
    for steps, least, past, usual, gap in (
        (limits.window_steps, limits.least_steps, baseline, baseline.most, 2),
        (
            limits.long_window_steps,
            limits.long_least_steps,
            baseline,
            baseline.mean,
            limits.window_steps,
        ),
        # Whatever its first steps were: one that was starved from the first on has no other past.
        (limits.long_window_steps, limits.always_least_steps, starved, starved.most, 2),
    ):
        waits = _waits(window.at(usable[-limits.long_window_steps :]), past, limits)
        loaders = _share(waits, limits) >= limits.loader_share
        stalled = _is_stalled(waits, steps, least, usual, limits)
        least_ranks = min(limits.least_ranks, len(loaders))  # a single process has no peers
        enough = max(least_ranks, limits.least_ranks_share * loaders.sum())
        if stalled.sum() >= enough:
            waits = _waits(window.at(usable), past, limits)  # the older steps say since when
            began = first_of_run(waits.long[:, stalled].mean(axis=1) >= 0.5, gap)
            return [_finding(waits, stalled, began, usual, is_new=past is baseline)]
    return []


def _waits(window: Window, baseline: Baseline, limits: Thresholds) -> Waits:
    """The waits in a window of usable steps."""
    planes = window.planes
    pauses = planes["checkpoint"] + planes["eval"]
    seconds = (planes["duration"] - pauses).astype(np.float64)
    data = planes["data"].astype(np.float64)
    rest = np.maximum(seconds - data, 0.0)
    least = np.maximum(limits.least_share * seconds, limits.least_ratio * baseline.most * rest)
    return Waits(window.steps, seconds, data, (data >= least) & (data > 0))


def _share(waits: Waits, limits: Thresholds) -> Vector:
    """Share of the newest steps that each rank spends on data."""
    recent = slice(-limits.long_window_steps, None)
    total = np.maximum(waits.seconds[recent].sum(axis=0), 1e-9)
    shares: Vector = waits.data[recent].sum(axis=0) / total
    return shares


def _is_stalled(waits: Waits, steps: int, least: int, usual: float, limits: Thresholds) -> Mask:
    """Ranks that wait long in `least` of the newest `steps`, lately too, and overall."""
    often = waits.long[-steps:].sum(axis=0) >= least
    lately = waits.long[-limits.window_steps // 2 :].any(axis=0)
    seconds, data = waits.seconds[-steps:].sum(axis=0), waits.data[-steps:].sum(axis=0)
    floor = np.maximum(
        limits.least_share * seconds, limits.least_ratio * usual * np.maximum(seconds - data, 0.0)
    )
    return np.asarray(often & lately & (data >= floor))


def _finding(
    waits: Waits, stalled: Mask, began: int, baseline_ratio: float, *, is_new: bool
) -> Finding:
    data = float(waits.data[began:, stalled].mean())
    seconds = float(waits.seconds[began:, stalled].mean())
    usual = baseline_ratio * max(seconds - data, 0.0)
    share, baseline_share = data / seconds, baseline_ratio / (1 + baseline_ratio)
    against = "baseline" if is_new else "at most to be expected"
    first = int(waits.steps[began])
    count, ranks = int(stalled.sum()), waits.data.shape[1]
    summary = (
        f"the job waits for data since step {first}: {in_words(data)} a step, {share:.0%} of it, "
        f"on {count} of {ranks} ranks; "
        + (f"baseline {baseline_share:.0%}" if is_new else "it has since its first steps")
    )
    evidence = (
        Evidence("data share of the step", share, "ratio", f"{against} {baseline_share:.1%}"),
        Evidence("data time per step", data, "seconds", f"{against} {in_words(usual)}"),
        Evidence("ranks that wait for data", count, "ranks", f"of {ranks}"),
    )
    return build_finding(
        kind=FindingKind.DATA_STALL,
        phase="data",
        cause=Cause.SLOW_DATA,
        summary=summary,
        began_step=first,
        began_ago_seconds=float(waits.seconds[began:].max(axis=1).sum()),
        severity=data - usual,
        ratio=data / usual if usual > 0 else math.nan,
        lost_ratio=max(0.0, (data - usual) / seconds),
        evidence=evidence,
    )
