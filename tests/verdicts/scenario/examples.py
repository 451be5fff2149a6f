"""A small job, with and without a fault, for tests."""

from __future__ import annotations

from dataclasses import replace

from .plan import Fault, FaultKind, Pace, Scenario, Shape

JOB = Scenario(
    seed=3, shape=Shape.DDP, ranks=4, nodes=2, step_seconds=1.0, pace=Pace.CONSTANT, seconds=400.0
)


def with_fault(kind: FaultKind, *ranks: int, **options: float) -> Scenario:
    """Return the job with one fault from second 50."""
    fault = Fault(kind, ranks, onset=50.0)
    return replace(JOB, faults=(replace(fault, **options),))  # type: ignore[arg-type]
