"""What ran before a scenario, and is over: an earlier attempt, or other jobs of its class."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from stepwatch.signals.records import LifecycleEvent

from .plan import History, Scenario, Telemetry

_STEPS = 60
"""Beyond the first steps of a job, which are what others are compared with."""
CLASS_JOBS = 3
BETWEEN_SECONDS = 8.0
"""From the end of what ran before to the beginning of the job."""
_SPREAD = 0.2
"""Of transfers between runs, as a logarithm: no two have the same place in a network."""
_OTHER_SEEDS = 7_000_000_000_000
"""Beyond those of all scenarios: another machine, other batches."""


def earlier_runs(scenario: Scenario) -> list[Scenario]:
    """Healthy runs at the same time, `BETWEEN_SECONDS` longer than their ranks work: of the same
    job, whose attempt comes next, or of others. Empty where nothing is known from before."""
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
