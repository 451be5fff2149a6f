"""Loss anomaly: the job's loss jumps, keeps rising, or has long stopped falling.

Noise is measured on the run itself. What is not finite is left out: another detector finds it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.medians import TO_DEVIATION, median
from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.signals.arrays import Integers, Matrix, Vector
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.thresholds import load

_ERROR_OF_MEDIAN = 1.2533
"""Standard error of a median over that of a mean, for normal noise."""


class Thresholds(NamedTuple):
    """When a loss is not healthy; see `thresholds.toml`."""

    history_steps: int
    spike_steps: int
    spike_errors: float
    spike_ratio: float
    huge_steps: int
    huge_errors: float
    huge_ratio: float
    diverged_steps: int
    block_steps: int
    rising_blocks: int
    least_blocks: int
    rise_ratio: float
    rise_errors: float
    plateau_steps: int
    plateau_ratio: float
    descent_ratio: float


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""


class Rise(NamedTuple):
    """Where the loss left its usual level: index of the first step and of the first after it, its
    level in the baseline and now, and the noise of one step."""

    began: int
    ended: int
    baseline: float
    now: float
    noise: float


def detect(
    steps: Integers, losses: Vector, limits: Thresholds, lately: int | None = None
) -> list[Finding]:
    """At most one finding; `losses` holds the job's loss of each of `steps`, NaN where unknown.

    A spike that is over is found where it ended in step `lately` or later, else only one that is
    not over.
    """
    steps, losses = _finite(steps, losses)
    jump = _jump(losses, limits)
    if jump is not None and len(losses) - jump.began < limits.diverged_steps:
        return [_risen(Cause.LOSS_SPIKE, "jumped", steps, jump)]
    rise = jump or _slow_rise(losses, limits)
    if rise is not None:
        return [_risen(Cause.LOSS_DIVERGENCE, "has diverged", steps, rise)]
    if lately is not None:
        over = _over(losses, int(np.searchsorted(steps, lately)), limits)
        if over is not None:
            return [_risen(Cause.LOSS_SPIKE, "jumped", steps, over)]
    return _plateau(steps, losses, limits)


def _finite(steps: Integers, losses: Vector) -> tuple[Integers, Vector]:
    """Those of which the loss is finite; views where it is of all but the newest, as nearly always.

    Losses 2.0, 1.9, NaN: the first two. To pick them one by one takes as long as all detectors.
    """
    finite = np.isfinite(losses)
    count = int(np.count_nonzero(finite))
    if finite[:count].all():
        return steps[:count], losses[:count]
    return steps[finite], losses[finite]


def _over(losses: Vector, first: int, limits: Thresholds) -> Rise | None:
    """The newest jump whose last step is the one at index `first` or later, and not the newest.

    Worked example: usually 2.0, of the steps from `first` on 2.1, 9.0, 9.2, 2.0 -> the jump of the
    two steps before the last.
    """
    usual = median(losses[max(0, first - limits.history_steps) :]) if len(losses) else 0.0
    is_high = losses[first:] > usual + limits.spike_ratio * abs(usual)
    ends = first + 1 + np.flatnonzero(is_high[:-1] & ~is_high[1:])
    jumps = (_jump(losses[:end], limits) for end in ends[::-1].tolist())
    return next((jump for jump in jumps if jump is not None), None)


def _jump(losses: Vector, limits: Thresholds) -> Rise | None:
    """The longest run of newest steps that lie above the steps before it."""
    length = limits.history_steps
    longest = min(length, len(losses) - length)
    if longest < limits.huge_steps:
        return None
    recent = losses[len(losses) - longest - length : -1].astype(np.float64)
    # Row k - 1 is what came before the newest k steps.
    history = np.lib.stride_tricks.sliding_window_view(recent, length)[::-1]
    counts = _may_be_up(losses, history, limits)
    if not len(counts):
        return None
    levels, noise = np.median(history[counts - 1], axis=1), _noise(history[counts - 1])
    candidates = zip(counts.tolist(), levels.tolist(), noise.tolist(), strict=True)
    for count, usual, scatter in candidates:
        tail = losses[-count:]
        if _is_up(tail, history[count - 1], usual, scatter, limits):
            began = len(losses) - count
            return Rise(began, len(losses), usual, float(np.median(tail)), scatter)
    return None


def _may_be_up(losses: Vector, history: Matrix, limits: Thresholds) -> Integers:
    """How many newest steps may lie above the usual of those `history` (longest, steps) the newest
    1, 2, 3 ...; the most first.

    Above the usual by whatever noise, all lie above the usual that must: the first of them, and the
    newest three. Above the median lies only what is above half of the others. So medians are
    taken, and the noise is measured, of few, or none.
    """
    newest = losses[: -len(history) - 1 : -1]
    lowest = np.minimum.accumulate(newest)
    lowest[3:] = lowest[2:3]
    least = np.minimum(newest, lowest)
    below = np.count_nonzero(history < least[:, None], axis=1)
    counts: Integers = np.flatnonzero(2 * below >= history.shape[1]) + 1
    counts = counts[counts >= limits.huge_steps][::-1]
    if not len(counts):
        return counts
    return counts[least[counts - 1] > np.median(history[counts - 1], axis=1)]


def _is_up(tail: Vector, history: Vector, usual: float, noise: float, limits: Thresholds) -> bool:
    """Whether the newest steps lie above the usual, and above what was reached there lately."""
    few = len(tail) < limits.spike_steps
    errors = limits.huge_errors if few else limits.spike_errors
    ratio = limits.huge_ratio if few else limits.spike_ratio
    over = tail > usual + max(errors * noise, ratio * abs(usual))
    enough = over.all() if few else over.mean() >= 0.8 and over[-3:].all()
    width = 1 if few else limits.spike_steps
    reached = np.convolve(history, np.full(width, 1.0 / width), mode="valid").max()
    return bool(over[0] and enough and np.median(tail) > reached)


def _noise(rows: Matrix) -> Vector:
    """Spread of single steps in each row: around its median or between neighbours."""
    around = np.median(np.abs(rows - np.median(rows, axis=1, keepdims=True)), axis=1)
    changes = np.median(np.abs(np.diff(rows, axis=1)), axis=1) / math.sqrt(2)
    noise: Vector = TO_DEVIATION * np.maximum(around, changes)
    return noise


def _slow_rise(losses: Vector, limits: Thresholds) -> Rise | None:
    """Blocks that rise without exception to far above the best one."""
    length = limits.block_steps
    count = len(losses) // length
    if count < limits.least_blocks:
        return None
    blocks = losses[-count * length :].reshape(count, length)
    if not (np.diff(np.median(blocks[-limits.rising_blocks :], axis=1)) > 0).all():
        return None  # a look at a few blocks, which is nearly always enough
    levels = np.median(blocks, axis=1)
    best = int(np.argmin(levels))
    noise = float(np.median(_noise(blocks[-limits.least_blocks :])))
    error = _ERROR_OF_MEDIAN * noise / math.sqrt(length)
    is_far = levels[-1] - levels[best] > max(
        limits.rise_errors * error, limits.rise_ratio * abs(levels[best])
    )
    if not is_far:
        return None
    began = len(losses) - (count - best - 1) * length
    return Rise(began, len(losses), float(levels[best]), float(levels[-1]), noise)


def _risen(cause: Cause, verb: str, steps: Integers, rise: Rise) -> Finding:
    first = int(steps[rise.began])
    errors = (rise.now - rise.baseline) / rise.noise if rise.noise > 0 else math.inf
    when, recovery = f"since step {first}", ""
    if rise.ended < len(steps):
        when = f"in steps {first} to {steps[rise.ended - 1]}"
        recovery = f"; since step {steps[rise.ended]} it is back"
    summary = f"the loss {verb} {when}: {rise.now:.4g}, baseline {rise.baseline:.4g}{recovery}"
    evidence = (
        Evidence("loss of the job", rise.now, "loss", f"before step {first} {rise.baseline:.4g}"),
        Evidence("rise over the noise of a step", errors, "ratio", f"noise {rise.noise:.3g}"),
    )
    return _finding(
        cause=cause,
        summary=summary,
        first=first,
        severity=rise.now - rise.baseline,
        evidence=evidence,
    )


def _plateau(steps: Integers, losses: Vector, limits: Thresholds) -> list[Finding]:
    """A loss that fell and falls no more."""
    length = limits.plateau_steps
    if len(losses) < 2 * length:
        return []
    quarters = np.median(losses[-2 * length :].reshape(4, -1), axis=1)
    descent, lately = (quarters[[0, 2]] - quarters[[1, 3]]) / np.abs(quarters[[0, 2]])
    if not (descent >= limits.descent_ratio and abs(lately) < limits.plateau_ratio):
        return []
    first = int(steps[-length])
    summary = (
        f"the loss has not fallen since step {first}: {quarters[3]:.4g}, "
        f"in the steps before it fell by {descent:.1%}"
    )
    against = f"{100 * descent:.3g} percent in as many steps before"
    fall = 100 * float(lately)
    evidence = (Evidence(f"fall over {length} steps", fall, "percent", against),)
    return [
        _finding(
            cause=Cause.LOSS_PLATEAU,
            summary=summary,
            first=first,
            severity=0.0,
            evidence=evidence,
        )
    ]


def _finding(
    cause: Cause, summary: str, first: int, severity: float, evidence: tuple[Evidence, ...]
) -> Finding:
    return build_finding(
        kind=FindingKind.LOSS_ANOMALY,
        cause=cause,
        summary=summary,
        began_step=first,
        severity=severity,
        evidence=evidence,
    )
