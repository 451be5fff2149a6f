"""Checkpoints: stall of the training loop, time to durable storage, and verification."""

from __future__ import annotations

from collections.abc import Iterator

from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown
from stepwatch.collector.slo.waste import Spent
from stepwatch.collector.state.trackers.checkpoints import Checkpoint
from stepwatch.collector.statistics.intervals import share_interval

_NONE = "no checkpoint is known: mark saves with Watch.checkpoint"


def checkpoints(facts: JobFacts) -> dict[int, Checkpoint]:
    """Return all attempts' checkpoints by step; a later attempt's report wins."""
    return {step: item for run, _ in facts.runs for step, item in run.checkpoints.by_step.items()}


def checkpoint_stall(facts: JobFacts) -> Reading:
    """Measure the share of device-time in which a save blocked the training loop."""
    if not checkpoints(facts):
        return unknown(_NONE)
    return facts.share(Spent.CHECKPOINT_STALL)._replace(events=len(checkpoints(facts)))


def time_to_durable(facts: JobFacts) -> Reading:
    """Measure the mean time in seconds until a checkpoint was on storage."""
    durations = [
        item.durable_seconds
        for item in checkpoints(facts).values()
        if item.durable_seconds is not None
    ]
    if not durations:
        return unknown(_NONE if not checkpoints(facts) else "no rank reports a durable checkpoint")
    return Reading(
        sum(durations) / len(durations), len(durations), detail=f"longest {max(durations):.1f} s"
    )


def checkpoint_success(facts: JobFacts) -> Reading:
    """Measure the verified share of checkpoints that verified or failed."""
    decided = [item.verified for item in checkpoints(facts).values() if item.verified is not None]
    if not decided:
        return unknown(_NONE if not checkpoints(facts) else "no checkpoint was verified or failed")
    good = sum(decided)
    low, high = share_interval(good, len(decided))
    detail = f"{good} of {len(decided)} verified"
    return Reading(good / len(decided), len(decided), low, high, detail)


def verified_age(facts: JobFacts) -> Reading:
    """Measure the work in seconds since the step of the newest verified checkpoint.

    A failure now would lose it.
    """
    verified = [step for step, item in checkpoints(facts).items() if item.is_good]
    if not verified:
        return unknown(_NONE if not checkpoints(facts) else "no checkpoint has verified")
    newest = max(verified)
    ended = max(_ends_of(facts, newest), default=None)
    if ended is None:
        return unknown(f"step {newest} of the newest verified checkpoint left the history")
    return Reading(max(0.0, facts.job.newest_s - ended), detail=f"checkpoint of step {newest}")


def _ends_of(facts: JobFacts, step: int) -> Iterator[float]:
    """Yield the step's end in each attempt; a later step than the last uses the last end."""
    for attempt in facts.attempts.values():
        index, count = step - attempt.first_step, len(attempt.steps.end_s)
        if count and index >= 0:
            yield float(attempt.steps.end_s[min(index, count - 1)])


SLIS = (
    RunSli(
        name="checkpoint-stall",
        mission="M6",
        what="device-time in which the training loop stood in a save",
        formula="phase checkpoint of all ranks / allocated",
        unit="ratio",
        weight="device-time",
        expected="at most 0.01",
        trap="an asynchronous save stalls little and is durable late: look at both",
        needs="the phase checkpoint",
        measure=checkpoint_stall,
    ),
    RunSli(
        name="time-to-durable",
        mission="M6",
        what="from the beginning of a save until it is on storage",
        formula="mean over checkpoints of the slowest rank",
        unit="seconds",
        weight="checkpoints",
        expected="less than the interval between saves",
        trap="large models",
        needs="checkpoint records with this outcome",
        measure=time_to_durable,
    ),
    RunSli(
        name="checkpoint-success",
        mission="M7",
        what="checkpoints that verify",
        formula="verified / (verified + failed)",
        unit="ratio",
        weight="checkpoints",
        expected="1",
        trap="written is not verified: partial writes look complete",
        needs="verification of checkpoints",
        measure=checkpoint_success,
    ),
    RunSli(
        name="verified-checkpoint-age",
        mission="",
        what="work that a failure now would lose (RPO)",
        formula="newest step's end - end of the step of the newest verified checkpoint",
        unit="seconds",
        weight="time",
        expected="at most two intervals between saves",
        trap="a save that is not verified does not count",
        needs="verification of checkpoints, and steps",
        measure=verified_age,
    ),
)
