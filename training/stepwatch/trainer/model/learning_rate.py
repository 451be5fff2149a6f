"""The learning rate: warm-up and cosine decay."""

from __future__ import annotations

import math

from stepwatch.trainer.config.options import OptimizerOptions


def rate_at(step: int, steps: int, options: OptimizerOptions) -> float:
    """Return the learning rate for `step` (from 0) in a run with `steps` steps."""
    peak = options.lr
    if step < options.warmup:
        return peak * (step + 1) / options.warmup
    span = max(1, steps - options.warmup)
    progress = min(1.0, (step - options.warmup) / span)
    floor = options.final_lr
    return peak * (floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress)))
