"""Reasons for a loss that rises: a changed learning rate, or one rank's data.

A reason is named only if its change lies at the onset. All other numbers are evidence.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.loss_anomaly.detector import Thresholds, noise_of
from stepwatch.collector.detect.recorded_numbers import RATE, metric_index
from stepwatch.collector.quantities import times
from stepwatch.collector.state.trackers.metrics.metrics import Metrics
from stepwatch.signals.arrays import Mask, Matrix
from stepwatch.signals.names import Cause
from stepwatch.signals.phrases import ranks_text

RISEN = (Cause.LOSS_SPIKE, Cause.LOSS_DIVERGENCE)


def with_reason(context: DetectionContext, finding: Finding, limits: Thresholds) -> Finding:
    """Return the finding with its reason as cause and in the summary, if the records show one."""
    if finding.cause not in RISEN:
        return finding
    for cause, reason in (
        (Cause.LEARNING_RATE, learning_rate_reason(context, finding, limits)),
        (Cause.DATA_SHARD, _data_shard(context, finding, limits)),
    ):
        if reason:
            return finding._replace(cause=cause, summary=f"{finding.summary}; {reason}")
    return finding


def learning_rate_reason(context: DetectionContext, finding: Finding, limits: Thresholds) -> str:
    """Return the largest rise of the learning rate shortly before the onset; empty without one.

    The onset of a slow divergence is known to a block.
    """
    index = metric_index(context, RATE)
    if index is None:
        return ""
    slack = limits.block_steps
    until = finding.began_step + (slack if finding.cause is Cause.LOSS_DIVERGENCE else 0)
    steps, rates = context.attempt.tracker(Metrics).newest(index, until)
    near = np.flatnonzero((steps[1:] >= finding.began_step - slack) & (rates[:-1] > 0))
    if not len(near):
        return ""
    rises = rates[near + 1] / rates[near]
    place = near[int(np.argmax(rises))]
    if not rises.max() >= limits.rate_ratio:
        return ""
    return (
        f"the learning rate is {times(float(rises.max()))} from step {steps[place + 1]} on: "
        f"{rates[place + 1]:.4g}, before it {rates[place]:.4g}"
    )


def _data_shard(context: DetectionContext, finding: Finding, limits: Thresholds) -> str:
    """Return the shard with which the loss of its ranks alone rose; empty without one.

    Ranks 0 to 3 read shards 0 to 3; rank 2 reads shard 7 from step 70 on. Its loss rises in step
    70, and that of most others does not: shard 7 from step 70 on.
    """
    window, newest = context.window, finding.began_step
    shards, since, previous = context.attempt.tracker(Metrics).rank_values.held("shard", newest)
    ranks = min(len(shards), len(window.stage))
    is_fresh = np.isfinite(previous[:ranks]) & (since[:ranks] > newest - limits.block_steps)
    losses: Matrix = window.planes["loss"].astype(np.float64)
    for step in np.unique(since[:ranks][is_fresh]).tolist():
        place = int(np.searchsorted(window.steps, step))
        if place < limits.block_steps or place == len(window.steps):
            continue
        up = _is_up(losses[:place], losses[place:], limits)
        for shard in np.unique(shards[:ranks][is_fresh & (since[:ranks] == step)]).tolist():
            readers = np.zeros(len(up), dtype=np.bool_)
            readers[:ranks] = (shards[:ranks] == shard) & np.isfinite(losses[place, :ranks])
            others = ~readers & np.isfinite(losses[place])
            if not readers.any() or not others.any():
                continue
            if up[readers].all() and 2 * np.count_nonzero(up & others) < np.count_nonzero(others):
                where = ranks_text(np.flatnonzero(readers))
                return (
                    f"data shard {shard:.9g}, from step {step} on in {where} alone, raises the "
                    "loss there and not in most other ranks"
                )
    return ""


def _is_up(before: Matrix, after: Matrix, limits: Thresholds) -> Mask:
    """Return the ranks (ranks,) whose loss rose in the first of the steps after, and stayed up."""
    usual, noise = np.median(before, axis=0), noise_of(before.T)
    over = usual + np.maximum(limits.least_errors * noise, limits.least_ratio * np.abs(usual))
    with np.errstate(invalid="ignore"):
        up: Mask = (after[0] > over) & (np.nanmedian(after, axis=0) > over)
    return up
