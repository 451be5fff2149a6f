"""Success of the job, and of each attempt."""

from __future__ import annotations

from stepwatch.collector.job_states import FAILED, FINISHED, INTERRUPTED
from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown
from stepwatch.collector.statistics.intervals import share_interval


def job_success(facts: JobFacts) -> Reading:
    """Measure 1 once it finished, 0 once it failed; resubmissions do not count again."""
    if facts.state == FINISHED:
        return Reading(1.0, events=1)
    if facts.state == FAILED:
        return Reading(0.0, events=1)
    if facts.state == INTERRUPTED:
        return unknown("it was stopped by hand: that is neither success nor failure")
    return unknown("it has not ended")


def attempt_success(facts: JobFacts) -> Reading:
    """Measure finished attempts among the finished or failed ones."""
    finished = sum(run.outcome.finished for run, _ in facts.runs)
    ended = finished + sum(run.outcome.failed for run, _ in facts.runs)
    if not ended:
        return unknown("no attempt has finished or failed")
    low, high = share_interval(finished, ended)
    return Reading(finished / ended, ended, low, high, f"{finished} of {ended} attempts")


SLIS = (
    RunSli(
        name="job-success",
        mission="M1",
        what="whether the job finished, however many attempts it took",
        formula="1 if finished, 0 if failed; of a class: finished / (finished + failed)",
        unit="ratio",
        weight="jobs",
        expected="0.99 of a class",
        trap="few jobs: look at the interval, not at a ratio of three",
        needs="the ends that ranks report, or the agent's word that processes vanished",
        measure=job_success,
    ),
    RunSli(
        name="attempt-success",
        mission="M1",
        what="attempts that finished",
        formula="finished / (finished + failed)",
        unit="ratio",
        weight="attempts",
        expected="falls with size: a restart is normal, a redone day is not",
        trap="an attempt that was stopped by hand counts as neither",
        needs="the ends that ranks report",
        measure=attempt_success,
    ),
)
