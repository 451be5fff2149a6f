"""Loss anomaly: the job's loss jumps, keeps rising, or has long stopped falling.

Noise is measured on the run itself. Non-finite values are left out: another detector reports them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.statistics.medians import TO_DEVIATION, median
from stepwatch.signals.arrays import Integers, Matrix, Vector
from stepwatch.signals.names import Cause, FindingKind

_ERROR_OF_MEDIAN = 1.2533
"""Standard error of a median over that of a mean, for normal noise."""
FEWEST_STEPS = 2
"""Steps of the shortest spike: one is a bad batch."""


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for an unhealthy loss."""

    spike_steps: int = 5
    """Steps: in a spike, four in five of this many newest are above the earlier median. Single bad
    batches raise nothing. Fewer steps, from two on, must be this many times as high.
    """
    least_errors: float = 6.0
    """Times the noise: how far a spike's steps are above the median. For a slow divergence it is
    the noise of the difference between the newest block and the best one.
    """
    least_ratio: float = 0.2
    """Share: the same as a part of the loss, which is no noise."""
    block_steps: int = 32
    """Steps: a block whose median counts in a slow divergence. Two blocks before an onset define
    the usual loss: less may be the steep descent at a start. A loss that stays up for a block has
    not spiked but diverged.
    """
    rising_blocks: int = 4
    """Blocks: in a slow divergence the newest ones rise without exception, after at least as many
    others.
    """
    rate_ratio: float = 2.0
    """Times: a rise of the learning rate in one step, at most a block before the onset, that is
    named as its reason. Schedules rise by less once the first steps are over. It takes no other
    number away: none tells a mistake from a schedule.
    """
    plateau_steps: int = 5000
    """Steps: a plateau's length, and the length before it in which the loss fell."""
    plateau_ratio: float = 0.001
    """Share: on a plateau the loss falls by less."""
    descent_ratio: float = 0.02
    """Share: before a plateau the loss fell by at least this. Power-law descent slows down
    gradually and never looks like that.
    """

    @property
    def history_steps(self) -> int:
        """Return the number of steps before an onset that define the usual loss."""
        return 2 * self.block_steps


LIMITS = Thresholds()
"""The shipped thresholds."""


class Rise(NamedTuple):
    """A period in which the loss left its usual level.

    `began` and `ended` are the indices of its first step and of the first step after it. `baseline`
    and `now` are the levels before and in the period, and `noise` is a single step's noise.
    """

    began: int
    ended: int
    baseline: float
    now: float
    noise: float


def detect(
    steps: Integers, losses: Vector, limits: Thresholds, lately: int | None = None
) -> list[Finding]:
    """Return at most one finding on the job's loss.

    `losses` holds the loss for each of `steps`, NaN if unknown. A completed spike is found only if
    it ended in step `lately` or later; by default only a spike in progress is found.
    """
    steps, losses = _finite(steps, losses)
    jump = _jump(losses, limits)
    if jump is not None and len(losses) - jump.began < limits.block_steps:
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
    """Return the steps with finite losses.

    The result consists of views if only the newest losses are not finite, as nearly always: 2.0,
    1.9, NaN -> the first two. Copying would take as long as all detectors together.
    """
    finite = np.isfinite(losses)
    count = int(np.count_nonzero(finite))
    if finite[:count].all():
        return steps[:count], losses[:count]
    return steps[finite], losses[finite]


def _over(losses: Vector, first: int, limits: Thresholds) -> Rise | None:
    """Return the newest jump whose last step is at index `first` or later, and not the newest step.

    Worked example: the usual loss is 2.0 and the steps from `first` have 2.1, 9.0, 9.2, 2.0. The
    result is the jump in the two steps before the last.
    """
    usual = median(losses[max(0, first - limits.history_steps) :]) if len(losses) else 0.0
    is_high = losses[first:] > usual + limits.least_ratio * abs(usual)
    ends = first + 1 + np.flatnonzero(is_high[:-1] & ~is_high[1:])
    jumps = (_jump(losses[:end], limits) for end in ends[::-1].tolist())
    return next((jump for jump in jumps if jump is not None), None)


def _jump(losses: Vector, limits: Thresholds) -> Rise | None:
    """Return the longest run of newest steps above the steps before it."""
    length = limits.history_steps
    longest = min(length, len(losses) - length)
    if longest < FEWEST_STEPS:
        return None
    recent = losses[len(losses) - longest - length : -1].astype(np.float64)
    # Row k - 1 holds the history before the newest k steps.
    history = np.lib.stride_tricks.sliding_window_view(recent, length)[::-1]
    counts = _may_be_up(losses, history, limits)
    if not len(counts):
        return None
    levels, noise = np.median(history[counts - 1], axis=1), noise_of(history[counts - 1])
    candidates = zip(counts.tolist(), levels.tolist(), noise.tolist(), strict=True)
    for count, usual, scatter in candidates:
        tail = losses[-count:]
        if _is_up(tail, history[count - 1], usual, scatter, limits):
            began = len(losses) - count
            return Rise(began, len(losses), usual, float(np.median(tail)), scatter)
    return None


def _may_be_up(losses: Vector, history: Matrix, limits: Thresholds) -> Integers:
    """Return how many newest steps may be above the usual loss, the largest counts first.

    `history` (longest, steps) holds the losses before the newest 1, 2, 3 ... steps. In a jump, the
    first step and the newest three must be above the usual loss by any noise, and a loss above the
    median is above half of the others. This limits medians and noise to few rows, or none.
    """
    newest = losses[: -len(history) - 1 : -1]
    lowest = np.minimum.accumulate(newest)
    lowest[3:] = lowest[2:3]
    least = np.minimum(newest, lowest)
    below = np.count_nonzero(history < least[:, None], axis=1)
    counts: Integers = np.flatnonzero(2 * below >= history.shape[1]) + 1
    counts = counts[counts >= FEWEST_STEPS][::-1]
    if not len(counts):
        return counts
    return counts[least[counts - 1] > np.median(history[counts - 1], axis=1)]


def _is_up(tail: Vector, history: Vector, usual: float, noise: float, limits: Thresholds) -> bool:
    """Return whether the newest steps are above the usual loss, and above its recent maximum."""
    few = len(tail) < limits.spike_steps
    height = limits.spike_steps if few else 1
    least = max(limits.least_errors * noise, limits.least_ratio * abs(usual))
    over = tail > usual + height * least
    enough = over.all() if few else over.mean() >= 0.8 and over[-3:].all()
    width = 1 if few else limits.spike_steps
    reached = np.convolve(history, np.full(width, 1.0 / width), mode="valid").max()
    return bool(over[0] and enough and np.median(tail) > reached)


def noise_of(rows: Matrix) -> Vector:
    """Return the spread of single steps in each row: around its median, or between neighbours."""
    around = np.median(np.abs(rows - np.median(rows, axis=1, keepdims=True)), axis=1)
    changes = np.median(np.abs(np.diff(rows, axis=1)), axis=1) / math.sqrt(2)
    noise: Vector = TO_DEVIATION * np.maximum(around, changes)
    return noise


def _slow_rise(losses: Vector, limits: Thresholds) -> Rise | None:
    """Return a rise in which block after block rises to far above the best one."""
    length = limits.block_steps
    count = len(losses) // length
    fewest = 2 * limits.rising_blocks
    if count < fewest:
        return None
    blocks = losses[-count * length :].reshape(count, length)
    if not (np.diff(np.median(blocks[-limits.rising_blocks :], axis=1)) > 0).all():
        return None  # a look at a few blocks, which is nearly always enough
    levels = np.median(blocks, axis=1)
    best = int(np.argmin(levels))
    noise = float(np.median(noise_of(blocks[-fewest:])))
    error = _ERROR_OF_MEDIAN * noise * math.sqrt(2 / length)
    is_far = levels[-1] - levels[best] > max(
        limits.least_errors * error, limits.least_ratio * abs(levels[best])
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
        when = f"since step {first} until step {steps[rise.ended - 1]}"
        recovery = f"; since step {steps[rise.ended]} it is back"
    summary = f"the loss {verb} {when}: {rise.now:.4g}, baseline {rise.baseline:.4g}{recovery}"
    was = f"before step {first} {rise.baseline:.4g}"
    evidence = (
        Evidence("loss of the job", rise.now, "loss", was, reference=rise.baseline),
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
    """Return the finding on a loss that fell and no longer falls."""
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
