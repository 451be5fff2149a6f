"""Runs that ended before a scenario: an earlier attempt, or other jobs of its class."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from stepwatch.signals.records import LifecycleEvent

from .plan import History, Scenario, Telemetry

_STEPS = 60
"""Steps of a run: more than a job's first steps, which are its baseline."""
CLASS_JOBS = 3
BETWEEN_SECONDS = 8.0
"""From the earlier runs' end to the job's beginning."""
_SPREAD = 0.2
"""Spread of transfers between runs, as a logarithm: each run has its own place in the network."""
_OTHER_SEEDS = 7_000_000_000_000
"""More than all scenarios' seeds: another machine, other batches."""


def earlier_runs(scenario: Scenario) -> list[Scenario]:
    """Return healthy runs that end before the scenario, empty without a history.

    They begin together: an earlier attempt of the job, or other jobs in its class. Each lasts
    `BETWEEN_SECONDS` longer than its ranks work.
    """
    count = {History.NONE: 0, History.ATTEMPT: 1, History.CLASS: CLASS_JOBS}[scenario.history]
    same_job = scenario.history is History.ATTEMPT
    return [
        replace(
            scenario,
            seed=_OTHER_SEEDS + CLASS_JOBS * scenario.seed + number,
            name=scenario.job if same_job else f"{scenario.job}-before-{number}",
            seconds=float(round(_STEPS * scenario.step_seconds + BETWEEN_SECONDS + 5.0)),
            faults=(),
            telemetry=Telemetry(),
            transfer_times=_transfer_times(scenario.seed, number),
            ends=LifecycleEvent.INTERRUPT if same_job else LifecycleEvent.FINISH,
        )
        for number in range(count)
    ]


def _transfer_times(seed: int, number: int) -> float:
    return math.exp(random.Random(f"transfers {seed} {number}").gauss(0.0, _SPREAD))
