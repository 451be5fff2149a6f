"""Cost of gradient synchronisation and pipeline stages."""

from __future__ import annotations

from stepwatch.collector.analysis.pipeline_stages import pipeline
from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown
from stepwatch.collector.slo.waste import Spent
from stepwatch.collector.state.step_clock import rank_seconds_on, step_timing
from stepwatch.collector.step_clocks import DEVICE

_NEWEST = 128


def collective_time(facts: JobFacts) -> Reading:
    """Measure the share of step time in collectives, waiting and transferring."""
    attempt = facts.job.current
    seconds = rank_seconds_on(attempt, step_timing(attempt).clock)
    total = float(seconds["duration"].sum()) if "duration" in seconds else 0.0
    if not total > 0:
        return unknown("no step is known")
    on = "device" if step_timing(attempt).clock == DEVICE else "host"
    return Reading(float(seconds["collective"].sum()) / total, detail=f"on the {on}s' clock")


def exposed_communication(facts: JobFacts) -> Reading:
    """Measure the share of device-time in transfers that no work hides."""
    return facts.share(Spent.EXPOSED_COMMUNICATION)


def arrival_skew(facts: JobFacts) -> Reading:
    """Measure the share of device-time that ranks waited in collectives for later ranks."""
    return facts.share(Spent.STRAGGLING)


def bubble_over_ideal(facts: JobFacts) -> Reading:
    """Measure the pipeline bubble beyond its schedule's unavoidable bubble."""
    attempt = facts.job.current
    stages = pipeline(attempt.window(_NEWEST))
    if stages is None or stages.bubble_ratio is None:
        return unknown("it is not a pipeline, or its stages are not known")
    schedule = attempt.lifecycle.schedule
    if schedule is None or schedule.ideal_bubble_ratio is None:
        return unknown(f"no rank names the schedule; the bubble is {stages.bubble_ratio:.1%}")
    ideal = schedule.ideal_bubble_ratio
    detail = f"{stages.bubble_ratio:.1%}, ideal of {schedule.name} {ideal:.1%}"
    return Reading(stages.bubble_ratio - ideal, detail=detail)


SLIS = (
    RunSli(
        name="collective-time",
        mission="M9",
        what="step time in collectives: waiting for others and transferring",
        formula="sum over ranks of time in collectives / sum of step time, newest attempt",
        unit="ratio",
        weight="device-time",
        expected="a small share of the step",
        trap="it depends on tensor sizes; on the host's clock it covers only the host's waits",
        needs="collectives that hooks see",
        measure=collective_time,
    ),
    RunSli(
        name="exposed-communication",
        mission="M9",
        what="device-time in transfers that no work hides",
        formula="ranks x time in collectives of the rank that waits least / allocated",
        unit="ratio",
        weight="device-time",
        expected="a small share of the step",
        trap="it excludes the ranks' waits for each other",
        needs="collectives that hooks see, and accounts",
        measure=exposed_communication,
    ),
    RunSli(
        name="arrival-skew",
        mission="M9",
        what="device-time that ranks waited in collectives for ranks that came later",
        formula="(collectives of all ranks - ranks x that of the least waiting) / allocated",
        unit="ratio",
        weight="device-time",
        expected="a small share of the step",
        trap="uneven work shows here, not in the network",
        needs="collectives that hooks see, and accounts",
        measure=arrival_skew,
    ),
    RunSli(
        name="bubble-over-ideal",
        mission="",
        what="idle share of the pipeline beyond its schedule's own bubble",
        formula="waits for neighbours / (work + waits) - the schedule's ideal, newest steps",
        unit="ratio",
        weight="device-time",
        expected="at most 0.05",
        trap="stages of unequal work make bubbles that no schedule avoids",
        needs="a pipeline, and Watch.schedule",
        measure=bubble_over_ideal,
    ),
)
