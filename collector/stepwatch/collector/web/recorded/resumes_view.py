"""What each resume of a job continued, as JSON objects."""

from __future__ import annotations

from stepwatch.collector.analysis.resumes.data_order import DataOrder, data_order
from stepwatch.collector.analysis.resumes.earlier import Resume, first_losses, resumes_of
from stepwatch.collector.analysis.resumes.learning_rate import rate_continued
from stepwatch.collector.detect.loss_anomaly.detector import LIMITS
from stepwatch.collector.detect.loss_anomaly.resumes import loss_across
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.web.schema import recorded as schema

MOST_COMPARED = 32
"""Resumes per answer whose loss, learning rate and data are compared: the newest ones."""

_NOT_COMPARED: schema.Compared = {
    "loss_before": None,
    "loss_after": None,
    "loss_continued": None,
    "learning_rate_continued": None,
    "data_order": DataOrder.UNKNOWN.value,
}


def job_resumes(job: LiveJob) -> dict[int, schema.Resume]:
    """Return a resume's facts by attempt, for the attempts that resumed; null is unknown."""
    resumes = resumes_of(job)
    compared = {*sorted(resumes)[-MOST_COMPARED:]}
    return {number: _resume(item, number in compared) for number, item in resumes.items()}


def _resume(resume: Resume, is_compared: bool) -> schema.Resume:
    facts = _compared(resume) if is_compared else _NOT_COMPARED
    return {"step": resume.step, "path": resume.path, **facts}


def _compared(resume: Resume) -> schema.Compared:
    before = resume.losses_before(LIMITS.history_steps)
    first = first_losses(resume.oldest) if resume.oldest is not resume.attempt else before[:0]
    loss = loss_across(before, first_losses(resume.attempt), first, LIMITS)
    return {
        "loss_before": loss.before,
        "loss_after": loss.after,
        "loss_continued": loss.continued,
        "learning_rate_continued": rate_continued(resume),
        "data_order": data_order(resume).value,
    }
