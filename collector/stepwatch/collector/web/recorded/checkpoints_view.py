"""A job's checkpoints as one JSON object: their states, and what a resume now would lose."""

from __future__ import annotations

import math

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts, job_facts
from stepwatch.collector.slo.over_run.slis.checkpoints.saving import verified_age
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.checkpoints import Checkpoint
from stepwatch.collector.web.job_view import job_line
from stepwatch.collector.web.schema.recorded import CheckpointLine, JobCheckpoints

MOST_SHOWN = 200
"""Maximum number of checkpoints per answer: the newest steps."""


def job_checkpoints(job: LiveJob, verdicts: Verdicts, now: float) -> JobCheckpoints:
    """Return the checkpoints, newest first, and the recovery point.

    `recovery` has the newest good checkpoint's `step`, and the `steps` and `seconds` of work since;
    an unknown value is null with the `reason`.
    """
    line = job_line(job, verdicts, now)
    newest = job.checkpoints()[::-1]
    good = next((item for _, item in newest if item.is_good), None)
    age = verified_age(job_facts(job, verdicts, now))
    steps = None if good is None or line["step"] is None else max(0, line["step"] - good.step)
    return {
        "job": line["job"],
        "attempt": line["attempt"],
        "state": line["state"],
        "step": line["step"],
        "open_incidents": line["open_incidents"],
        "slos": [],
        "recovery": {
            "step": None if good is None else good.step,
            "steps": steps,
            "seconds": None if math.isnan(age.value) else age.value,
            "reason": age.unknown,
        },
        "left_out": max(0, len(newest) - MOST_SHOWN),
        "checkpoints": [_document(*entry, now) for entry in newest[:MOST_SHOWN]],
    }


def _document(attempt: Attempt, item: Checkpoint, now: float) -> CheckpointLine:
    state, reason = checkpoint_state(attempt, item)
    return {
        "step": item.step,
        "attempt": attempt.number,
        "state": state,
        "reason": reason,
        "file": item.file,
        "path": item.path,
        "saved_at": item.saved_s,
        "age_seconds": None if item.saved_s is None else max(0.0, now - item.saved_s),
        "size_bytes": item.size_bytes,
        "stall_seconds": item.stall_seconds,
        "durable_seconds": item.durable_seconds,
    }


def checkpoint_state(attempt: Attempt, item: Checkpoint) -> tuple[str, str]:
    """Return a checkpoint's state and the reason for it; unknown is neither good nor bad."""
    saving = attempt.checkpoints.in_flight.newest.get(item.step)
    if item.is_removed:
        return "removed", ""
    if item.verified:
        return "verified", ""
    if item.is_damaged or item.is_rejected:
        return "damaged", item.reason
    if item.verified is False:
        return "failed", item.reason
    if item.unknown:
        return "unknown", item.unknown
    if saving is not None and saving.in_progress:
        return "writing", ""
    return "written", "not verified yet" if item.path else "no path was reported"
