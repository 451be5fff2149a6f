"""Duration of the job, and its queue wait."""

from __future__ import annotations

from stepwatch.collector.job_states import FINISHED
from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown


def time_to_complete(facts: JobFacts) -> Reading:
    """Measure the seconds from the first start to the last step of a finished job."""
    begins = [run.lifecycle.began_s for run, _ in facts.runs if run.lifecycle.began_s > 0]
    if not begins:
        return unknown("no rank reported its start")
    seconds = facts.job.newest_s - min(begins)
    if facts.state != FINISHED:
        return unknown(f"it has not finished; {seconds:.0f} s so far")
    return Reading(seconds)


SLIS = (
    RunSli(
        name="time-to-complete",
        mission="M2",
        what="from the first start of the first attempt to the last step",
        formula="end - start",
        unit="seconds",
        weight="jobs",
        expected="per class",
        trap="preemptions are in it; a job that failed has none",
        needs="starts and steps",
        measure=time_to_complete,
    ),
)
