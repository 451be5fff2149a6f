"""What a run was, in one JSON object: enough to compare it with another run later."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from stepwatch.collector.runtime.evaluation import Verdicts, job_facts
from stepwatch.collector.slo.over_run.registry import discover_run_slis, readings
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.step_clock import rank_seconds_on, step_timing
from stepwatch.collector.state.step_facts import clock_of, step_facts
from stepwatch.collector.state.trackers.run_facts import RunFacts
from stepwatch.collector.state.trackers.step_history import WARMUP_STEPS, StepFacts
from stepwatch.signals.records import PHASE_NAMES

MOST_BLOCKS = 32
"""Parts of a run, of equally many steps: how much these differ says how sure a comparison is."""
LEAST_BLOCK_STEPS = 5


def job_run(job: LiveJob, verdicts: Verdicts, now: float) -> dict[str, Any]:
    """The newest attempt's pace and where its steps went, the job's SLIs, and what it is made of.

    `blocks` are of steps after the warm-up in which every rank reported, without checkpoints and
    evaluation: those of which rows are held, of a long run the newest.
    """
    facts, known = job_facts(job, verdicts, now), discover_run_slis()
    attempt = job.current
    history = attempt.step_history
    return {
        "job": job.name,
        "job_class": attempt.job_class,
        "attempt": attempt.number,
        "state": facts.state,
        "slos": [],
        "open_incidents": len(verdicts.open_incidents()),
        "began_at": attempt.began_s,
        "world_size": attempt.world,
        "clock": clock_of(job.totals.steps_on),
        "blocks": blocks(step_facts(attempt, None), history.held_from - history.first),
        "phase_shares": _phases(attempt),
        "slis": {
            name: {"value": found.value, "unit": known[name].unit, "unknown": found.unknown}
            for name, found in readings(facts).items()
        },
        "device_seconds": verdicts.accounts.seconds(),
        "incidents": dict(Counter(each.kind for each in verdicts.incidents.values())),
        "facts": attempt.tracker(RunFacts).known(),
    }


def blocks(steps: StepFacts, before: int = 0) -> list[dict[str, float]]:
    """Steps, tokens and seconds of equal parts of a run, in time order.

    `before` is how many steps of the attempt are no longer held. Of 70 steps after the warm-up: 14
    blocks of 5 steps. What is left over at the beginning is in none of them.
    """
    whole = (steps.observed == steps.world) & (steps.longest > 0)
    whole[: max(WARMUP_STEPS - before, 0)] = False
    seconds, tokens = steps.longest[whole], steps.tokens[whole]
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


def _phases(attempt: Attempt) -> dict[str, float]:
    """The share of step time in each phase, in collectives and in waits for neighbours."""
    sums = rank_seconds_on(attempt, step_timing(attempt).clock)
    total = float(sums["duration"].sum()) if "duration" in sums else 0.0
    if not total > 0:
        return {}
    names = (*PHASE_NAMES, "collective", "pipeline_wait")
    return {name: float(sums[name].sum()) / total for name in names}
