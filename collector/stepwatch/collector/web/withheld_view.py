"""A known job that is not evaluated, with an evaluated job's keys: unknown values are null."""

from __future__ import annotations

from typing import Any

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.live import Withheld
from stepwatch.collector.web import job_view


def line(name: str, why: Withheld) -> dict[str, Any]:
    """Return the job's list entry: `state`, `reason`, and `since`."""
    return {**job_view.job_line(_unknown(name), Verdicts(), why.since_s), **_about(why)}


def summary(name: str, why: Withheld) -> dict[str, Any]:
    """Return the job's summary; its incidents are in the store."""
    document = job_view.job_summary(_unknown(name), Verdicts(), why.since_s)
    return {**document, **_about(why), "attempts": []}


def _unknown(name: str) -> LiveJob:
    """Return a job without any records."""
    job = LiveJob(name)
    job.attempts[0] = Attempt(0)
    return job


def _about(why: Withheld) -> dict[str, Any]:
    unknown = dict.fromkeys(("attempt", "newest_record_at", "open_incidents"))
    about = {"state": why.state, "reason": why.reason, "since": why.since_s}
    return {**unknown, **about, "as_of": None}
