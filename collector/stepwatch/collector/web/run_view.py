"""A run as one JSON object, with enough data to compare it with another run later."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from stepwatch.collector.analysis.newest_steps import newest_window
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts, job_facts
from stepwatch.collector.slo.over_run.registry import discover_run_slis, readings
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.step_facts import clock_of, step_facts
from stepwatch.collector.state.trackers.run_facts import RunFacts
from stepwatch.collector.state.trackers.steps.step_history import WARMUP_STEPS, StepFacts
from stepwatch.collector.web.job_view import cost_so_far
from stepwatch.collector.web.schema.job import Block, JobRun, PhaseSeconds
from stepwatch.signals.records import PHASE_NAMES, StepFlag

MOST_BLOCKS = 32
"""Maximum number of blocks with equal step counts.

Their variance gives a comparison's certainty.
"""
LEAST_BLOCK_STEPS = 5


def job_run(job: LiveJob, verdicts: Verdicts, now: float) -> JobRun:
    """Return the newest attempt's pace and phase times, the job's SLIs, and the configuration.

    `blocks` cover steps after the warm-up that every rank reported, without checkpoints and
    evaluation. Only stored rows count: for a long run, the newest.
    """
    facts, run_slis = job_facts(job, verdicts, now), discover_run_slis()
    attempt = job.current
    history = attempt.steps.history
    return {
        "job": job.name,
        "job_class": attempt.job_class,
        "attempt": attempt.number,
        "state": facts.state,
        "slos": [],
        "open_incidents": len(verdicts.open_incidents()),
        "began_at": attempt.lifecycle.began_s,
        "world_size": attempt.world,
        "clock": clock_of(job.totals.steps_on),
        "blocks": blocks(step_facts(attempt, None), history.held_from - history.first),
        "phase_seconds": phase_seconds(attempt),
        "slis": {
            name: {"value": reading.value, "unit": run_slis[name].unit, "unknown": reading.unknown}
            for name, reading in readings(facts).items()
        },
        "device_seconds": verdicts.accounts.seconds(),
        "cost": cost_so_far(job, verdicts),
        "incidents": dict(Counter(incident.kind for incident in verdicts.incidents.values())),
        "facts": attempt.tracker(RunFacts).facts(),
    }


def blocks(steps: StepFacts, dropped_steps: int = 0) -> list[Block]:
    """Return steps, tokens and seconds for equal parts of a run, in time order.

    `dropped_steps` counts the steps no longer in the history. 70 steps after the warm-up give 14
    blocks with 5 steps. A remainder at the beginning is left out.
    """
    complete = (steps.observed == steps.world) & (steps.longest > 0)
    complete[: max(WARMUP_STEPS - dropped_steps, 0)] = False
    seconds, tokens = steps.longest[complete], steps.tokens[complete]
    count = min(MOST_BLOCKS, len(seconds) // LEAST_BLOCK_STEPS)
    if not count:
        return []
    size = len(seconds) // count
    seconds, tokens = seconds[-count * size :], tokens[-count * size :]
    return [
        {"steps": size, "tokens": int(in_block), "seconds": float(took)}
        for in_block, took in zip(
            np.reshape(tokens, (count, size)).sum(axis=1),
            np.reshape(seconds, (count, size)).sum(axis=1),
            strict=True,
        )
    ]


def phase_seconds(attempt: Attempt) -> PhaseSeconds:
    """Return mean seconds per step over ranks, by phase, in collectives and in pipeline waits.

    The `steps` are at most the newest 64 (fewer for a large run), after the warm-up, finished by
    every rank, without a checkpoint or an evaluation. One-time work such as compiling is therefore
    excluded. All times are on one clock.
    """
    window = newest_window(attempt)
    pauses = np.nansum([window.planes[name] for name in ("checkpoint", "eval")], axis=(0, 2))
    complete = ~np.isnan(window.planes["duration"]).any(axis=1) & (pauses == 0)
    complete &= (window.flags & StepFlag.UNFINISHED == 0).all(axis=1)
    complete &= window.steps >= attempt.steps.history.first + WARMUP_STEPS
    complete_window = window.select(complete)
    names = (*PHASE_NAMES, "collective", "pipeline_wait") if len(complete_window.steps) else ()
    means = {name: float(np.nanmean(complete_window.planes[name])) for name in names}
    return {
        "steps": len(complete_window.steps),
        "seconds": {name: mean for name, mean in means.items() if math.isfinite(mean)},
    }
