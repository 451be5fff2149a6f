from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.verdicts.scenario.examples import JOB
from tests.verdicts.scenario.plan import Pace, Pauses, Scenario, Shape

from .steps import Step
from .timeline import Timeline


class OneByOne(Timeline):
    """A timeline that makes each step by itself."""

    def _plain(self, number: int) -> int:
        return 0


def arrays(step: Step) -> Iterator[np.ndarray]:
    """Yield the arrays of a step."""
    yield from (step.began, step.end, step.tokens, *step.spent.values())
    yield from (place.start for place in step.places)
    for call in (*step.calls, *step.exchanges):
        yield from (call.arrived, call.exposed)


def words(step: Step) -> list[object]:
    """Return the fields of a step that are not arrays."""
    calls = [(call.op, call.groups, call.nbytes, call.times) for call in step.calls]
    sends = [(call.op, call.groups, call.nbytes, call.times) for call in step.exchanges]
    return [step.number, [*step.spent], calls, sends, [place[1:] for place in step.places]]


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_steps_that_are_made_together_are_those_made_one_by_one(shape: Shape, ranks: int) -> None:
    scenario = replace(JOB, shape=shape, ranks=ranks, pace=Pace.TOKENS, seconds=200.0)
    scenario = replace(scenario, pauses=Pauses(31, 2.0, rank=0), saves=Pauses(47, 0.5))
    assert compare_steps(scenario) > 100


def compare_steps(scenario: Scenario) -> int:
    """Compare all steps bit by bit; return their number."""
    count = 0
    for step, reference in itertools.zip_longest(
        Timeline(scenario).steps(), OneByOne(scenario).steps()
    ):
        assert words(step) == words(reference)
        for values, reference_values in zip(arrays(step), arrays(reference), strict=True):
            np.testing.assert_array_equal(values, reference_values, strict=True)
        count += 1
    return count
