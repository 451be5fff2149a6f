"""Data stall: the whole job waits for its data, far longer than its baseline.

One rank that waits alone is a straggler in phase data. The exception is a rank without peers in its
pipeline stage that has waited since its first steps: neither peers nor a baseline show it. An epoch
boundary is one long wait, or a few in a row, and raises nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding, build_finding
from stepwatch.collector.detect.observed import alone_in_stage
from stepwatch.collector.detect.steps import (
    first_of_run,
    loads_data,
    step_seconds,
    usable_steps,
)
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.signals.arrays import Integers, Mask, MaskMatrix, Matrix, Vector
from stepwatch.signals.names import Cause, FindingKind


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a job that is starved of data."""

    least_share: float = 0.25
    """Share: the step's part that the data wait takes. Less is not worth acting at night, and a
    loader without prefetching on a busy host comes near it.
    """
    least_ratio: float = 3.0
    """Ratio: data time per second of the remaining step, over that in the run's first steps."""
    window_steps: int = 8
    """Steps: the newest ones that are evaluated. The fault must be named within 10 s for steps up
    to 1 s. An epoch begins with fewer long steps.
    """
    nearly_all_share: float = 0.75
    """Share: the steps in the window that must be long, and the loading ranks that must wait. For a
    wait in nearly every step, the same share of the long window must be long. The first steps of an
    epoch, however long, raise nothing. Fewer ranks are stragglers, each named on its own.
    """
    long_window_steps: int = 32
    """Steps: the long window, in which `window_steps` long ones are enough. A loader with N workers
    that cannot keep up is late in bursts, typically every N-th step. Epochs of ten steps stay
    below it.
    """
    lasting_share: float = 0.05
    """Share: worth a ticket if data takes it in nearly every step for `lasting_seconds`, in every
    bucket of ten seconds. A busy host makes data late for seconds, an epoch for one step.
    """
    lasting_seconds: float = 60.0
    """Seconds: how long `lasting_share` must last. After that, `least_share` is enough for a job
    that has waited since its first steps, whatever its baseline.
    """
    always_share: float = 0.5
    """Share: a job that waits for so much of nearly every step has no healthy baseline."""
    always_seconds: float = 30.0
    """Seconds: the total of the newest steps, `window_steps` or more and all long, that is enough
    for such a job. The long window may take minutes, and so may a run's first steps, which have no
    baseline before they end.
    """


LIMITS = Thresholds()
"""The shipped thresholds."""


class Waits(NamedTuple):
    """Waits in usable steps.

    `steps` are the step numbers. `seconds` without pauses, `data` seconds and `long` waits are
    arrays (steps, ranks).
    """

    steps: Integers
    seconds: Matrix
    data: Matrix
    long: MaskMatrix


class Baseline(NamedTuple):
    """Baseline: data time per second of the remaining step in the run's first steps.

    `most` is the ratio that most of these steps exceed, and `mean` their joint ratio.
    """

    most: float
    mean: float


def baseline_of(ratios: Vector, limits: Thresholds) -> Baseline | None:
    """Return the baseline from one ratio per first step; None without steps.

    As many first steps stay below `most` as newest steps may be short in a stall.
    """
    if not len(ratios):
        return None
    return Baseline(float(np.quantile(ratios, 1 - limits.nearly_all_share)), float(np.mean(ratios)))


class _Rule(NamedTuple):
    """A rule for when long waits form a stall.

    At least `least_steps` of the newest `steps` steps must be long. A wait is long if it is at
    least `least_share` of its step and far above `most`, as data time per second of the remaining
    step; all waits together must exceed `usual` by the same factor. Two waits belong to one stall
    if at most `gap` steps separate them.
    """

    steps: int
    least_steps: int
    most: float
    usual: float
    gap: int
    least_share: float
    is_new: bool = True


def detect(
    window: Window,
    baseline: Baseline | None,
    limits: Thresholds,
    lasts_s: float = 0.0,
    numbers: Integers | None = None,
) -> list[Finding]:
    """Return at most one finding on the newest steps of `window`.

    Without a baseline, only waits that take half of each step count. `lasts_s` is the number of
    seconds for which data has taken a share worth a ticket: a shorter wait is then enough.
    `numbers` are the window's rank numbers if it does not hold all ranks.
    """
    usable = np.flatnonzero(usable_steps(window))
    if len(usable) < limits.window_steps:
        return []
    seconds = step_seconds(window.select(usable[-limits.long_window_steps :]))
    rules = _rules(baseline, lasts_s >= limits.lasting_seconds, seconds, limits)
    if not rules:
        return []
    newest = _durations(window.select(usable[-limits.window_steps // 2 :]))
    stalled_counts = [_long(*newest, rule, limits).any(axis=0).sum() for rule in rules]
    without_peers = alone_in_stage(window.stage)
    several = min(2, len(window.stage))  # one waiting rank among others is a straggler
    if max(stalled_counts) < (1 if without_peers.any() else several):
        return []  # a look at a few rows, which is nearly always enough
    for rule in rules:
        waits = _waits(window.select(usable[-limits.long_window_steps :]), rule, limits)
        loaders = loads_data(waits.data.sum(axis=0), waits.seconds.sum(axis=0))
        stalled = _is_stalled(waits, rule, limits)
        enough = max(several, limits.nearly_all_share * loaders.sum())
        if not rule.is_new and stalled.sum() < enough:
            stalled &= without_peers
            enough = 1
        if stalled.sum() >= enough:
            waits = _waits(window.select(usable), rule, limits)  # the older steps date the stall
            began = first_of_run(waits.long[:, stalled].mean(axis=1) >= 0.5, rule.gap)
            named = np.arange(len(stalled)) if numbers is None else numbers
            return [_finding(waits, stalled, began, rule, named)]
    return []


def _rules(
    baseline: Baseline | None, lasts: bool, seconds: Vector, limits: Thresholds
) -> list[_Rule]:
    """Return the rules in evaluation order.

    `seconds` (steps,) are the durations of the newest steps in the long window. Without a baseline,
    only the last rule applies: the newest steps are all long, and together take long enough.
    """
    short, long, share = limits.window_steps, limits.long_window_steps, limits.least_share
    nearly_all = math.ceil(limits.nearly_all_share * long)
    always = _always(baseline, limits.always_share, long, nearly_all, limits)
    rules = []
    if baseline is not None:
        most, mean = baseline
        rules = [
            _Rule(short, math.ceil(limits.nearly_all_share * short), most, most, 2, share),
            _Rule(long, short, most, mean, short, share),
            always,
        ]
        if lasts:
            rules.append(_Rule(long, nearly_all, most, mean, 2, limits.lasting_share))
            rules.append(_always(baseline, share, long, nearly_all, limits))
    elapsed = np.cumsum(seconds[::-1])
    few = max(short, int(np.searchsorted(elapsed, limits.always_seconds)) + 1)
    if few <= len(elapsed):
        rules.append(always._replace(steps=few, least_steps=few))
    return rules


def _always(
    baseline: Baseline | None, share: float, steps: int, least_steps: int, limits: Thresholds
) -> _Rule:
    """Return the rule for waits of `share` of the step that may have lasted since the first steps.

    The baseline counts only as far as such a wait exceeds it enough.
    """
    most = share / (1.0 - share) / limits.least_ratio
    if baseline is not None:
        most = min(baseline.most, most)
    return _Rule(steps, least_steps, most, most, 2, limits.least_share, is_new=False)


def _waits(window: Window, rule: _Rule, limits: Thresholds) -> Waits:
    """Return the waits in a window of usable steps."""
    seconds, data = _durations(window)
    return Waits(window.steps, seconds, data, _long(seconds, data, rule, limits))


def _durations(window: Window) -> tuple[Matrix, Matrix]:
    """Return the seconds without pauses, and those of data, (steps, ranks)."""
    planes = window.planes
    pauses = planes["checkpoint"] + planes["eval"]
    return (planes["duration"] - pauses).astype(np.float64), planes["data"].astype(np.float64)


def _long(seconds: Matrix, data: Matrix, rule: _Rule, limits: Thresholds) -> MaskMatrix:
    """Return which waits are long (steps, ranks)."""
    remainder = np.maximum(seconds - data, 0.0)
    least = np.maximum(rule.least_share * seconds, limits.least_ratio * rule.most * remainder)
    return np.asarray((data >= least) & (data > 0))


def _is_stalled(waits: Waits, rule: _Rule, limits: Thresholds) -> Mask:
    """Return which ranks wait long in enough of the newest steps, recently, and overall."""
    steps = slice(-rule.steps, None)
    often = waits.long[steps].sum(axis=0) >= rule.least_steps
    lately = waits.long[-limits.window_steps // 2 :].any(axis=0)
    seconds, data = waits.seconds[steps].sum(axis=0), waits.data[steps].sum(axis=0)
    remainder = np.maximum(seconds - data, 0.0)
    floor = np.maximum(rule.least_share * seconds, limits.least_ratio * rule.usual * remainder)
    return np.asarray(often & lately & (data >= floor))


def _finding(waits: Waits, stalled: Mask, began: int, rule: _Rule, numbers: Integers) -> Finding:
    baseline_ratio, is_new = rule.usual, rule.is_new
    data = float(waits.data[began:, stalled].mean())
    seconds = float(waits.seconds[began:, stalled].mean())
    usual = baseline_ratio * max(seconds - data, 0.0)
    share, baseline_share = data / seconds, baseline_ratio / (1 + baseline_ratio)
    against = "baseline" if is_new else "at most to be expected"
    first = int(waits.steps[began])
    count, ranks = int(stalled.sum()), waits.data.shape[1]
    ranks_label = f"{count} of {ranks} ranks"
    rank = int(numbers[stalled][0]) if count == 1 < ranks else NO_RANK
    if rank != NO_RANK:
        ranks_label = f"rank {rank}, for which the others wait"
    summary = (
        f"the job waits for data since step {first}: {in_words(data)} a step, {share:.0%} of it, "
        f"on {ranks_label}; "
        + (f"baseline {baseline_share:.0%}" if is_new else "it has since its first steps")
    )
    was = f"{against} {baseline_share:.1%}", f"{against} {in_words(usual)}"
    evidence = (
        Evidence("data share of the step", share, "ratio", was[0], reference=baseline_share),
        Evidence("data time per step", data, "seconds", was[1], reference=usual),
        Evidence("ranks that wait for data", count, "ranks", f"of {ranks}"),
    )
    return build_finding(
        kind=FindingKind.DATA_STALL,
        phase="data",
        cause=Cause.SLOW_DATA,
        rank=rank,
        summary=summary,
        began_step=first,
        began_ago_seconds=float(waits.seconds[began:].max(axis=1).sum()),
        severity=data - usual,
        ratio=data / usual if usual > 0 else math.nan,
        lost_ratio=max(0.0, (data - usual) / seconds),
        evidence=evidence,
    )
