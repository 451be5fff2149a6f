"""Whether the loss continues across a resume: its level before and after, against its own noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.loss_anomaly.detector import Thresholds, noise_of
from stepwatch.collector.statistics.medians import median
from stepwatch.signals.arrays import Vector


class LossAcross(NamedTuple):
    """The loss before and after a resume, medians; None if unknown."""

    before: float | None
    after: float | None
    continued: bool | None


def loss_across(before: Vector, after: Vector, first: Vector, limits: Thresholds) -> LossAcross:
    """Return the loss before and after a resume, and whether it continued.

    `before` (steps,) are the losses before the resume, `after` those of its first steps, `first`
    those of the job's first steps. A loss continued unless it rose by more than the spike
    thresholds allow for its noise. It is unknown with fewer steps than two spikes before or one
    after, and while a return to the job's first losses would not be seen.
    """
    length = limits.spike_steps
    level, now = median(before[-length:]), median(after[:length])
    levels = _known(level), _known(now)
    if len(before) < 2 * length or len(after) < length or len(first) < length:
        return LossAcross(*levels, None)
    highest = level + limits.least_errors * _noise(before[-limits.history_steps :])
    if now > highest:
        return LossAcross(*levels, False)
    return LossAcross(*levels, True if median(first[:length]) > highest else None)


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _noise(losses: Vector) -> float:
    """Return the noise of a step around a line: at a start the loss falls by more than its noise.

    The line's slope is the median of those between all pairs of steps (Theil 1950, Sen 1968).
    """
    steps = np.arange(len(losses))
    one, other = np.triu_indices(len(losses), 1)
    slope = np.median((losses[other] - losses[one]) / (steps[other] - steps[one]))
    return float(noise_of((losses - slope * steps)[None])[0])
