"""Step time: quantiles over the newest steps, and device-time in slow steps."""

from __future__ import annotations

from collections.abc import Callable

from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown
from stepwatch.collector.state.step_facts import step_lengths
from stepwatch.collector.statistics.medians import quantiles

_NO_STEPS = "no step after the first one is known"


def _quantile(percent: int) -> Callable[[JobFacts], Reading]:
    def measure(facts: JobFacts) -> Reading:
        lengths = step_lengths(facts.job.current)
        if not len(lengths.seconds):
            return unknown(_NO_STEPS)
        (seconds,) = quantiles(lengths.seconds, (percent / 100,))
        return Reading(seconds, len(lengths.seconds), detail=f"on the {lengths.clock}s' clock")

    return measure


def spread(facts: JobFacts) -> Reading:
    """Measure p95 over p50."""
    seconds = step_lengths(facts.job.current).seconds
    if not len(seconds):
        return unknown(_NO_STEPS)
    half, most = quantiles(seconds, (0.5, 0.95))
    return Reading(most / half, len(seconds))


def usual_steps(facts: JobFacts) -> Reading:
    """Measure the share of device-time in steps no longer than twice the usual one."""
    window = facts.ratios.get("step-time")
    if window is None or not window.total:
        return unknown("the usual step is not known yet")
    return Reading(float(window.good / window.total))


SLIS = (
    *(
        RunSli(
            name=f"step-time-p{percent}",
            mission="M5",
            what=f"step time that {percent} % of the newest steps stay below",
            formula="quantile over steps of the slowest rank's time, the first step left out",
            unit="seconds",
            weight="steps",
            expected="p95 at most twice p50",
            trap="of the newest attempt, and of steps that are held; quantiles cannot be averaged",
            needs="steps",
            measure=_quantile(percent),
        )
        for percent in (50, 95, 99)
    ),
    RunSli(
        name="step-time-spread",
        mission="M5",
        what="p95 of step time over p50",
        formula="p95 / p50",
        unit="times",
        weight="steps",
        expected="at most 2",
        trap="tiny batches spread by nature",
        needs="steps",
        measure=spread,
    ),
    RunSli(
        name="step-time",
        mission="M5",
        what="device-time in steps no longer than twice the usual one",
        formula="device-seconds in such steps / device-seconds in steps",
        unit="ratio",
        weight="device-time",
        expected="0.95",
        trap="the attempt's first steps are the baseline",
        needs="steps",
        measure=usual_steps,
    ),
)
