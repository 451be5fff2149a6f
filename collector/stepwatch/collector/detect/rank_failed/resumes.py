"""An attempt that ends before its first step after it loaded a checkpoint: its resume failed."""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import RESUME, Finding, text_evidence
from stepwatch.collector.state.restarts import loaded_save
from stepwatch.collector.state.trackers.checkpoints import Checkpoint
from stepwatch.signals.names import Cause


class _Source(NamedTuple):
    """The step that an attempt resumes from, and its checkpoint if that is known."""

    step: int
    checkpoint: Checkpoint | None


def with_resume(context: DetectionContext, finding: Finding) -> Finding:
    """Return the finding with the resume that failed: its step, the checkpoint and its state.

    A cause that the rank's last words name stays, and so does a process that is gone: facts about
    its node may explain it.
    """
    source = None if len(context.attempt.steps.history) else _source(context)
    if source is None:
        return finding
    path = source.checkpoint.path if source.checkpoint is not None else ""
    path = path or context.attempt.lifecycle.resumed_path
    place = f" ({path})" if path else ""
    return finding._replace(
        cause=Cause.FAILED_RESUME if finding.cause is Cause.EXCEPTION else finding.cause,
        subject=RESUME,
        summary=f"the resume from step {source.step}{place} failed: {finding.summary}",
        evidence=(
            *finding.evidence,
            text_evidence(
                "checkpoint", path or f"step {source.step}", _state_words(source.checkpoint)
            ),
        ),
    )


def _source(context: DetectionContext) -> _Source | None:
    """Return what the attempt resumes from; None if it reported no resume and loaded no save."""
    attempt = context.attempt
    runs = [run for run, _ in context.job.runs().values()]
    earlier = runs[: next(place for place, run in enumerate(runs) if run is attempt)]
    saved = loaded_save(attempt, earlier)
    if saved is not None:
        return _Source(saved.step, earlier[saved.place].checkpoints.by_step[saved.step])
    step = attempt.lifecycle.resumed_from
    if step is None:
        return None
    of_step = (run.checkpoints.by_step.get(step) for run in reversed(earlier))
    return _Source(step, next((item for item in of_step if item is not None), None))


def _state_words(checkpoint: Checkpoint | None) -> str:
    """Return the state of a checkpoint, with the reason why it is damaged."""
    if checkpoint is None:
        return "its save is not known"
    if checkpoint.is_removed:
        return "its files were deleted or replaced"
    if checkpoint.verified is False:
        file = f"{checkpoint.file}: " if checkpoint.file else ""
        return f"damaged: {file}{checkpoint.reason}"
    return "it verified" if checkpoint.verified else "not verified"
