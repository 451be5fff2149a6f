"""Gathers for the checkpoint stall detector."""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.detect import checkpoint_stall
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.checkpoints_in_flight import CheckpointInFlight
from stepwatch.collector.state.job import Attempt
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Phase

from .context import DetectionContext


def find_standing(context: DetectionContext) -> list[Finding]:
    """A save in which the job stands still now."""
    return [item for item in _found(context) if item.lost_ratio == 1.0]


def find(context: DetectionContext) -> list[Finding]:
    """A save that was slow, that failed, or that is one of too many."""
    return [item for item in _found(context) if item.lost_ratio < 1.0]


def _found(context: DetectionContext) -> list[Finding]:
    attempt = context.attempt
    saves = list(attempt.checkpoints_in_flight.newest.values())
    begun = [save for save in saves if (save.began_ns > 0).any() or not np.isnan(save.stall).all()]
    if not begun or attempt.gone:
        return []
    newest = begun[-1]
    return checkpoint_stall.detect(
        _saving(attempt, newest), _run(attempt, newest), checkpoint_stall.LIMITS
    )


def _saving(attempt: Attempt, save: CheckpointInFlight) -> checkpoint_stall.Saving:
    elapsed = _elapsed(attempt, save)
    lasts = elapsed > 0
    if not lasts and not np.isnan(save.stall).all():
        elapsed = float(np.nanmax(save.stall))
    ended_ago = max(0.0, attempt.newest_s - attempt.checkpoints_in_flight.ended_s)
    return checkpoint_stall.Saving(
        save.step,
        elapsed,
        elapsed if lasts else elapsed + ended_ago,
        math.nan if lasts else ended_ago,
        np.where(np.isnan(save.own), save.stall, save.own),
        int(save.failed.sum()),
        save.reason[0] if save.reason else "",
    )


def _elapsed(attempt: Attempt, save: CheckpointInFlight) -> float:
    """Longest time in seconds that a rank has stood in this save when its agent last looked.

    0 where none stands in it.
    """
    rows = attempt.ranks.rows[: len(save.stall)]
    stall, began = save.stall[: len(rows)], save.began_ns[: len(rows)]
    inside = np.isnan(stall) & (began > 0) & (rows["phase"] == Phase.CHECKPOINT)
    passed = rows["time_ns"].astype(np.int64)[inside] - began[inside]
    return int(passed.max(initial=0)) / NANOSECONDS


def _run(attempt: Attempt, newest: CheckpointInFlight) -> checkpoint_stall.Run:
    known = {step: item.stall_seconds for step, item in attempt.checkpoints.items()}
    stalls = {step: stall for step, stall in known.items() if stall is not None}
    earlier = [stall for step, stall in stalls.items() if step != newest.step]
    age = attempt.newest_s - attempt.began_s if attempt.began_s else 0.0
    return checkpoint_stall.Run(earlier, sum(stalls.values()), age, attempt.step_history.baseline())
