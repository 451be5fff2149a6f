"""A small job with a fault, and what is found in it: what tests of mechanisms start from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.verdicts.scenario.examples import JOB
from tests.verdicts.scenario.plan import (
    Fault,
    FaultKind,
    Scenario,
)

from .replay import replay


def incidents(scenario: Scenario) -> list[dict[str, Any]]:
    """Incidents that stand on their own."""
    return [incident for incident in replay(scenario).incidents if not incident["merged_into"]]


def job(
    kind: FaultKind, *ranks: int, onset: float = 30.0, seconds: float = 75.0, **more: Any
) -> Any:
    """The small job with one fault; `more` goes into the scenario and, if it fits, the fault."""
    of_fault = {name: more.pop(name) for name in ("effect", "period", "node") if name in more}
    fault = Fault(kind, ranks, onset=onset, **of_fault)
    return replace(JOB, step_seconds=0.5, faults=(fault,), seconds=seconds, **more)
