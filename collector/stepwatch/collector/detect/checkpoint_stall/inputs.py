"""Inputs for the checkpoint stall detector."""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.checkpoints_in_flight import CheckpointInFlight
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Phase

from . import detector


def find_in_progress(context: DetectionContext) -> list[Finding]:
    """Return findings on a checkpoint for which the training loop waits too long now."""
    newest = context.once(_newest)
    if newest is None:
        return []
    return detector.detect_in_progress(*newest, context.thresholds(detector.LIMITS))


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on a checkpoint that was slow, that failed, or that is one too many."""
    newest = context.once(_newest)
    limits = context.thresholds(detector.LIMITS)
    return [] if newest is None else detector.detect(*newest, limits)


def _newest(context: DetectionContext) -> tuple[detector.Saving, detector.Run] | None:
    """Return the newest started checkpoint and its comparison history; None once a rank is lost."""
    attempt = context.attempt
    saves = list(attempt.checkpoints.in_flight.newest.values())
    begun = [save for save in saves if (save.began_ns > 0).any() or not np.isnan(save.stall).all()]
    if not begun or attempt.outcome.gone:
        return None
    return _saving(attempt, begun[-1]), _run(attempt, begun[-1])


def _saving(attempt: Attempt, save: CheckpointInFlight) -> detector.Saving:
    elapsed = _elapsed(attempt, save)
    lasts = elapsed > 0
    if not lasts and not np.isnan(save.stall).all():
        elapsed = float(np.nanmax(save.stall))
    ended_ago = max(0.0, attempt.steps.newest_s - attempt.checkpoints.in_flight.ended_s)
    return detector.Saving(
        step=save.step,
        elapsed=elapsed,
        began_ago=elapsed if lasts else elapsed + ended_ago,
        ended_ago=math.nan if lasts else ended_ago,
        rank_seconds=np.where(np.isnan(save.self_seconds), save.stall, save.self_seconds),
        failed=int(save.failed.sum()),
        reason=save.reason[0] if save.reason else "",
        saves=tuple(
            np.where(np.isnan(checkpoint.self_seconds), checkpoint.stall, checkpoint.self_seconds)
            for checkpoint in attempt.checkpoints.in_flight.newest.values()
            if not np.isnan(checkpoint.stall).any()
        ),
    )


def _elapsed(attempt: Attempt, save: CheckpointInFlight) -> float:
    """Return a rank's longest wait in this checkpoint at its agent's newest poll, in seconds.

    The result is 0 if no rank waits in it.
    """
    rows = attempt.ranks.rows[: len(save.stall)]
    stall, began = save.stall[: len(rows)], save.began_ns[: len(rows)]
    inside = np.isnan(stall) & (began > 0) & (rows["phase"] == Phase.CHECKPOINT)
    passed = rows["time_ns"].astype(np.int64)[inside] - began[inside]
    return int(passed.max(initial=0)) / NANOSECONDS


def _run(attempt: Attempt, newest: CheckpointInFlight) -> detector.Run:
    stalls_by_step = {
        step: item.stall_seconds for step, item in attempt.checkpoints.by_step.items()
    }
    stalls = {step: stall for step, stall in stalls_by_step.items() if stall is not None}
    earlier = [stall for step, stall in stalls.items() if step != newest.step]
    age = attempt.steps.newest_s - attempt.lifecycle.began_s if attempt.lifecycle.began_s else 0.0
    return detector.Run(earlier, sum(stalls.values()), age, attempt.steps.history.baseline())
