"""The learning rate: warm-up, cosine decay and scaling with the batch."""

from __future__ import annotations

import math

from stepwatch.trainer.config.options import OptimizerOptions


def peak_rate(options: OptimizerOptions, batch: int) -> float:
    """Return the peak learning rate for `batch` sequences per step.

    Linear scaling: https://arxiv.org/abs/1706.02677. Square root, usual for Adam:
    https://arxiv.org/abs/2205.10287.
    """
    ratio = batch / options.reference_batch
    scale = {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}[options.lr_scaling]
    return options.lr * scale


def rate_at(step: int, steps: int, options: OptimizerOptions, batch: int) -> float:
    """Return the learning rate for `step` (from 0) in a run with `steps` steps."""
    peak = peak_rate(options, batch)
    if step < options.warmup:
        return peak * (step + 1) / options.warmup
    span = max(1, steps - options.warmup)
    progress = min(1.0, (step - options.warmup) / span)
    floor = options.final_lr
    return peak * (floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress)))
