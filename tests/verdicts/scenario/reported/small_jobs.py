"""A small job with a fault, and its incidents, for tests of mechanisms."""

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
    """Return the incidents that are not merged into another one."""
    return [incident for incident in replay(scenario).incidents if not incident["merged_into"]]


def job(
    kind: FaultKind, *ranks: int, onset: float = 30.0, seconds: float = 75.0, **more: Any
) -> Any:
    """Return the small job with one fault; `more` sets fields of the scenario or the fault."""
    of_fault = {name: more.pop(name) for name in ("effect", "period", "node") if name in more}
    fault = Fault(kind, ranks, onset=onset, **of_fault)
    return replace(JOB, step_seconds=0.5, faults=(fault,), seconds=seconds, **more)
