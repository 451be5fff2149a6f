"""Interruptions: preemptions, requeues, failures, resumes and recovery time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from stepwatch.collector.quantities import seconds
from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown
from stepwatch.collector.state.restarts import is_resume
from stepwatch.collector.statistics.intervals import poisson_interval, share_interval
from stepwatch.signals.records import LifecycleEvent, StepFlag

_DAY = 86_400.0
_LEAST_DAYS = 10.0
"""Device-days below which a rate per 1,000 of them is meaningless: a hundredth of the unit."""


def preemptions(facts: JobFacts) -> Reading:
    """Count the attempts in which a rank was asked to stop."""
    preempted = sum(
        any(fact.event is LifecycleEvent.PREEMPTION for fact in run.lifecycle.events)
        for run, _ in facts.runs
    )
    return Reading(float(preempted), preempted)


def requeue_rate(facts: JobFacts) -> Reading:
    """Measure the share of attempts that restarted the job."""
    count = len(facts.runs)
    return Reading((count - 1) / count, count, detail=f"{count - 1} of {count} attempts")


def resume_success(facts: JobFacts) -> Reading:
    """Measure the share of resumed attempts that made a step.

    An attempt that has just begun counts for neither.
    """
    runs = [run for run, _ in facts.runs]
    resumed = [run for place, run in enumerate(runs) if is_resume(run, runs[:place])]
    reached = sum(len(run.steps.history) > 0 for run in resumed)
    failed = sum(
        not len(run.steps.history) and (run.outcome.failed or run.outcome.is_over)
        for run in resumed
    )
    tried = reached + failed
    if not tried:
        return unknown("no attempt has resumed")
    low, high = share_interval(reached, tried)
    return Reading(reached / tried, tried, low, high, f"{reached} of {tried} resumes")


def interruptions(facts: JobFacts) -> Reading:
    """Measure failed attempts per 1,000 allocated device-days."""
    days = facts.allocated / _DAY
    if not days > 0:
        return unknown("no device-time is accounted yet")
    count = sum(run.outcome.failed for run, _ in facts.runs)
    if days < _LEAST_DAYS:
        counted = f"{count} in {seconds(facts.allocated)} of device-time"
        return unknown(f"too early: {counted}, a rate needs {_LEAST_DAYS:.0f} device-days")
    low, high = poisson_interval(count)
    scale = 1000.0 / days
    return Reading(count * scale, count, low * scale, high * scale, f"{count} in {days:.3g} days")


def recovery_time(facts: JobFacts) -> Reading:
    """Measure the mean seconds from the last step before an interruption to the next one."""
    gaps = [gap for gap in _gaps(facts) if gap >= 0]
    if not gaps:
        return unknown("no attempt has followed another one with steps")
    return Reading(
        sum(gaps) / len(gaps), len(gaps), detail=f"longest {max(gaps):.1f} s of {len(gaps)}"
    )


def _gaps(facts: JobFacts) -> Iterator[float]:
    ends = [
        (float(attempt.steps.end_s[0]), float(attempt.steps.end_s[-1]))
        for attempt in facts.attempts.values()
        if len(attempt.steps.end_s)
    ]
    return (later[0] - earlier[1] for earlier, later in pairwise(ends))


def lost_steps(facts: JobFacts) -> Reading:
    """Count the finished steps that were done again, over all attempts."""
    if facts.job.redone_unknown:
        return unknown("an attempt counts from step 0 again, from a checkpoint that is not known")
    lost = 0
    for run, redone_from in facts.runs:
        history = run.steps.history
        if redone_from is not None and len(history):
            finished = history.rows["flags"] & StepFlag.UNFINISHED == 0
            finished &= history.rows["reported"] > 0
            lost += max(0, history.held_from - max(redone_from, history.first))
            lost += int(np.count_nonzero(finished & (history.steps >= redone_from)))
    return Reading(float(lost), lost)


SLIS = (
    RunSli(
        name="preemptions",
        mission="M10",
        what="attempts in which a rank was asked to stop",
        formula="attempts with a SIGTERM that a hook saw",
        unit="events",
        weight="attempts",
        expected="as few as the contract of the capacity allows",
        trap="a scheduler that kills at once leaves no word: that is a failure here",
        needs="the hooks' preemption records",
        measure=preemptions,
    ),
    RunSli(
        name="resume-success",
        mission="M11",
        what="resumes that reach the next step",
        formula="resumed attempts with a step / resumed attempts that made one or failed",
        unit="ratio",
        weight="resumes",
        expected="1",
        trap="few events: look at the interval",
        needs="a first step beyond 1, Watch.resumed, or a load of a known save; and steps",
        measure=resume_success,
    ),
    RunSli(
        name="requeue-rate",
        mission="M15",
        what="attempts beyond the first",
        formula="(attempts - 1) / attempts",
        unit="ratio",
        weight="attempts",
        expected="low",
        trap="it masks systemic faults: look at why attempts ended",
        needs="attempts",
        measure=requeue_rate,
    ),
    RunSli(
        name="interruptions",
        mission="",
        what="failed attempts, for every 1,000 device-days",
        formula="1000 x failed attempts / device-days, with the Poisson interval (Garwood 1936)",
        unit="events per 1,000 device-days",
        weight="device-time",
        expected="Llama 3 saw 419 in 54 days of 16,384 GPUs: 0.47 (arXiv:2407.21783)",
        trap="below 10 device-days it is unknown: few failures in little time are not a rate",
        needs="ends, and accounts",
        measure=interruptions,
    ),
    RunSli(
        name="recovery-time",
        mission="",
        what="from the last step before an interruption to the first step after it",
        formula="mean over restarts",
        unit="seconds",
        weight="restarts",
        expected="10 minutes",
        trap="queueing for devices is in it",
        needs="steps of both attempts",
        measure=recovery_time,
    ),
    RunSli(
        name="lost-steps",
        mission="",
        what="steps that a later attempt did again",
        formula="last step before the interruption - step resumed from",
        unit="steps",
        weight="steps",
        expected="at most two intervals between saves, each time",
        trap="known at the resume only",
        needs="steps, and the step resumed from or the checkpoint loaded",
        measure=lost_steps,
    ),
)
